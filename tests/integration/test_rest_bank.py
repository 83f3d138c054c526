"""Jobs whose batches are one commit in a REST catalog: readers while they write, deaths, and other writers."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.integration.rest_lake import RestLake
from tests.spark.deaths import END, FIRST, SECOND, TOGETHER, once_at, run_with_deaths
from tests.spark.lake import replicate
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from tests.spark.test_retry import Running
from ticdc_spark import consistent_scans
from ticdc_spark.model import Change, Column, RowChange, Watermark

V, NOTE = Column(name="v", type=INT), Column(name="note", type=INT)
A, B = (table(10, V, name=name) for name in ("a", "b"))
MOVES = table(10, Column(name="account", type=INT), name="moves")
WIDER = msgspec.structs.replace(A, columns=(*A.columns, NOTE), version=1000)
MONEY = 1000
"""Of each of three accounts in each of two tables."""
OPENED: list[Change] = [
    *(ddl("CREATE", 10, f"CREATE TABLE `{one.name}` (`id` INT PRIMARY KEY)", one) for one in (A, B, MOVES)),
    *(insert(one, 20, id=str(key), v=str(MONEY)) for one in (A, B) for key in (1, 2, 3)),
    Watermark(21),
]


def moved(step: int, *, wider: bool = False) -> list[Change]:
    """A transaction in which an account of ``a`` pays one to that of ``b``. ``wider``: ``a`` has another column."""
    ts, key, paid = 100 * step, str(step % 3 + 1), (step + 2) // 3
    more = {"note": None} if wider else {}
    less = [{"id": key, "v": str(MONEY - much), **more} for much in (paid - 1, paid)]
    gains = [{"id": key, "v": str(MONEY + much)} for much in (paid - 1, paid)]
    return [
        RowChange(op="update", table=WIDER if wider else A, commit_ts=ts, before=less[0], after=less[1]),
        RowChange(op="update", table=B, commit_ts=ts, before=gains[0], after=gains[1]),
        insert(MOVES, ts, id=str(step), account=key),
        Watermark(ts + 1),
    ]


def judge(a: list[Any], b: list[Any], moves: list[Any]) -> str:
    """What is wrong with the rows of the three tables; ``""``: nothing."""
    total, paid = sum(one["v"] for one in (*a, *b)), 3 * MONEY - sum(one["v"] for one in a)
    lost = {one["account"] for one in moves} - {one["id"] for one in a}
    return "" if (total, paid, lost) == (6 * MONEY, len(moves), set()) else f"{total}, {paid} of {len(moves)}, {lost}"


class Reader(threading.Thread):
    """Reads the three tables by the rule: where their timestamps differ, it opens them again."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.client = RestCatalog("lake", uri=url)
        self.over = threading.Event()
        self.moves: set[int] = set()
        """How many there were, at each read."""
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self.over.is_set():
            found = [self.client.load_table(("s", name)) for name in ("a", "b", "moves")]
            if len({one.properties["ticdc.applied"].partition(":")[0] for one in found}) > 1:
                continue
            rows = [one.scan().to_arrow().to_pylist() for one in found]
            self.moves.add(len(rows[2]))
            self.wrong += filter(None, [judge(*rows)])


def _goes_on(reader: Reader, commits: Sequence[object], moves: int, count: int) -> bool:
    """Whether there were more commits, and the reader has seen one."""
    return len(reader.moves) > moves and len(commits) > count


def test_money_that_moves_between_tables_is_all_there(rest_lake: RestLake, tmp_path: Path) -> None:
    topic(tmp_path, OPENED)
    lake, marks = rest_lake, list[list[str | None]]()
    lake.proxy.after = lambda: marks.append(lake.proxy.marks("s", "a", "b", "moves"))
    running = Running(lake.job(tmp_path, 'commit-interval = "50ms"\npoll-interval = "50ms"'))
    reader = Reader(lake.proxy.url)
    try:
        running.wait(lambda: running.rows == 6)
        sent = [*OPENED]
        for step in range(1, 25):
            if step == 12:
                sent.append(ddl("ALTER", 1150, "ALTER TABLE `a` ADD COLUMN `note` INT", WIDER, A))
            sent += moved(step, wider=step >= 12)
            seen = len(reader.moves), len(lake.proxy.commits)
            topic(tmp_path, sent)
            if step == 2:
                running.wait(lambda: running.rows > 6)
                reader.start()
            if step in (2, 9, 16):
                running.wait(partial(_goes_on, reader, lake.proxy.commits, *seen))
            time.sleep(0.1)
        running.wait(lambda: running.rows == 6 + 3 * 24)
    finally:
        reader.over.set()
        running.end()
    reader.join()
    assert running.error is None
    assert not reader.wrong and len(reader.moves) > 2, "it read while the job wrote"
    whole = [found for tables, found in zip(lake.proxy.commits, marks, strict=True) if len(tables) == 3]
    assert len(whole) > 2 and all(len(set(found)) == 1 for found in whole)
    others = [tables for tables in lake.proxy.commits if len(tables) < 3]
    # The DDL may come with rows of its table before it in the batch, or without.
    assert others in ([["a", "b"]], [["a", "b"], ["a"]]), "the first rows, and what waited for the DDL"
    found, scans = consistent_scans(running.job)
    assert found.commit_ts == 2400
    assert judge(*(scans["s", name].to_arrow().to_pylist() for name in ("a", "b", "moves"))) == ""


def test_a_job_that_dies_around_a_commit_loses_no_money(
    rest_lake: RestLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(tmp_path, [*OPENED, *moved(1), *moved(2), *moved(3)])
    assert {*run_with_deaths(rest_lake.job(tmp_path), once_at(TOGETHER), monkeypatch)} == TOGETHER
    assert judge(*map(rest_lake.rows, ("a", "b", "moves"))) == ""
    assert rest_lake.proxy.marks("s", "a", "b", "moves") == ["300:2"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", '[[history]]\ntables = ["s.*"]'], ids=["plain", "history"])
def test_a_job_that_dies_around_a_commit_ends_in_the_same_tables(
    rest_lake: RestLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    topic(tmp_path, (*FIRST, *SECOND))
    points = TOGETHER | {"write", "apply"}
    assert {*run_with_deaths(rest_lake.job(tmp_path, more), once_at(points, 2), monkeypatch)} == points
    found = {name: rest_lake.rows(name) for name in END}
    assert found == END | {"x": found["x"]}


def test_a_conflict_in_one_table_leaves_all_as_they_are_and_the_job_repeats_the_batch(
    rest_lake: RestLake, tmp_path: Path
) -> None:
    """It is the first batch of a run, too, and the other writer changes no rows."""
    topic(tmp_path, OPENED)
    lake, names = rest_lake, ("a", "b", "moves")
    job = lake.job(tmp_path)
    replicate(job)
    topic(tmp_path, [*OPENED, *moved(1), *moved(2)])
    found: list[list[str | None]] = []

    def conflict() -> None:
        lake.session().sql("CALL lake.system.rewrite_data_files(table => 's.b', options => map('rewrite-all', 'true'))")
        lake.proxy.before = lambda: found.append(lake.proxy.marks("s", *names))

    lake.proxy.commits.clear()
    lake.proxy.before = conflict
    replicate(job)
    assert found == [["20:2", "20:2", "10:3000"]], "after the first try"
    assert lake.proxy.commits == [["a", "b", "moves"]]
    assert judge(*map(lake.rows, names)) == ""
    assert [lake.unused("s", name) for name in names] == [set()] * 3, "what the first try has written is removed"
