"""Jobs whose batches are one commit in a REST catalog: readers while they write, deaths, and other writers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table as IcebergTable

from tests.integration.rest_lake import RestLake
from tests.spark.deaths import END, FIRST, SECOND, TOGETHER, WRITERS, T, create, once_at, run_with_deaths
from tests.spark.histories import SECTION, check, read_again
from tests.spark.lake import read_table, replicate
from tests.spark.simple_topic import ddl, insert, topic
from tests.spark.test_retry import Running
from tests.support.bank import LABELS, Bank, Held, Reader, Seen, by_id, run_while_read, short_story, story
from ticdc_spark import consistent_scans
from ticdc_spark.cli import main
from ticdc_spark.model import RowChange, Watermark

NAMES = ("a", "b", "moves")
ROWS = 6
"""Of the beginning."""


def rows_of(bank: Bank) -> int:
    return sum(isinstance(one, RowChange) for one in bank.sent)


def wrong(bank: Bank, lake: RestLake, *names: str) -> str:
    """What is wrong with the tables at the end, by the names that they have then."""
    held = [Held(name, by_id(lake.rows(name))) for name in names or NAMES]
    return bank.wrong(Seen(bank.truth[-1][0], dict(zip(LABELS, held, strict=True))))


def reader_of(url: str, bank: Bank) -> Reader:
    """Opens the three tables by the rule: where their timestamps differ, it opens them again."""
    client, found = RestCatalog("lake", uri=url), [*NAMES]

    def is_gone(table: IcebergTable) -> bool:
        try:
            return client.load_table(table.name()).metadata.table_uuid != table.metadata.table_uuid
        except NoSuchTableError:
            return True

    def read() -> Seen | None:
        try:
            tables = [client.load_table(("s", name)) for name in found]
            rows = [by_id(one.scan().to_arrow().to_pylist()) for one in tables]
        except (NoSuchTableError, NoSuchNamespaceError):
            found[1] = "b2" if found[1] == "b" else "b"
            return None
        except FileNotFoundError:
            if not any(map(is_gone, tables)):
                raise
            return None  # its files went with a DROP, while they were read
        times = {int(one.properties["ticdc.applied"].partition(":")[0]) for one in tables}
        if len(times) > 1:
            return None
        return Seen(times.pop(), dict(zip(LABELS, map(Held, found, rows), strict=True)))

    return Reader(read, bank.wrong, pause=0.02)


def _goes_on(reader: Reader, commits: Sequence[object], times: int, count: int) -> bool:
    """Whether there were more commits, and the reader has seen one."""
    return len({*reader.times}) > times and len(commits) > count


def test_money_that_moves_between_tables_is_all_there(rest_lake: RestLake, tmp_path: Path) -> None:
    bank = Bank()
    topic(tmp_path, bank.sent)
    lake, marks = rest_lake, list[list[str | None]]()
    lake.proxy.after = lambda: marks.append(lake.proxy.marks("s", *NAMES))
    running = Running(lake.job(tmp_path, 'commit-interval = "50ms"\npoll-interval = "50ms"'))
    reader = reader_of(lake.proxy.url, bank)
    with ExitStack() as stack:
        stack.callback(running.end)
        running.wait(lambda: running.rows == ROWS)
        for step in range(1, 25):
            if step == 12:
                bank.widen("a")
            bank.step()
            seen = len({*reader.times}), len(lake.proxy.commits)
            topic(tmp_path, bank.sent)
            if step == 2:
                running.wait(lambda: running.rows > ROWS)
                stack.enter_context(reader)
            if step in (2, 9, 16):
                running.wait(partial(_goes_on, reader, lake.proxy.commits, *seen))
            time.sleep(0.1)
        running.wait(lambda: running.rows == rows_of(bank))
    assert running.error is None
    assert not reader.found and len({*reader.times}) > 2, "it read while the job wrote"
    whole = [found for tables, found in zip(lake.proxy.commits, marks, strict=True) if len(tables) == 3]
    assert len(whole) > 2 and all(len(set(found)) == 1 for found in whole)
    others = [tables for tables in lake.proxy.commits if len(tables) < 3]
    # The DDL may come with rows of its table before it in the batch, or without.
    assert others in ([["a", "b"]], [["a", "b"], ["a"]]), "the first rows, and what waited for the DDL"
    found, scans = consistent_scans(running.job)
    held = {name: Held(name, by_id(scans["s", name].to_arrow().to_pylist())) for name in NAMES}
    assert found.commit_ts == 2400 and not bank.wrong(Seen(2400, held))


def test_every_read_is_of_one_commit_also_while_ddl_runs_and_the_job_dies(
    rest_lake: RestLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, bank = short_story()
    topic(tmp_path, first)
    job_file = rest_lake.job(tmp_path)
    replicate(job_file)
    topic(tmp_path, bank.sent)
    reader, points = reader_of(rest_lake.proxy.url, bank), TOGETHER | {"apply"}
    assert {*run_while_read(job_file, reader, once_at(points), monkeypatch)} == points
    assert not reader.found
    assert (reader.times[0], reader.times[-1], len({*reader.times})) == (200, 300, 2)
    assert rest_lake.proxy.marks("s", "a", "b2", "moves") == ["300:2"] * 3


@pytest.mark.slow
def test_every_read_is_of_one_commit_wherever_the_job_dies(
    rest_lake: RestLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = story()
    topic(tmp_path, bank.sent)
    reader, points = reader_of(rest_lake.proxy.url, bank), TOGETHER | WRITERS["python"]
    died = run_while_read(rest_lake.job(tmp_path, "batch-rows = 14"), reader, once_at(points, 2), monkeypatch)
    assert TOGETHER | {"scan", "write", "ddl", "intent", "stamp", "fill", "apply", "progress"} <= {*died}
    assert not reader.found
    assert reader.times == sorted(reader.times) and reader.times[-1] == 1000
    assert wrong(bank, rest_lake, "a", "b2", "moves") == ""


def test_every_read_is_of_one_commit_also_while_a_table_is_read_in_full_and_the_job_dies(
    rest_lake: RestLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = Bank()
    bank.step(3)
    topic(tmp_path, bank.sent)
    job_file = rest_lake.job(tmp_path)
    replicate(job_file)
    done = CliRunner().invoke(main, ["rebuild", str(job_file), "s.a", "--from", "topic"])
    assert done.exit_code == 0, done.output
    bank.step(2)
    bank.widen("moves")
    bank.step()
    topic(tmp_path, bank.sent)
    reader, points = reader_of(rest_lake.proxy.url, bank), TOGETHER | {"base", "gather", "swap"}
    assert {*run_while_read(job_file, reader, once_at(points), monkeypatch)} == points
    assert not reader.found
    assert (reader.times[0], reader.times[-1]) == (300, 600)
    assert wrong(bank, rest_lake) == ""


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", SECTION], ids=["plain", "history"])
def test_a_job_that_dies_around_a_commit_ends_in_the_same_tables(
    rest_lake: RestLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """At every point, those of DDL and of rows that are read in full among them."""
    rest_lake.empty("old")
    topic(tmp_path, FIRST)
    job_file = rest_lake.job(tmp_path, more)
    replicate(job_file)
    topic(tmp_path, (*FIRST, *SECOND))
    points = TOGETHER | WRITERS["python"] | ({"history"} if more else set())
    assert {*run_with_deaths(job_file, once_at(points, 2), monkeypatch)} == points
    assert {name: rest_lake.rows(name) for name in END} == END
    if more:
        read_again(job_file, monkeypatch)
        session = rest_lake.session()
        check(lambda name: read_table(session, "old", name))


def test_a_history_stays_with_its_table_if_the_job_dies_in_the_middle_of_a_rename(
    rest_lake: RestLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the table before the RENAME wait for the same batch."""
    rest_lake.empty("old")
    changes = (create(T, 10), insert(T, 21, id="1", v="1"), Watermark(30))
    topic(tmp_path, changes)
    job_file = rest_lake.job(tmp_path, SECTION)
    replicate(job_file)
    renamed = msgspec.structs.replace(T, name="t2", version=60)
    more = (insert(T, 40, id="2", v="2"), ddl("RENAME", 60, "RENAME TABLE `t` TO `t2`", renamed, T), Watermark(70))
    topic(tmp_path, (*changes, *more))
    client, died = RestCatalog("lake", uri=rest_lake.proxy.real), list[str]()

    def dies(name: str) -> bool:
        if died or name != "history" or not client.table_exists(("old", "t2")):
            return False
        died.append(name)
        return True

    assert run_with_deaths(job_file, dies, monkeypatch) == ["history"]
    rows = read_table(rest_lake.session(), "old", "t2")
    assert {(row["_tidb_commit_ts"], row["_tidb_op"], row["id"]) for row in rows} == {(21, "I", 1), (40, "I", 2)}
    assert len(rows) == 2
    assert {name for _, name in client.list_tables("old")} == {"t", "t2"}


def test_a_conflict_in_one_table_leaves_all_as_they_are_and_the_job_repeats_the_batch(
    rest_lake: RestLake, tmp_path: Path
) -> None:
    """It is the first batch of a run, too, and the other writer changes no rows."""
    bank = Bank()
    topic(tmp_path, bank.sent)
    lake, names = rest_lake, NAMES
    job = lake.job(tmp_path)
    replicate(job)
    bank.step(2)
    topic(tmp_path, bank.sent)
    found: list[list[str | None]] = []

    def conflict() -> None:
        lake.session().sql("CALL lake.system.rewrite_data_files(table => 's.b', options => map('rewrite-all', 'true'))")
        lake.proxy.before = lambda: found.append(lake.proxy.marks("s", *names))

    lake.proxy.commits.clear()
    lake.proxy.before = conflict
    replicate(job)
    assert found == [["20:2", "20:2", "10:3000"]], "after the first try"
    assert lake.proxy.commits == [["a", "b", "moves"]]
    assert wrong(bank, lake) == ""
    assert [lake.unused("s", name) for name in names] == [set()] * 3, "what the first try has written is removed"
