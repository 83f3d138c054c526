"""When a table is looked after, and which snapshots may go."""

from collections.abc import Sequence
from pathlib import Path
from threading import Barrier

import msgspec
import pytest

from ticdc_spark.config.job import FilesSource, IcebergConfig, Job, UpkeepKeys
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import Table, TableName
from ticdc_spark.replicate.run.upkeep import SHARE, UpkeepScheduler
from ticdc_spark.replicate.run.watch import Watcher
from ticdc_spark.replicate.state.conditions import Dropped
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.iceberg.java import Snapshot
from ticdc_spark.sinks.iceberg.upkeep import Metadata, expendable, is_mostly_deleted, small_files, table_files
from ticdc_spark.sinks.upkeep import FilePlace, TableFiles, UpkeepPolicy, UpkeepResult

HOUR = 3600.0
NOW = 1000 * HOUR
POLICY = UpkeepPolicy(small_files=20, keep_all=0.5 * HOUR, keep_hourly=24 * HOUR)


class Clock:
    """Moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Tables:
    """A sink whose upkeep takes time, and fails where it is to."""

    def __init__(self, clock: Clock, seconds: float = 1.0) -> None:
        self.clock, self.seconds = clock, seconds
        self.done: list[str] = []
        self.failing: set[str] = set()
        self.result = UpkeepResult()

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
        self.clock.now += self.seconds
        self.done.append(table[1])
        if table[1] in self.failing:
            raise SinkFault("another writer was faster")
        return self.result

    def file_places(self) -> Sequence[FilePlace]:
        return ()

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        return 0


def job(**keys: object) -> Job:
    return Job(
        name="j",
        file=Path("/j.toml"),
        source=FilesSource(path=Path("/t")),
        sink=IcebergConfig(warehouse="/w"),
        upkeep=msgspec.convert(keys, UpkeepKeys),
    )


def progress(**snapshots: int) -> Progress:
    made = (
        TableState(schema="s", name=name, snapshot_id=at, table=Table(schema="s", name=name, columns=(), indexes=()))
        for name, at in snapshots.items()
    )
    return Progress(job="j", tables=tuple(made))


def test_only_tables_that_changed_are_looked_after_each_once_an_interval() -> None:
    clock = Clock()
    tables, care = Tables(clock), UpkeepScheduler(job(interval=100.0), clock)
    assert not care.turn(tables, progress(a=1, b=1)), "a table that was just met is not due"
    clock.now = 100
    assert care.turn(tables, progress(a=2, b=2))
    assert care.turn(tables, progress(a=2, b=2))
    assert not care.turn(tables, progress(a=2, b=2))
    assert tables.done == ["a", "b"]
    clock.now = 300
    assert care.turn(tables, progress(a=2, b=3)), "b"
    assert not care.turn(tables, progress(a=2, b=3)), "nothing came to a since"
    assert tables.done == ["a", "b", "b"]


def test_upkeep_takes_no_more_than_its_share_of_the_time() -> None:
    clock = Clock()
    tables, care = Tables(clock, seconds=60.0), UpkeepScheduler(job(interval=1.0), clock)
    many = [f"t{at}" for at in range(50)]
    snapshot = 0
    while clock.now < 10_000:
        snapshot += 1
        clock.now += 0 if care.turn(tables, progress(**dict.fromkeys(many, snapshot))) else 10
    assert len(set(tables.done)) == len(tables.done[:50]), "the one that waits longest comes first"
    assert SHARE * 0.8 < len(tables.done) * 60 / clock.now <= SHARE + 60 / clock.now


def test_a_table_that_cannot_be_compacted_does_not_end_the_job_and_waits() -> None:
    clock = Clock()
    tables, care = Tables(clock), UpkeepScheduler(job(interval=100.0), clock)
    tables.failing = {"a"}
    care.turn(tables, progress(a=1))
    clock.now = 200
    assert care.turn(tables, progress(a=2))
    assert not care.turn(tables, progress(a=3))
    clock.now = 400
    assert care.turn(tables, progress(a=3))


def test_nothing_is_done_where_it_is_switched_off_or_the_table_is_dropped() -> None:
    clock = Clock()
    tables = Tables(clock)
    off, on = UpkeepScheduler(job(interval=1.0, enabled=False), clock), UpkeepScheduler(job(interval=1.0), clock)
    gone = msgspec.structs.replace(progress(a=2).tables[0], condition=Dropped())
    for care, now in ((off, progress(a=2)), (on, Progress(job="j", tables=(gone,)))):
        care.turn(tables, now)
        clock.now += 1000
        assert not care.turn(tables, now)
        care.finish(tables, now, [("s", "a")])
    assert tables.done == []


def test_a_run_to_an_end_looks_after_what_it_wrote() -> None:
    clock = Clock()
    tables, care = Tables(clock), UpkeepScheduler(job(), clock)
    care.finish(tables, progress(a=1, b=1), [("s", "b"), ("s", "unknown")])
    assert tables.done == ["b"]


def metadata(ages: dict[int, float], current: int, **more: object) -> Metadata:
    """Snapshots in a chain by their numbers, with their ages in hours."""
    ids = sorted(ages)
    snapshots = [
        {
            "snapshot-id": one,
            "timestamp-ms": int((NOW - ages[one] * HOUR) * 1000),
            **({"parent-snapshot-id": ids[at - 1]} if at else {}),
        }
        for at, one in enumerate(ids)
    ]
    refs = {"main": {"snapshot-id": current, "type": "branch"}}
    given = {"current-snapshot-id": current, "snapshots": snapshots, "refs": refs, **more}
    return msgspec.convert(given, Metadata)


def test_one_snapshot_an_hour_stays_and_all_of_the_last_half_hour() -> None:
    ages = {1: 30.0, 2: 24.5, 3: 5.9, 4: 5.5, 5: 5.1, 6: 1.2, 7: 0.4, 8: 0.2, 9: 0.0}
    assert expendable(metadata(ages, 9), POLICY, NOW) == {1, 2, 3, 4}, "5 is the newest of its hour, 6 of another"


def test_of_an_hour_the_newest_with_a_stamp_stays() -> None:
    """A table that is set back to a snapshot that compaction made has lost its mark."""
    held = metadata({1: 5.9, 2: 5.5, 3: 5.1, 4: 0.0}, 4)
    stamped = [
        msgspec.structs.replace(one, summary={"ticdc.applied": "5:2"} if one.snapshot_id == 2 else {})
        for one in held.snapshots
    ]
    assert expendable(msgspec.structs.replace(held, snapshots=stamped), POLICY, NOW) == {1, 3}


def test_what_a_table_was_set_back_from_stays() -> None:
    """The job tells people to roll forward to it."""
    stamp = {"ticdc.applied": "5:2", "ticdc.floor": "1", "ticdc.job": "j", "ticdc.snapshot": "3"}
    assert expendable(metadata({1: 90.0, 2: 80.0, 3: 70.0}, 1, properties=stamp), POLICY, NOW) == {2}


def test_what_is_current_or_tagged_stays_however_old() -> None:
    ages = {1: 90.0, 2: 80.0, 3: 70.0}
    refs = {"main": {"snapshot-id": 3, "type": "branch"}, "audit": {"snapshot-id": 1, "type": "tag"}}
    assert expendable(metadata(ages, 3, refs=refs), POLICY, NOW) == {2}


def test_a_table_with_another_branch_is_left_alone() -> None:
    refs = {"main": {"snapshot-id": 3, "type": "branch"}, "ticdc_snapshot": {"snapshot-id": 1, "type": "branch"}}
    assert not expendable(metadata({1: 90.0, 2: 80.0, 3: 70.0}, 3, refs=refs), POLICY, NOW)


def test_the_way_back_to_the_last_stamp_stays() -> None:
    """By it compaction is told from a table that was replaced: without it, the table would count as changed."""
    stamp = {"ticdc.applied": "5:2", "ticdc.floor": "1", "ticdc.job": "j", "ticdc.snapshot": "2"}
    ages = {1: 90.0, 2: 80.0, 3: 70.0, 4: 60.0}
    assert expendable(metadata(ages, 4, properties=stamp), POLICY, NOW) == {1}


@pytest.mark.parametrize(
    ("files", "size", "small"), [(1, 10, 0), (30, 30 << 20, 29), (30, 30 * (512 << 20), 0), (0, 0, 0)]
)
def test_files_are_small_beyond_those_that_the_bytes_need(files: int, size: int, small: int) -> None:
    assert small_files({"total-data-files": str(files), "total-files-size": str(size)}) == small


def test_what_a_table_is_made_of_is_told_by_its_current_snapshot() -> None:
    assert table_files(Metadata(current_snapshot_id=-1)) is None
    summary = {
        "total-records": "900",
        "total-files-size": "5000",
        "total-data-files": "8",
        "total-delete-files": "2",
        "total-position-deletes": "40",
    }
    older = Snapshot(snapshot_id=1, summary={"total-records": "7"})
    found = table_files(Metadata(current_snapshot_id=2, snapshots=(older, Snapshot(snapshot_id=2, summary=summary))))
    wanted = TableFiles(rows=900, bytes=5000, files=8, delete_files=2, deleted_rows=40, snapshots=2)
    assert found == wanted


def test_deletes_count_where_they_are_many() -> None:
    assert is_mostly_deleted({"total-records": "10000", "total-position-deletes": "3001"})
    assert not is_mostly_deleted({"total-records": "10000", "total-position-deletes": "3000"})
    assert not is_mostly_deleted({"total-records": "10", "total-position-deletes": "9"})


def test_the_upkeep_at_the_end_of_a_run_looks_after_several_tables_at_a_time() -> None:
    both_began = Barrier(2)

    class Slow(Tables):
        def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
            both_began.wait(timeout=30)
            return super().look_after(table, policy, now)

    clock = Clock()
    tables, told = Slow(clock), []
    watcher = Watcher(maintained=lambda done: told.append(done.table[1]))
    UpkeepScheduler(job(), clock).finish(tables, progress(a=1, b=1), [("s", "a"), ("s", "b")], watcher)
    assert (sorted(tables.done), told) == (["a", "b"], ["a", "b"])
