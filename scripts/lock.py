"""Pins the dependencies of pyproject.toml: ``lock.py`` writes the lock files, ``lock.py --check`` compares, offline.

The first line of a lock file is a digest of its input, so the check needs no network.
"""

import hashlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {
    "requirements-build.lock": ["--group", "build"],
    "requirements.lock": ["pyproject.toml", "--group", "dev"],
    # For the image: the same versions, without developers' tools.
    "requirements-run.lock": ["pyproject.toml", "--constraint", "requirements.lock"],
}


def header() -> str:
    """The first line of a lock file: a digest of the part of pyproject.toml that decides what is locked."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = pyproject["project"]
    inputs = [
        project["requires-python"],
        project["dependencies"],
        pyproject["dependency-groups"],
        pyproject["tool"]["uv"],
    ]
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    return f"# made by make lock from pyproject.toml, whose dependencies have the digest {digest}\n"


def write() -> None:
    """Resolve again, and keep the pins that still fit."""
    uv = Path(sys.executable).with_name("uv")
    options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-header"]
    for name, inputs in LOCKS.items():
        subprocess.run([uv, "pip", "compile", "-q", *options, "-o", name, *inputs], cwd=ROOT, check=True)
        lock = ROOT / name
        lock.write_text(header() + lock.read_text(encoding="utf-8"), encoding="utf-8")


def check() -> int:
    """Return 1, and name the file, if a lock file was not made from the present pyproject.toml."""
    status = 0
    for name in LOCKS:
        with (ROOT / name).open(encoding="utf-8") as lock:
            if lock.readline() != header():
                print(f"{name} is not in step with pyproject.toml: run make lock", file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(check())
    write()
