"""What a MySQL does otherwise than a MariaDB, without a server; ``tests/integration/test_mysql.py`` has the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import pytest
from msgspec.structs import replace

from ticdc_spark.capture.base import CaptureState, Resolved
from ticdc_spark.capture.binlog import BinlogCapture, capture
from ticdc_spark.capture.binlog.position import Place, Position, write_position
from ticdc_spark.capture.binlog.server import Facts
from ticdc_spark.capture.binlog.values.charsets import Charsets
from ticdc_spark.capture.binlog.wire.events import Event, Kind
from ticdc_spark.clients.mysql_texts import multi_byte

GTIDS = "3833bdfd-e76f-11f1-b683-02fc00000001:1-306"
PLACE = Place("binlog.000001", 500, GTIDS)
HEARTBEAT = Event(Kind.HEARTBEAT, 0, 500, 40, b"")


class OfHeartbeats:
    """A ``Dump`` of a server that skips what was read, and has two heartbeats behind it."""

    file, origin = PLACE.file, 7

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def events(self) -> Iterator[Event]:
        yield HEARTBEAT
        yield HEARTBEAT

    def close(self) -> None:
        pass


class NoConnection:
    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("ends_at", "passes"), [(500, True), (900, False)])
def test_a_heartbeat_behind_what_was_skipped_is_the_end_only_if_it_is(
    monkeypatch: pytest.MonkeyPatch, ends_at: int, passes: bool
) -> None:
    monkeypatch.setattr(capture, "Dump", OfHeartbeats)
    monkeypatch.setattr(capture, "Connection", NoConnection)
    monkeypatch.setattr(capture, "place_now", lambda *_: replace(PLACE, offset=ends_at))
    source = BinlogCapture("mysql://root@127.0.0.1:1")
    facts = Facts(False, "9.7.4", "3833bdfd", True, Charsets({}, lambda _: ""))
    state = CaptureState(position=write_position(Position(server="3833bdfd", place=PLACE)), commit_ts=5, tables=())
    monkeypatch.setattr(source, "_clock_ts", lambda: 1_000)
    given = list(source._captured(source._assembler(state, facts), facts))
    assert [one.commit_ts for one in given if isinstance(one, Resolved)] == [1_000 if passes else 5] * 2


def test_multi_byte_sets_are_read_of_a_server_that_converts_no_text_with_a_gap() -> None:
    def ask(sql: str) -> str:
        given = re.search(r"JSON_TABLE\('(.*?)'", sql)
        if given is None:
            return "None"
        found = {}
        for raw in msgspec.json.decode(given[1], type=list[str]):
            text = bytes.fromhex(raw).decode("gbk", "replace")
            found[raw] = text if len(text) == 1 and text != "\ufffd" else None
        return msgspec.json.encode(found).decode()

    assert multi_byte("gbk", ask)("a中文?".encode("gbk")) == "a中文?"
    with pytest.raises(UnicodeDecodeError):
        multi_byte("gbk", ask)(b"\xff\xff")


def test_gb18030_is_that_of_2005() -> None:
    decode = Charsets({}, lambda _: "").decoder("gb18030")
    assert decode is not None
    assert decode(b"\xa8\xbc\x81\x35\xf4\x37\xd6\xd0") == "\u1e3f\ue7c7中"
