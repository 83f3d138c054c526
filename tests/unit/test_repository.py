"""Nothing in the repository names the machine or the registries that it was written with."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Written in pieces, so that this file passes its own test.
MACHINE_PATHS = ["/" + root + "/" for root in ("work", "tmp/w", "root", "opt/wheels", "home/[a-z]+", "Users/[A-Za-z]+")]
REGISTRY_HOSTS = [
    name + "." + domain
    for name, domain in (
        (r"pypi\b", "org"),
        (r"pythonhosted", "org"),
        (r"maven", r"org"),
        (r"maven\.apache", "org"),
        (r"central\.sonatype", "(?:com|org)"),
        (r"oss\.sonatype", "org"),
        (r"crates", "io"),
        (r"npmjs", "(?:com|org)"),
        (r"proxy\.golang", "org"),
        (r"deb\.debian", "org"),
    )
]
FORBIDDEN = re.compile("|".join([rf"(?:(?<![\w.$~}}/-])|file://){path}" for path in MACHINE_PATHS] + REGISTRY_HOSTS))


def our_files() -> list[Path]:
    # A clone that belongs to someone else, as in a container, is still ours to read. New files count too.
    git = ["git", "-c", f"safe.directory={ROOT}"]
    command = [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_nothing_names_a_machine_or_a_registry() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in our_files()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
        if (match := FORBIDDEN.search(line))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "cd /" + "work/main",
        "x = '/" + "tmp/w/v'",
        "file:///" + "root/x",
        "https://files.pythonhosted." + "org/x",
        "https://repo1.maven." + "org/x",
        "https://registry.npmjs." + "org/x",
    ],
)
def test_the_search_finds(text: str) -> None:
    assert FORBIDDEN.search(text)


@pytest.mark.parametrize("text", ["src/work/file", "$TMP/root/x", "org.apache.iceberg:iceberg-spark", "/tmp/x"])
def test_the_search_leaves_alone(text: str) -> None:
    assert not FORBIDDEN.search(text)
