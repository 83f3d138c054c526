"""The SBOM: its jars, every package of the lock file, and the schema of CycloneDX."""

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from scripts.sbom import ROOT, build, components, validate


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("org.xerial_sqlite-jdbc-3.47.1.0.jar", "org.xerial/sqlite-jdbc@3.47.1.0"),
        (
            "org.apache.spark_spark-sql-kafka-0-10_2.13-4.0.0.jar",
            "org.apache.spark/spark-sql-kafka-0-10_2.13@4.0.0",
        ),
    ],
)
def test_a_jar_is_named_as_maven_names_it(name: str, place: str, tmp_path: Path) -> None:
    jar = tmp_path / name
    jar.write_bytes(b"a jar")
    (made,) = components([jar])
    assert made["purl"] == f"pkg:maven/{place}"
    assert made["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"a jar").hexdigest()}]


def test_a_jar_of_another_origin_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"mine\.jar"):
        components([tmp_path / "mine.jar"])


def test_the_document_has_every_locked_package_and_is_what_cyclonedx_says(tmp_path: Path) -> None:
    jar, out = tmp_path / "org.xerial_sqlite-jdbc-3.47.1.0.jar", tmp_path / "sbom.cdx.json"
    jar.write_bytes(b"a jar")
    packages = build(out, [jar])
    document = json.loads(out.read_text(encoding="utf-8"))
    lock = (ROOT / "requirements-run.lock").read_text(encoding="utf-8")
    locked = set(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock, re.MULTILINE))
    found = {(one["name"], one["version"]) for one in document["components"]}
    assert len(locked) > 20 and found == locked | {("sqlite-jdbc", "3.47.1.0")}
    assert packages == len(locked)
    document["components"][0]["type"] = "nothing"
    out.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError):
        validate(out)
