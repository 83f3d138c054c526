"""The metrics of ``changefeed``."""

from __future__ import annotations

from pathlib import Path
from queue import Queue

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.status_examples import NOW, TSO
from tests.unit.operate.metrics.test_replicate import PAGE, documented
from ticdc_spark.capture.base import CaptureState
from ticdc_spark.capture.binlog.kept import Kept
from ticdc_spark.capture.binlog.position import Place, Position, write_position
from ticdc_spark.changefeed.progress import StateFolder
from ticdc_spark.changefeed.report import Report
from ticdc_spark.changefeed.sent import TableRows
from ticdc_spark.errors import SourceFault
from ticdc_spark.operate.metrics import binlog
from ticdc_spark.operate.metrics.changefeed import PREFIX, ChangefeedMetrics

SENT = Report(
    rows=7,
    messages=5,
    waiting=2,
    rows_per_second=1.0,
    saved=TSO,
    bytes=900,
    ddls=3,
    retries={"SinkFault": 2},
    counted=(TableRows("d", "t", "insert", 4), TableRows("d", "t", "delete", 1), TableRows("d", "u", "insert", 2)),
)
KEPT = Kept(older=250, newer=100, seconds=3600.0)


def samples(of: ChangefeedMetrics) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(of)  # type: ignore[arg-type]
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        sample.name + "".join(f",{value}" for value in sample.labels.values() if not sample.name.endswith("_info")): (
            sample.value
        )
        for family in families
        for sample in family.samples
    }


def test_the_lag_is_that_of_now_and_an_outage_shows() -> None:
    now = [NOW]
    of = ChangefeedMetrics("shop", lambda: now[0])
    assert "starting" in of.not_ready()
    of(SENT)
    before = samples(of)
    now[0] += 30
    assert samples(of)[f"{PREFIX}lag_seconds"] - before[f"{PREFIX}lag_seconds"] == pytest.approx(30)
    assert (before[f"{PREFIX}rows_total"], before[f"{PREFIX}up"], of.not_ready()) == (7, 1, "")
    of(Report(rows=7, messages=5, waiting=2, rows_per_second=0.0, saved=TSO, outage="broker:9092 refuses"))
    assert (samples(of)[f"{PREFIX}up"], of.not_ready()) == (0, "broker:9092 refuses")


def test_counts_of_a_run_are_those_of_its_report() -> None:
    of = ChangefeedMetrics("shop", lambda: NOW)
    of(SENT)
    found = samples(of)
    assert (found[f"{PREFIX}message_bytes_total"], found[f"{PREFIX}ddls_total"]) == (900, 3)
    assert (found[f"{PREFIX}retries_total,SinkFault"], found[f"{PREFIX}retries_total,SourceFault"]) == (2, 0)
    assert found[f"{PREFIX}table_rows_total,insert,d,t"] == 4
    assert found[f"{PREFIX}table_rows_total,delete,d,t"] == 1


@pytest.mark.parametrize(("most", "series"), [(2, 6), (10_000, 10_000), (0, 2)])
def test_so_many_tables_have_series_of_their_own_and_no_row_is_lost(most: int, series: int) -> None:
    of = ChangefeedMetrics("shop", lambda: NOW, table_series=most)
    counted = [TableRows("d", f"t{at:05}", op, 2) for at in range(5_000) for op in ("insert", "update")]
    of(msgspec.structs.replace(SENT, counted=tuple(counted)))
    found = {name: rows for name, rows in samples(of).items() if name.startswith(f"{PREFIX}table_rows")}
    assert (len(found), sum(found.values())) == (series, 20_000)


def test_the_headroom_shrinks_while_nothing_is_sent_and_is_left_out_if_unknown() -> None:
    now = [NOW]
    of = ChangefeedMetrics("shop", lambda: now[0])
    of(SENT)
    names = [f"{PREFIX}{name}" for name in ("retention_headroom_seconds", "binlog_older_bytes", "binlog_unread_bytes")]
    assert not samples(of).keys() & names
    of.note_kept(KEPT)
    before = samples(of)
    assert [before[name] for name in names[1:]] == [250, 100]
    assert before[names[0]] == pytest.approx(3600 - before[f"{PREFIX}lag_seconds"])
    now[0] += 60
    assert samples(of)[names[0]] == pytest.approx(before[names[0]] - 60)
    of.note_kept(Kept(seconds=3600.0))
    assert samples(of).keys() & names == {names[0]}
    of.note_kept(None)
    assert not samples(of).keys() & names


def stored(folder: Path) -> None:
    with StateFolder(folder, changefeed="feed", target="t", protocol="simple", source="binlog") as state:
        position = write_position(Position(server="7 abc", place=Place("log.000009", 150)))
        state.save(CaptureState(position=position, commit_ts=TSO), {}, 0)


def test_the_server_is_asked_about_the_stored_position_and_again_after_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: Queue[Kept | None] = Queue()
    answers: list[Kept | Exception] = [KEPT, SourceFault("no server"), KEPT]
    asked: list[Position] = []

    def ask(_: object, position: Position) -> Kept:
        asked.append(position)
        answer = answers.pop(0) if answers else KEPT
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(binlog, "ask_kept", ask)
    with binlog.watching_binlog("mysql://root@nowhere", tmp_path, told.put, every=0.01):
        assert told.get(timeout=10) is None, "nothing is stored yet"
        stored(tmp_path)
        while (first := told.get(timeout=10)) is None:
            pass
        assert [first, told.get(timeout=10), told.get(timeout=10)] == [KEPT, None, KEPT]
    assert asked[0].place == Place("log.000009", 150)


def test_the_page_has_every_metric_and_no_other() -> None:
    of = ChangefeedMetrics("shop", lambda: NOW)
    of(SENT)
    of.note_kept(KEPT)
    names = {name.partition(",")[0] for name in samples(of)}
    assert documented(PAGE.read_text(encoding="utf-8"), "changefeed") == names
