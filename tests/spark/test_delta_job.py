"""Jobs that write to Delta tables, which deltalake reads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from tests.integration.test_mysql_commands import command
from tests.spark.deaths import (
    END,
    FIRST,
    GATHERED,
    SECOND,
    STEPS,
    U2,
    W1,
    C,
    T,
    U,
    V,
    W,
    create,
    delete,
    once_at,
    run_with_deaths,
    update,
)
from tests.spark.lake import replicate
from tests.spark.simple_topic import ddl, insert, table, topic
from ticdc_spark import consistent, table_snapshots
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.model import Change, Watermark
from ticdc_spark.replicate.run.watch import Watcher

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "delta.md"
POINTS = {"append", "merge", "ddl", "intent", "fill", "stamp", "create", "take", "swap", *STEPS, *GATHERED}
"""What a job passes."""
D = msgspec.structs.replace(C, name="d")
T1, T2, T3 = (msgspec.structs.replace(T, columns=(*T.columns[:1], *more)) for more in ((V, C), (V, D), (D,)))
T4 = msgspec.structs.replace(T3, name="t2")
A, B = (table(10, V, name=name) for name in "ab")
BEGINNING: tuple[Change, ...] = (
    *(create(one, 10) for one in (T, U, W, A, B)),
    *(insert(one, 20 + at, id=str(at), v=str(at)) for one in (T, U, W) for at in range(1, 4)),
    *(insert(one, 20, id="1", v="1000") for one in (A, B)),
    Watermark(30),
)
MOVES = [
    change
    for at in range(1, 4)
    for change in (
        update(A, 30 + at, {"id": "1", "v": str(1001 - at)}, v=str(1000 - at)),
        update(B, 30 + at, {"id": "1", "v": str(999 + at)}, v=str(1000 + at)),
        Watermark(31 + at),
    )
]
"""One is moved from one table to another at each commitTs."""
ENDING: tuple[Change, ...] = (
    *MOVES,
    update(T, 40, {"id": "1", "v": "1"}, v="11"),
    delete(T, 41, id="2", v="2"),
    ddl("ALTER", 50, "ALTER TABLE `t` ADD COLUMN `c` INT DEFAULT 5", T1, T),
    ddl("ALTER", 52, "ALTER TABLE `t` RENAME COLUMN `c` TO `d`", T2, T1),
    ddl("ALTER", 54, "ALTER TABLE `t` DROP COLUMN `v`", T3, T2),
    ddl("RENAME", 60, "RENAME TABLE `t` TO `t2`", T4, T3),
    insert(T4, 62, id="9", d="9"),
    ddl("TRUNCATE", 55, "TRUNCATE TABLE `u`", U2, U),
    ddl("ALTER", 50, "ALTER TABLE `w` MODIFY COLUMN `v` VARCHAR(20)", W1, W),
    insert(W1, 52, id="9", v="nine"),
    Watermark(100),
)


def write_job(folder: Path, job: str = "", sink: str = '[sink]\nkind = "delta"\nwarehouse = "lake"\n') -> Path:
    """A job that reads the topic of a folder."""
    file = folder / "shop.toml"
    file.write_text(
        f'[job]\nname = "shop"\n{job}\n[source]\nkind = "files"\npath = "{folder / "topic"}"\n'
        f'protocol = "simple"\n{sink}'
    )
    return file


def rows_of(path: Path, version: int | None = None) -> list[dict[str, Any]]:
    """A table, as deltalake reads it."""
    query = QueryBuilder().register("t", DeltaTable(str(path), version=version))
    rows: list[dict[str, Any]] = pa.table(query.execute("SELECT * FROM t").read_all()).to_pylist()
    return sorted(rows, key=lambda one: int(one["id"]))


def tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every table of the database s."""
    return {path.name: rows_of(path) for path in sorted((folder / "lake" / "s").iterdir())}


class Sums(threading.Thread):
    """Sums up two tables at the versions that the state names, again and again."""

    def __init__(self, job_file: Path) -> None:
        super().__init__()
        self.file, self.over = job_file, threading.Event()
        self.found: list[tuple[int, int]] = []
        """(commitTs, sum)"""

    def run(self) -> None:
        lake = self.file.parent / "lake" / "s"
        while not self.over.wait(0.05):
            try:
                known = table_snapshots(self.file)
                held = [rows_of(lake / name, known.tables["s", name]) for name in "ab"]
            except (SinkFault, UsageError):
                continue
            self.found.append((known.commit_ts, sum(row["v"] for rows in held for row in rows)))

    def wait_for(self, commit_ts: int) -> None:
        """Wait until the tables were read at a commitTs."""
        deadline = time.monotonic() + 60
        while all(at != commit_ts for at, _ in self.found):
            assert time.monotonic() < deadline and self.is_alive()
            time.sleep(0.02)


def test_a_job_goes_on_with_ddl_and_others_read_its_tables_at_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    """With the section of the page, which is then run as it is written."""
    page = PAGE.read_text(encoding="utf-8")
    section, code = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0] for kind in ("toml", "python"))
    file = write_job(tmp_path, "batch-rows = 12", section)
    topic(tmp_path, BEGINNING)
    replicate(file)
    assert [*tables(tmp_path)] == ["a", "b", "t", "u", "w"]
    topic(tmp_path, (*BEGINNING, *ENDING))
    reader = Sums(file)
    reader.start()
    try:
        replicate(file, watchers=[Watcher(committed=lambda report: reader.wait_for(report.progress.applied))])
    finally:
        reader.over.set()
        reader.join()
    assert {total for _, total in reader.found} == {2000}
    assert len({at for at, _ in reader.found}) > 1, "it read while the job wrote"
    assert tables(tmp_path) == {
        "a": [{"id": 1, "v": 997}],
        "b": [{"id": 1, "v": 1003}],
        "t2": [{"id": 1, "d": 5}, {"id": 3, "d": 5}, {"id": 9, "d": 9}],
        "u": [],
        "w": [{"id": 1, "v": "1"}, {"id": 2, "v": "2"}, {"id": 3, "v": "3"}, {"id": 9, "v": "nine"}],
    }
    status = msgspec.json.decode(command("status", "--json", str(file))[1])
    shown = {one["table"]: one["condition"] for one in status["tables"]}
    assert (status["resolved_ts"], shown["t2"], shown["t"]) == (99, "clean", "dropped")
    assert command("check", "--quick", str(file))[0] == 0
    assert command("dead-letters", str(file)) == (0, "0 dead letters\n")
    opened = consistent(file)
    assert (opened.commit_ts, opened.tables["s", "b"].toArrow().to_pylist()) == (99, [{"id": 1, "v": 1003}])
    printed = run_python(tmp_path, code.replace("shop_orders", "s_a"))
    assert "1" in printed and "as of 99 without {}" in printed


def run_python(folder: Path, code: str) -> str:
    """Run code in a folder, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True, env=os.environ
    )
    return done.stdout


def test_status_imports_no_spark(tmp_path: Path) -> None:
    (tmp_path / "topic").mkdir()
    code = (
        "import sys; from click.testing import CliRunner; from ticdc_spark.cli import main; "
        f"CliRunner().invoke(main, ['status', {str(write_job(tmp_path))!r}]); print('pyspark' in sys.modules)"
    )
    assert run_python(tmp_path, code) == "False\n"


@pytest.mark.slow
@pytest.mark.parametrize("times", [0, 1])
def test_a_job_that_dies_between_steps_ends_in_the_same_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    topic(tmp_path, (*FIRST, *SECOND))
    died = run_with_deaths(write_job(tmp_path), once_at(POINTS, times), monkeypatch)
    assert set(died) == (POINTS if times else set())
    found = tables(tmp_path)
    assert found == END | {"x": found["x"]}
