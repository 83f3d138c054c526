"""What a job does with rows that come too late, with tables that are not its own, and without its state."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.spark.lake import lake, make_topic, names, read_table, replicate, sorted_rows, wild, write_job
from tests.spark.shops import SHOP, messages_of, shop_job, truth_of, wrong
from tests.support.job_state import lose
from tests.support.recorded_topics import Line, write_json
from tests.workload import Truth, generate
from tests.workload.compare import compare
from ticdc_spark.cli import main
from ticdc_spark.errors import DecisionNeeded, LateRow
from ticdc_spark.model import RowChange
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.spark import tasks


def late_rows(folder: Path) -> Truth:
    """A new partition with two old rows: one of a key that has changed since, one of a key that is new.

    Returns the truth with the unknown row.
    """
    changes = [event for event in generate(SHOP) if isinstance(event, RowChange)]
    truth = truth_of(SHOP)
    first = changes[0].commit_ts
    name = ("shop", "order_items")
    table, rows = truth[name]
    last = next(change for change in reversed(changes) if change.table == table and change.op != "delete")
    assert last.commit_ts > first and last.after is not None and last.after["qty"] != "1"
    old = {**last.after, "qty": "1"}
    unknown = {**last.after, "order_id": "9999999"}
    simple = encoder(SimpleConfig())
    late = [
        RowChange(op="update", table=table, commit_ts=first, before=old, after=old),
        RowChange(op="insert", table=table, commit_ts=first, after=unknown),
    ]
    encoded = [*simple.rows(late), simple.watermark(changes[-1].commit_ts + (1 << 30))]
    lines = [Line(SHOP.topic, 1, at, None, one.key, one.value) for at, one in enumerate(encoded) if one is not None]
    write_json(folder / "topic" / "late.jsonl", lines)
    return truth | {name: (table, {**rows, tuple(unknown[key] for key in handle_key(table)): unknown})}


def test_late_rows_are_counted_and_applied_where_they_are_the_newest(spark: SparkSession, folder: Path) -> None:
    job = shop_job(folder)
    replicate(job)
    truth = late_rows(folder)
    with pytest.raises(LateRow, match="partition 1, offset 0"):
        replicate(job)
    assert not wrong(spark, folder, truth_of(SHOP))
    write_job(folder, folder / "topic", 'late-rows = "apply-if-newest"')
    summary = replicate(job)
    assert not wrong(spark, folder, truth)
    assert summary.progress.counters.late == 2
    assert not summary.progress.pending


def test_a_run_until_a_ts_equals_the_source_then(spark: SparkSession, folder: Path) -> None:
    changes = [event.commit_ts for event in generate(SHOP) if isinstance(event, RowChange)]
    job = shop_job(folder, more="batch-rows = 25")
    for ts in (changes[len(changes) // 2], changes[-1]):
        summary = replicate(job, until_ts=ts)
        assert summary.progress.applied == ts
        assert not wrong(spark, folder, truth_of(SHOP, ts))


def test_without_its_state_a_job_stops_and_without_its_tables_too_it_begins_from_scratch(
    spark: SparkSession, folder: Path
) -> None:
    job = shop_job(folder)
    replicate(job)
    lose(job)
    with pytest.raises(DecisionNeeded, match=r"the target has tables of job 'job', but"):
        replicate(job)
    assert not wrong(spark, folder, truth_of(SHOP))
    session = lake(spark, folder)
    for schema, name in names(session):
        session.sql(f"DROP TABLE lake.`{schema}`.`{name}`")
    replicate(job)
    assert not wrong(spark, folder, truth_of(SHOP))


def test_a_table_of_another_job_is_refused_unless_adopted(spark: SparkSession, folder: Path) -> None:
    job = shop_job(folder)
    replicate(job)
    other = job.read_text().replace('name = "job"', 'name = "other"')
    job.write_text(other)
    checked = CliRunner().invoke(main, ["check", str(job)])
    assert checked.exit_code == 4 and "FAILED  target" in checked.output, checked.output
    assert "written by job 'job'; rename or drop it, or set `adopt = true`" in checked.output
    with pytest.raises(DecisionNeeded, match="written by job 'job'"):
        replicate(job)
    assert not wrong(spark, folder, truth_of(SHOP))
    job.write_text(other.replace("[source]", "adopt = true\n[source]"))
    replicate(job)
    assert not wrong(spark, folder, truth_of(SHOP))


@pytest.mark.slow
def test_whoever_writes_the_tables_are_the_same(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = msgspec.structs.replace(wild(21), changes=700, ddl_every=25)
    truth = make_topic(folder, config)
    found, counted = [], []
    for writer, small in (("python", 20_000), ("python", 0), ("spark", 0)):
        monkeypatch.setattr(tasks, "SMALL_ROWS", small)
        place = folder / f"{writer} {small}"
        place.mkdir()
        job = write_job(place, folder / "topic", f'batch-rows = 900\nwriter = "{writer}"')
        progress = replicate(job).progress
        assert not {name: reported for name, reported in compare(job, truth).items() if reported}
        session = lake(spark, place)
        tables = {name: sorted_rows(read_table(session, *name)) for name in names(session)}
        found.append((tables, progress.counters.ddls, progress.applied))
        counted.append(progress.counters.rows)
    assert found[0] == found[1] == found[2]
    assert counted[0] == counted[1]
    assert counted[1] <= counted[2], "a MERGE does not count: what is written for it is the most that it can be"


@pytest.mark.parametrize("rule", ["quarantine", "continue"])
def test_an_unreadable_message_is_kept_and_its_tables_are_marked(folder: Path, rule: str) -> None:
    lines = [Line(m.topic, m.partition, m.offset, m.timestamp, m.key, m.value) for m in messages_of(SHOP)]
    bad = (b"", b'{"type":"INSERT","version":1', b"[1, 2]", b'{"version": 99, "type": "WATERMARK"}', b'{"id": 3}')
    lines += [Line(SHOP.topic, 0, len(lines) + at, None, None, value) for at, value in enumerate(bad)]
    source = write_json(folder / "topic" / "shop.jsonl", lines)
    job = write_job(folder, source.parent, f'on-reject = "{rule}"')
    summary = replicate(job)
    assert summary.finished
    assert summary.progress.counters.rejected == len(bad)
    tables = summary.progress.tables
    assert tables and all(not table.is_clean for table in tables)
    if rule == "continue":
        assert all(table.diverged_since is not None for table in tables)
    else:
        assert all(table.quarantined for table in tables)
