"""The jars of the SBOM."""

import hashlib
from pathlib import Path

import pytest
from scripts.sbom import components


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
