"""The tutorial works as it is written: its files, its commands with what they show, and its queries."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from click.testing import CliRunner

from tests.support.python_examples import marked, run_examples
from ticdc_spark.cli import main
from ticdc_spark.cli.demo import RECORDED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "first-query.md"
_BLOCK = re.compile(r"^```(sh|console|toml|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Commands that other tests run: test_install the first four, test_demo the last.
ELSEWHERE = {
    "python3 -m venv .venv",
    ".venv/bin/pip install .",
    'export PATH="$PWD/.venv/bin:$PATH"',
    "ticdc-spark --version",
    "ticdc-spark demo",
}


def words(text: str) -> list[str]:
    """Lines with one space between two words, without the time that a line of the log begins with."""
    lines = (" ".join(re.sub(r"^[\d:. -]*(?=error: )", "", line).split()) for line in text.splitlines())
    return [line for line in lines if line]


def run(command: str) -> tuple[int, list[str]]:
    """Run one line of a console block: the exit code, and what it prints."""
    done = CliRunner().invoke(main, command.removeprefix("ticdc-spark ").split(), catch_exceptions=False)
    return done.exit_code, words(done.output)


def show(block: str, code: int) -> int:
    """Run a console block; each line that the page shows must be one that is printed. Returns: the last exit code."""
    printed: list[str] = []
    for line in block.splitlines():
        if line == "$ echo $?":
            printed = [str(code)]
        elif line.startswith("$ "):
            code, printed = run(line.removeprefix("$ "))
        else:
            (wanted,) = words(line)
            start = wanted.removesuffix(" …")
            assert any(found == wanted or (start != wanted and found.startswith(start)) for found in printed), (
                f"{line}\n{printed}"
            )
    return code


RUN = """
from tests.spark.test_tutorial import follow
from tests.support.spark_session import allow_open_sockets, shared_session

with shared_session():
    follow()
"""


def follow() -> None:
    """Do what the page says, in this folder."""
    names: dict[str, object] = {}
    code, ran = 0, 0
    for kind, block in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "sh":
            assert set(block.splitlines()) <= ELSEWHERE
        elif kind == "toml":
            with Path("first.toml").open("a", encoding="utf-8") as job:
                job.write(block)
        elif kind == "console":
            code = show(block, code)
        else:
            exec(compile(block, PAGE.name, "exec"), names)
            ran += 1
    assert ran == 3
    # Other pages show the same lake.
    Path("first.toml").rename("shop.toml")
    for page in ("how-to/read-the-lake.md", "reference/state-table.md", "../README.md"):
        plain = [code for mark, code in marked(page) if mark != "duckdb"]
        assert plain, page
        run_examples(plain)


def test_the_tutorial_works_as_it_is_written(tmp_path: Path) -> None:
    """In a process of its own: a session that others have used knows the catalog `lake` already."""
    shutil.copytree(RECORDED / "topic", tmp_path / "demo" / "topic")
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    until = time.monotonic() + 30
    while (left := tmp_path / "artifacts").exists() and time.monotonic() < until:
        time.sleep(0.2)  # its JVM is still ending
    assert not left.exists(), "Spark leaves nothing where it ran"
