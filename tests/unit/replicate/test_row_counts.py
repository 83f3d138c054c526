"""How many rows were applied and how many wait, where a batch cuts through the rows of a table."""

import dataclasses
from pathlib import Path

import pytest

from tests.memory_sink.lake import Lake
from tests.reference.workloads import ENCODER, FAULTS, messages_of
from tests.support.memory_job import Kept, ListSource, job_of, started
from tests.support.simple_examples import USER
from ticdc_spark import failpoints
from ticdc_spark.cli.output.progress import waiting
from ticdc_spark.model import Bootstrap, Change, Envelope, Message, RowChange, Watermark
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.replicate.resources import ENDLESS
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.step import Steps


def messages(*changes: Change) -> list[Message]:
    found = []
    for change in changes:
        match change:
            case RowChange():
                (one,) = ENCODER.rows([change])
            case Bootstrap():
                one = ENCODER.bootstrap(change.table)
            case Watermark():
                one = ENCODER.watermark(change.commit_ts)
            case _:
                raise AssertionError(change)
        assert one is not None
        found.append(Message(topic="t", partition=0, offset=len(found), key=one.key, value=one.value))
    return found


def row(ts: int, number: int) -> RowChange:
    values = {"id": str(number), "name": "a", "age": "1", "score": "1.5"}
    return RowChange(op="insert", table=USER, commit_ts=ts, after=values)


def steps(folder: Path, source: ListSource, lake: Lake, store: Kept) -> Steps:
    """A process that waits for more at the end of its source."""
    made = started(job_of(folder, parallel_tables=1), source, lake, store)
    made.open = dataclasses.replace(made.open, end=ENDLESS)
    return made


def counts(progress: Progress) -> tuple[int, str]:
    return progress.counters.rows, waiting(progress) if progress.pending else ""


SENT = messages(
    Bootstrap(USER),
    row(10, 1),
    row(20, 2),
    row(30, 3),
    Watermark(25),
    row(40, 4),
    row(50, 5),
    Watermark(45),
    row(60, 6),
    Watermark(100),
)


def test_rows_of_one_group_are_counted_as_the_watermark_passes_them(tmp_path: Path) -> None:
    lake, store = Lake(), Kept()
    job = steps(tmp_path, ListSource(SENT[:5]), lake, store)
    assert job.batch(None, lambda *_: None).changes == 2
    assert counts(job.progress) == (2, "1 change waiting")
    job = steps(tmp_path, ListSource(SENT[:8]), lake, store)
    assert job.batch(None, lambda *_: None).changes == 2
    assert counts(job.progress) == (4, "1 change waiting")
    job = steps(tmp_path, ListSource(SENT), lake, store)
    assert job.batch(None, lambda *_: None).changes == 2
    assert counts(job.progress) == (6, "")
    assert [table.rows for table in job.progress.tables] == [6]


def test_a_report_has_what_was_read_and_committed_since_the_last_one(tmp_path: Path) -> None:
    name, job = USER.full_name, steps(tmp_path, ListSource(SENT), Lake(), Kept())
    report = job.batch(None, lambda *_: None)
    read = report.read[name]
    assert (read.messages, read.rows) == (6, (6, 0, 0, 0)) and report.read.keys() == {name}
    assert read.bytes == sum(
        len(one.key or b"") + len(one.value or b"") for one in SENT if one.offset in (1, 2, 3, 5, 6, 8)
    )
    assert report.commits[name] >= 1, "the table was made, and got its rows"
    job.sink.conflicts.add(name)
    quiet = job.batch(None, lambda *_: None)
    assert (quiet.messages, quiet.read, quiet.commits, quiet.conflicts) == (0, {}, {}, 1)
    assert job.batch(None, lambda *_: None).conflicts == 0


@pytest.mark.parametrize("point", ["merge", "apply"])
def test_a_batch_that_was_interrupted_counts_at_most(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, store = Lake(), Kept()
    job = steps(tmp_path, ListSource(SENT[:5]), lake, store)

    def die(name: str) -> None:
        if name == point:
            raise InterruptedError

    monkeypatch.setattr(failpoints, "point", die)
    with pytest.raises(InterruptedError):
        job.batch(None, lambda *_: None)
    monkeypatch.undo()
    job = steps(tmp_path, ListSource(SENT[:5]), lake, store)
    job.batch(None, lambda *_: None)
    assert counts(job.progress) == (0, "at most 3 changes waiting")
    job = steps(tmp_path, ListSource(SENT), lake, store)
    job.batch(None, lambda *_: None)
    (table,) = lake.tables.values()
    assert len(table.rows) == 6
    assert counts(job.progress)[1] == ""


def test_what_was_sent_is_applied_or_waits(tmp_path: Path) -> None:
    sent = [one for one in messages_of(FAULTS) if DECODER.open_message(one.key, one.value)]
    source, lake, store = ListSource(sent), Lake(), Kept()
    job = steps(tmp_path, source, lake, store)
    job.open = dataclasses.replace(job.open, job=job_of(tmp_path, batch_rows=23, parallel_tables=1))
    cut = 0
    while job.batch(None, lambda *_: None).left:
        ends = {(state.topic, state.partition): state.offset for state in job.progress.partitions}
        read = [one for place, held in source.held.items() for one in held if one.offset < ends[place]]
        rows = sum(isinstance(event, Envelope) for one in read for event in DECODER.open_message(one.key, one.value))
        left = sum(one.waiting for one in job.progress.pending)
        gone = job.progress.counters.replays + job.progress.counters.late
        dropped = rows - gone - job.progress.counters.rows - left
        assert dropped >= 0
        cut += any(0 < one.applied < one.rows for one in job.progress.pending)
    assert cut > 3, "groups were cut"
    assert not job.progress.pending
