"""What cannot be read, by the command: reported with its place and kept, held or passed over by ``on-reject``.

And what ``status`` shows of a job that is held up; and that nothing depends on where batches are cut (I4, I6).
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from tests.spark.lake import lake, make_topic, names, read_table, replicate, sorted_rows, wild, write_job
from tests.spark.shops import SHOP, messages_of, shop_job, truth_of, wrong
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from tests.support.recorded_topics import Line, read_back, write_json
from tests.workload.compare import compare
from ticdc_spark.cli import main
from ticdc_spark.model import Bootstrap, Change, Column, Envelope, RowChange, Watermark
from ticdc_spark.protocols.canal_json.decode import DECODER as CANAL_JSON
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.protocols.simple.encode import encoder
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.watch import Watcher

T = table(10, Column(name="v", type=INT, nullable=False), name="t")
OTHER = table(11, Column(name="v", type=INT), name="other")
BEFORE: tuple[Change, ...] = (
    ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT NOT NULL)", T),
    ddl("CREATE", 11, "CREATE TABLE `other` (`id` INT PRIMARY KEY,`v` INT)", OTHER),
    insert(T, 20, id="1", v="1"),
    insert(OTHER, 21, id="1", v="1"),
)
AFTER: tuple[Change, ...] = (
    insert(T, 50, id="2", v="2"),
    insert(OTHER, 51, id="2", v="2"),
    Watermark(100),
)
AT = len(BEFORE)
"""Offset of the message that cannot be read."""


def _simple(change: RowChange, **fields: Any) -> bytes:
    (encoded,) = encoder().rows([change])
    assert encoded.value is not None
    return json.dumps(json.loads(encoded.value) | fields).encode()


def _canal_json() -> bytes:
    (encoded,) = canal_json(CanalJsonConfig(enable_tidb_extension=True)).rows([insert(T, 40, id="9", v="9")])
    assert encoded.value is not None and isinstance(CANAL_JSON.open_message(encoded.key, encoded.value)[0], Envelope)
    return encoded.value


NINE = insert(T, 40, id="9", v="9")
OF_A_ROW = {
    "another type": (_simple(insert(T, 40, id="9", v="nine")), "column `v`: 'nine' is no int"),
    "a field less": (_simple(NINE, data={"id": "9"}), "the row has no column `v`"),
    "a field more": (_simple(NINE, data={"id": "9", "v": "9", "w": "9"}), "unknown field `w`"),
    "no key": (_simple(NINE, data={"id": None, "v": "9"}), "key column `id` is null"),
}
"""Rows of `t` that cannot be read, and the reason that is reported."""
OF_A_MESSAGE = {
    "another protocol": (_canal_json(), "not a Simple message but canal-json"),
    "empty": (b"", "this one is empty"),
    "another version": (_simple(NINE, version=2), "field `version` is 2"),
}
"""Messages whose tables are not known."""


QUICK = ("another type", "another protocol", "empty")
SLOW = [case for case in [*OF_A_ROW, *OF_A_MESSAGE] if case not in QUICK]


def record(folder: Path, *values: bytes) -> Path:
    """A topic with such messages between ``BEFORE`` and ``AFTER``."""
    held = read_back(topic(folder, [*BEFORE, *AFTER]))
    lines = [line._replace(offset=line.offset + len(values) * (line.offset >= AT)) for line in held]
    lines += [Line("topic", 0, AT + at, None, None, value) for at, value in enumerate(values)]
    return write_json(folder / "topic" / "0.jsonl", sorted(lines)).parent


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def status(job: Path) -> dict[str, Any]:
    shown = run("status", job, "--json")
    assert shown.exit_code == 0, shown.output
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def conditions(found: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["condition"] for one in found["tables"]}


def rows(spark: SparkSession, folder: Path, name: str) -> list[int]:
    return sorted(row["id"] for row in read_table(lake(spark, folder), "s", name))


def letters(spark: SparkSession, folder: Path) -> list[tuple[str, int, bytes]]:
    session = lake(spark, folder)
    if not session.catalog.tableExists("lake._ticdc_spark.dead_letters_job"):
        return []
    found = read_table(session, "_ticdc_spark", "dead_letters_job")
    return [(row["reason"], row["offset"], row["value"]) for row in sorted(found, key=lambda row: int(row["offset"]))]


@pytest.mark.parametrize("case", [*QUICK, *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW)])
def test_a_reject_stops_the_job_and_the_operator_goes_on(spark: SparkSession, folder: Path, case: str) -> None:
    value, reason = (OF_A_ROW | OF_A_MESSAGE)[case]
    job = write_job(folder, record(folder, value))
    done = run("replicate", job, "--once")
    assert done.exit_code == 4, done.output
    assert reason in done.output and f"partition 0, offset {AT}" in done.output
    found = status(job)
    assert (found["state"], found["last_error"]["code"]) == ("failed", "RejectedMessage")
    ((reported, offset, kept),) = letters(spark, folder)
    assert (reason in reported, offset) == (True, AT)
    assert kept == value or kept in value
    write_job(folder, folder / "topic", 'on-reject = "continue"')
    done = run("replicate", job, "--once")
    assert done.exit_code == 0, done.output
    assert rows(spark, folder, "t") == rows(spark, folder, "other") == [1, 2]
    found = status(job)
    assert found["rejected"] == 1
    other = "clean" if case in OF_A_ROW else "diverged"
    assert conditions(found) == {"s.t": "diverged", "s.other": other}
    assert len(letters(spark, folder)) == 1


def test_status_shows_a_quarantined_table(spark: SparkSession, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    values = [value for value, _ in OF_A_ROW.values()]
    job = write_job(folder, record(folder, *values), 'on-reject = "quarantine"')
    done = run("replicate", job, "--once")
    assert done.exit_code == 3, done.output
    assert f"not all is applied: `s`.`t` is held back with {1 + len(values)} changes waiting" in done.output
    logged = capfd.readouterr().err
    assert all(reason in logged for _, reason in OF_A_ROW.values()), "each is logged"
    assert rows(spark, folder, "other") == [1, 2]
    assert rows(spark, folder, "t") == [1], "the row before them"
    found = status(job)
    assert conditions(found) == {"s.t": "quarantined", "s.other": "clean"}
    held = {one["name"]: one for one in found["tables"]}["s.t"]
    assert f"offset {AT}" in held["detail"]
    assert held["changes_waiting"] == 1 + len(values)
    assert found["rejected"] == len(values)
    assert (found["state"], found["held_back_by"]["kind"]) == ("warning", "reject")
    assert [offset for _, offset, _ in letters(spark, folder)] == [AT + at for at in range(len(values))]
    assert all(
        reason in reported
        for (reported, _, _), (_, reason) in zip(letters(spark, folder), OF_A_ROW.values(), strict=True)
    )
    assert "quarantined: `s`.`t`: a row cannot be read" in run("status", job).output


def changed_key(at: int, version: int) -> bytes:
    """An unreadable row of `t` that changes its key, which the lake would take as two changes."""
    of = msgspec.structs.replace(T, version=version)
    before, after = {"id": str(at), "v": "1"}, {"id": str(at + 100), "v": "nine"}
    return _simple(RowChange(op="update", table=of, commit_ts=40, before=before, after=after))


@pytest.mark.parametrize(("count", "code"), [(1, 0), (2, 1)])
def test_a_key_change_counts_once_and_none_beyond_max_rejects_is_lost(
    spark: SparkSession, folder: Path, count: int, code: int
) -> None:
    bootstrap = encoder().bootstrap(Bootstrap(msgspec.structs.replace(T, version=12)).table)
    assert bootstrap.value is not None
    values = [bootstrap.value, *(changed_key(at, 10 + 2 * at) for at in range(count))]
    job = write_job(folder, record(folder, *values), 'on-reject = "continue"\nmax-rejects = 1')
    done = run("replicate", job, "--once")
    assert done.exit_code == code, done.output
    assert ("more than 1 rows of one batch cannot be read" in done.output) == bool(code)
    assert [offset for _, offset, _ in letters(spark, folder)] == ([] if code else [AT + 1])


def test_status_shows_a_job_that_waits_for_a_schema(spark: SparkSession, folder: Path) -> None:
    job = write_job(folder, record(folder, _simple(NINE, schemaVersion=999)))
    done = run("replicate", job, "--once")
    assert done.exit_code == 3, done.output
    found = status(job)
    assert found["state"] == "warning"
    assert found["held_back_by"]["kind"] == "schema"
    assert "version 999" in found["held_back_by"]["what"]
    assert found["resolved_ts"] == 39
    assert found["changes"] + found["changes_waiting"] == 5
    assert rows(spark, folder, "t") == rows(spark, folder, "other") == [1]
    assert "held back by       schema" in run("status", job).output
    write_job(folder, folder / "topic", 'schema-timeout = "1ms"')
    done = run("replicate", job, "--once")
    assert done.exit_code == 4, done.output
    assert "version 999" in done.output
    assert status(job)["last_error"]["code"] == "SchemaMissing"


def test_at_each_commit_all_tables_equal_the_source_and_no_row_is_lost(spark: SparkSession, folder: Path) -> None:
    job = shop_job(folder, more="batch-rows = 15")
    sent = [
        (m.offset, sum(isinstance(e, Envelope) for e in DECODER.open_message(m.key, m.value)))
        for m in messages_of(SHOP)
    ]
    seen: list[int] = []

    def look(report: BatchReport) -> None:
        progress = report.progress
        (partition,) = progress.partitions
        waiting = sum(one.waiting for one in progress.pending)
        assert progress.counters.rows + waiting == sum(rows for offset, rows in sent if offset < partition.offset)
        assert not wrong(spark, folder, truth_of(SHOP, progress.applied))
        seen.append(progress.applied)

    replicate(job, watchers=[Watcher(committed=look)])
    assert len(set(seen)) > 3


def test_batches_of_seven_messages_and_one_batch_end_alike(spark: SparkSession, folder: Path) -> None:
    truth = make_topic(folder, msgspec.structs.replace(wild(4), changes=20, ddl_every=5))
    found = []
    for rows_ in (7, 100_000):
        place = folder / str(rows_)
        place.mkdir()
        job = write_job(place, folder / "topic", f"batch-rows = {rows_}")
        assert replicate(job).finished
        assert not {name: reported for name, reported in compare(job, truth).items() if reported}
        session = lake(spark, place)
        found.append({name: sorted_rows(read_table(session, *name)) for name in names(session)})
    assert found[0] == found[1]
