"""``make sbom``: writes dist/sbom.cdx.json, the Python packages and jars of an image, as CycloneDX.

The packages are from requirements-run.lock, by cyclonedx-py. The jars are the ones that deploy/image/bake_jars.py
fetches. Debian's packages are not in it, as a scanner of images finds them. The first run needs the network.
"""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from ticdc_spark.spark.session.jars import resolve_jars

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "dist" / "sbom.cdx.json"
_UV = Path(sys.executable).with_name("uv")
_TOOL = (_UV, "tool", "run", "--quiet", "--from", "cyclonedx-bom==7.5.0")
_VALIDATE = """
import json, pathlib, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
version = SchemaVersion.from_version(json.loads(text)["specVersion"])
sys.exit(str(JsonStrictValidator(version).validate_str(text) or "") or None)
"""
_JAR = re.compile(r"(?P<group>[^_]+)_(?P<name>.+)-(?P<version>\d[^-]*)\.jar")
"""Ivy's name of a jar: ``org.xerial_sqlite-jdbc-3.47.1.0.jar``."""


def jars() -> list[Path]:
    """The jars of every kind of job."""
    spec = spec_from_file_location("bake_jars", ROOT / "deploy" / "image" / "bake_jars.py")
    assert spec is not None and spec.loader is not None
    bake = module_from_spec(spec)
    spec.loader.exec_module(bake)
    (extra,) = re.findall(r"bake_jars\.py (org\.\S+)", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"))
    return sorted({Path(jar) for packages in bake.requests([extra]) for jar in resolve_jars(packages, {})})


def components(found: Iterable[Path]) -> list[dict[str, Any]]:
    """Jars as components of CycloneDX. Raises: ValueError for a jar without Ivy's name"""
    made = []
    for jar in found:
        named = _JAR.fullmatch(jar.name)
        if named is None:
            raise ValueError(f"{jar.name} does not name its group, its artifact and its version")
        purl = "pkg:maven/{group}/{name}@{version}".format(**named.groupdict())
        hashes = [{"alg": "SHA-256", "content": hashlib.sha256(jar.read_bytes()).hexdigest()}]
        made.append({"type": "library", "bom-ref": purl, **named.groupdict(), "purl": purl, "hashes": hashes})
    return made


def build(out: Path, found: Iterable[Path]) -> int:
    """Write the document, with jars, and check it against CycloneDX's schema. Returns: the number of packages

    Raises: CalledProcessError, also for a document that the schema refuses
    """
    out.parent.mkdir(exist_ok=True)
    options = [
        "--pyproject",
        ROOT / "pyproject.toml",
        "--output-reproducible",
        "--no-validate",
        "--of",
        "JSON",
        "-o",
        out,
    ]
    subprocess.run([*_TOOL, "cyclonedx-py", "requirements", *options, ROOT / "requirements-run.lock"], check=True)
    document = json.loads(out.read_text(encoding="utf-8"))
    packages = len(document["components"])
    document["components"] += components(found)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    validate(out)
    return packages


def validate(document: Path) -> None:
    """Check a document against CycloneDX's schema. Raises: CalledProcessError"""
    subprocess.run([*_TOOL, "python", "-c", _VALIDATE, document], check=True)


def main() -> None:
    """Write it."""
    found = jars()
    packages = build(OUT, found)
    print(f"{OUT.relative_to(ROOT)}: {packages} packages, {len(found)} jars")


if __name__ == "__main__":
    main()
