"""What the pages show can be typed: commands have the options that are shown, and files are read as written."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import tomlkit

from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.cli import main
from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import forget

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
JOB = """
[job]
name = "shop"
[source]
kind = "kafka"
bootstrap-servers = "broker:9092"
topics = ["shop"]
protocol = "simple"
[sink]
kind = "iceberg"
warehouse = "lake"
"""
FEED = """
[sink]
protocol = "simple"
"""
# Sections of a changefeed's file, and not of a job's.
_OF_FEEDS = ("filter", "ticdc-spark")
# Not a whole section: test_operating has what the job itself prints.
_BARE = {"skip-ddl"}
NOT_RUN = {
    "make": "the targets are there; they run the tests themselves",
    "python3": "test_install makes an environment with pip",
    ".venv/bin/pip": "test_install",
    "pip": "test_install",
    ".venv/bin/python": "test_benchmarks imports what it runs",
    "export": "of the shell",
    "echo": "test_tutorial",
    "cdc": "TiCDC, which is not here",
    "tiup": "TiDB's tool, which is not here",
    "spark-sql": "the coordinates are compared in test_docs",
    '"$SPARK_HOME/bin/spark-class"': "test_cluster",
    "curl": "test_server and test_job_site ask the same addresses",
    "ssh": "of the system",
    "kill": "of the shell",
    "docker": "there is no engine here",
    "helm": "test_kubernetes reads what it rendered",
    "kubectl": "there is no cluster here",
    "useradd": "of the system",
    "install": "of the system",
    "runuser": "of the system; test_prepare runs the command",
    "systemctl": "of the system; test_systemd reads the unit",
    "journalctl": "of the system",
    "/opt/ticdc-spark/bin/pip": "test_install",
    "keytool": "Java's own; test_lake_tls makes a trust store with it",
    "kafka-configs.sh": "Kafka's own tool",
    "cd": "of the shell",
    "cp": "of the shell",
}
"""Other commands that the pages show, and which test runs them or why none does."""
PYTHON = {
    "README.md": "tests/spark/test_tutorial.py",
    "docs/tutorial/first-query.md": "tests/spark/test_tutorial.py",
    "docs/how-to/read-the-lake.md": "tests/spark/test_tutorial.py",
    "docs/reference/state-table.md": "tests/spark/test_tutorial.py",
    "docs/how-to/python.md": "tests/support/python_examples.py",
    "docs/how-to/spark-source.md": "tests/integration/test_datasource.py",
    "docs/how-to/delta.md": "tests/spark/test_delta_job.py",
}
"""Pages with examples in Python, and what runs them. One block is left to you: DuckDB is not installed here."""
_FILES = (
    "password",
    "page-token",
    "hook-key",
    "ca.pem",
    "lake-ca.pem",
    "client.pem",
    "demo/topic/x",
    "dump/metadata",
    "feed/x",
    "state/x",
    "orders.sql",
)


def blocks(page: Path, *kinds: str) -> list[str]:
    return re.findall(rf"^```(?:{'|'.join(kinds)})\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def commands() -> Iterator[tuple[str, str]]:
    """Page and command line of everything that a reader may type."""
    for page in PAGES:
        for block in blocks(page, "sh", "bash", "console"):
            for line in re.sub(r"\\\n\s*", "", block).splitlines():
                typed = line.removeprefix("$ ").removeprefix(".venv/bin/")
                if typed.startswith("ticdc-spark "):
                    yield str(page.relative_to(ROOT)), typed
        for typed in re.findall(r"`(ticdc-spark [a-z-]+ [^`]*)`", page.read_text(encoding="utf-8")):
            yield str(page.relative_to(ROOT)), " ".join(typed.split())


@pytest.mark.parametrize(("page", "typed"), sorted(set(commands())))
def test_a_command_that_a_page_shows_has_these_options(page: str, typed: str) -> None:
    name, *arguments = shlex.split(typed, comments=True)[1:]
    group = click.Context(main, info_name="ticdc-spark")
    if name in ("--version", "--help", "-h"):
        return
    if name == "-v":
        name, *arguments = arguments
    if name == "--log-format":
        _, name, *arguments = arguments
    command = main.get_command(group, name)
    assert command is not None, f"{page}: {typed}"
    arguments = [each for each in arguments if each not in ("…", "TABLE…")]
    command.make_parser(click.Context(command, info_name=name, parent=group)).parse_args(arguments)


@pytest.mark.parametrize("line", ["ticdc-spark status --no-such-option shop.toml"])
def test_an_option_that_is_not_there_is_found(line: str) -> None:
    with pytest.raises(click.NoSuchOption):
        test_a_command_that_a_page_shows_has_these_options("a page", line)


def others() -> Iterator[str]:
    """Lines that begin with another command than ours."""
    for page in PAGES:
        for kind, block in re.findall(
            r"^```(sh|bash|console)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S
        ):
            for line in re.sub(r"\\\n\s*", "", re.sub(r"<<'END'\n.*?\nEND\n", "\n", block, flags=re.S)).splitlines():
                typed = line.removeprefix("$ ") if kind == "console" and line.startswith("$ ") else line
                shown = kind == "console" and not line.startswith("$ ")
                if typed.strip() and not shown and not re.match(r"\s*(?:#|(?:\.venv/bin/)?ticdc-spark )", typed):
                    yield typed


def test_what_else_a_reader_types_is_run_or_has_a_reason() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for typed in others():
        word = typed.split()[0]
        assert word in NOT_RUN, typed
        if word == "make":
            assert typed.split()[1] in targets, typed


def test_every_example_in_python_is_run_by_a_test() -> None:
    pages = {str(page.relative_to(ROOT)) for page in PAGES if blocks(page, "python")}
    assert pages == PYTHON.keys()
    for page, test in PYTHON.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8"), test


def examples() -> list[tuple[str, str]]:
    return [(str(page.relative_to(ROOT)), block) for page in PAGES for block in blocks(page, "toml")]


@pytest.mark.parametrize(("page", "block"), examples())
def test_a_file_that_a_page_shows_is_read(
    page: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in re.findall(r"\$\{env:(\w+)", block):
        monkeypatch.setenv(name, "a-long-secret-of-27-letters")
    for name in _FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(
            "-----BEGIN CERTIFICATE-----\n" if name.endswith(".pem") else "a-long-secret-of-27-letters"
        )
    found = tomllib.loads(block)
    file = tmp_path / "shop.toml"
    if found.get("sink", {}).get("protocol") == "csv":
        return  # TiCDC's file for its storage sink: there is none here
    if set(found) & set(_OF_FEEDS) or "kind" not in found.get("sink", {"kind": ""}):
        file.write_text(tomlkit.dumps(merged(tomllib.loads(FEED), found)))
        load_changefeed(file, sink_uri="kafka://broker:9092/shop")
    else:
        if set(found) <= _BARE:
            found = {"job": found}
        file.write_text(tomlkit.dumps(merged(tomllib.loads(JOB), found)))
        load_job(file)
    forget()


def merged(base: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The sections of a block, and those of a whole file that it does not have."""
    for title, section in found.items():
        whole = isinstance(section, list) or "kind" in section or title not in base
        base[title] = section if whole else {**base[title], **section}
    return base
