"""What a run tells its page, and what the page knows of it."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from tests.support.job_state import held_by, put
from tests.support.shop import Shop
from tests.support.status_examples import IDENTITY, NOW, PROGRESS, TSO, WELL, beat, write_job
from tests.unit.replicate.test_long_stories import unreadable
from ticdc_spark.config.load import load_identity
from ticdc_spark.errors import SinkFault
from ticdc_spark.operate.page.job_history import JobHistory
from ticdc_spark.operate.page.job_source import READ_EVERY, RunningJob, StateReader
from ticdc_spark.operate.page.samples import MOST
from ticdc_spark.operate.status import Stored
from ticdc_spark.replicate.report import BatchReport, KeptLetter
from ticdc_spark.replicate.run.watch import Maintained
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.progress import Counters
from ticdc_spark.sinks.upkeep import TableFiles, UpkeepResult


def after(rows: int) -> BatchReport:
    """A batch after which a table has so many changes."""
    table = msgspec.structs.replace(WELL.tables[0], rows=rows)
    progress = msgspec.structs.replace(WELL, tables=(table,), counters=Counters(rows=rows))
    return BatchReport(progress=progress, messages=1, looked_at=NOW)


def test_a_batch_tells_what_it_applied_and_what_it_could_not_read() -> None:
    shop = Shop(on_reject="quarantine")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.watermark()
    shop.start()
    assert shop.steps is not None
    first = shop.steps.batch(None, lambda *_: None)
    assert [one.change.query for one in first.ddls] == [
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "ALTER TABLE t ADD COLUMN n INT",
    ]
    assert first.letters == ()
    unreadable(shop)
    shop.watermark()
    second = shop.steps.batch(None, lambda *_: None)
    (letter,) = second.letters
    assert (letter.stage, letter.partition, second.ddls) == ("decode", 0, ())
    assert letter.reason and letter.message
    assert shop.steps.batch(None, lambda *_: None).letters == (letter,), "it is still the newest"


def test_the_page_knows_what_was_done_newest_first_and_when_a_table_changed() -> None:
    now = [NOW]
    history = JobHistory(clock=lambda: now[0])
    watcher = history.watcher
    watcher.committed(after(5))
    assert history.told().changed == {}, "when it changed before is not known"
    now[0] += 20
    ddls = PROGRESS.ddls
    watcher.committed(msgspec.structs.replace(after(9), ddls=ddls))
    now[0] += 20
    watcher.committed(after(9))
    for table in ("a", "b"):
        watcher.maintained(Maintained(table=("shop", table), seconds=1.0))
    found = history.told()
    assert found.changed == {("shop", "orders"): NOW + 20}
    assert [(one.at, one.ddl) for one in found.ddls] == [(NOW + 20, ddls[0])]
    assert [one.upkeep.table[1] for one in found.maintained] == ["b", "a"]
    assert [one.total for one in found.samples] == [5, 9, 9]


def test_a_dead_letter_is_listed_once_and_stays_after_an_outage() -> None:
    history = JobHistory(clock=lambda: NOW)
    letters = tuple(
        KeptLetter(stage="decode", topic="shop", partition=0, offset=at, reason="no JSON", message="{", at=NOW)
        for at in range(3)
    )
    for reported in (letters[:1], letters[:2], letters[:2], (), letters[2:]):
        history.watcher.committed(msgspec.structs.replace(after(1), letters=reported))
    assert [one.offset for one in history.told().letters] == [2, 1, 0]


def test_the_memory_of_a_long_run_does_not_grow() -> None:
    now = [NOW]
    history = JobHistory(clock=lambda: now[0])
    for number in range(2000):
        now[0] += 10
        history.watcher.committed(msgspec.structs.replace(after(number), ddls=PROGRESS.ddls))
        looked = UpkeepResult(after=TableFiles(files=number))
        for table in ("orders", f"of_day_{number}"):
            history.watcher.maintained(Maintained(table=("shop", table), seconds=1.0, result=looked))
    found = history.told()
    assert (len(found.samples), len(found.ddls), len(found.maintained)) == (MOST, 50, 50)
    assert found.files["shop", "orders"].files == 1999
    assert len(found.files) <= len(PROGRESS.tables) + 2, "tables that are gone are forgotten"


def test_a_running_job_is_as_its_run_tells(tmp_path: Path) -> None:
    now, told = [NOW], threading.Event()
    history = JobHistory(told.set, lambda: now[0])
    job = RunningJob(load_identity(write_job(tmp_path)), history, lambda: now[0])
    assert (job.seen().status.state, job.seen().status.reason) == ("pending", "starting")
    history.watcher.phase("scan", 1)
    assert told.is_set()
    assert job.seen().status.reason == "reading the messages of a batch"
    history.watcher.committed(after(5))
    now[0] += 5
    assert (job.seen().status.state, job.seen().status.changes, job.seen().since) == ("normal", 5, NOW)
    history.watcher.trouble(SinkFault("the catalog does not answer"))
    found = job.seen()
    assert (found.status.state, found.status.reason) == ("warning", "the catalog does not answer")
    assert (found.since, found.status.pid) == (NOW + 5, this_process().process.pid)
    history.watcher.phase("scan", 2)
    assert job.seen().status.state == "normal"
    history.watcher.suspected("no executor runs a task")
    assert (job.seen().status.state, job.seen().status.reason) == ("warning", "no executor runs a task")
    history.watcher.suspected("")
    assert job.seen().status.state == "normal"


def test_a_run_that_begins_shows_the_tables_that_its_state_has(tmp_path: Path) -> None:
    path = write_job(tmp_path)
    put(path, PROGRESS)
    job = RunningJob(load_identity(path), JobHistory())
    found = job.seen().status
    assert found.resolved_ts == TSO and "shop.orders" in {table.name for table in found.tables}
    assert (found.state, found.reason) == ("pending", "starting")


def test_a_job_of_another_process_is_read_from_its_state(tmp_path: Path) -> None:
    path = write_job(tmp_path)
    assert StateReader(load_identity(path)).seen().status.state == "pending"
    held_by(path, this_process(), beat(phase="scan", at=NOW))
    found = StateReader(load_identity(path)).seen().status
    assert found.running and found.phase == "scan"


def test_a_state_is_read_once_in_a_while_and_one_that_cannot_be_read_is_said() -> None:
    now, reads, broken = [NOW], [0], [False]

    def read(_: object) -> Stored:
        reads[0] += 1
        if broken[0]:
            raise SinkFault("catalog 'lake' does not answer: password=geheim1")
        return Stored(progress=WELL, beat=beat())

    reader = StateReader(IDENTITY, lambda: now[0], read)
    for _ in range(5):
        assert reader.seen().progress is WELL
    assert reads == [1]
    now[0] += READ_EVERY
    broken[0] = True
    found = reader.seen().status
    assert (found.state, reads) == ("warning", [2])
    assert "does not answer" in found.reason and "geheim1" not in found.reason
    broken[0] = False
    now[0] += READ_EVERY
    assert reader.seen().progress is WELL
    assert len(reader.seen().told.samples) == 1
