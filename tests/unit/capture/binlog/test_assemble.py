"""Elements from events, for what a real server does not do on demand."""

from __future__ import annotations

import pytest

from ticdc_spark.capture.base import CaptureState
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.capture.binlog.position import Place, Position, write_position
from ticdc_spark.capture.binlog.server import Facts
from ticdc_spark.capture.binlog.values.charsets import Charsets
from ticdc_spark.capture.binlog.wire.events import Event, Kind
from ticdc_spark.errors import SourceChanged

FILE = "binlog.000001"


@pytest.mark.parametrize("server", ["1 a", "2 b"])
@pytest.mark.parametrize("file", [FILE, "binlog.000002"])
@pytest.mark.parametrize("created", [100, 101])
def test_a_binlog_file_of_the_same_server_that_was_made_at_another_time_is_refused(
    server: str, file: str, created: int
) -> None:
    """A reset with the same work after it may give the same file, offset and GTID."""
    facts = Facts(True, "11.4.2-MariaDB", server, True, Charsets({}, lambda _: ""))
    read = Position(server="1 a", place=Place(FILE, 500, "0-1-5"), created=100)
    state = CaptureState(position=write_position(read), commit_ts=5, tables=())
    assembler = BinlogCapture("mysql://root@127.0.0.1:1")._assembler(state, facts)
    begins = Event(Kind.FORMAT_DESCRIPTION, created, 256, 252, b"")
    if server == "1 a" and file == FILE and created != 100:
        with pytest.raises(SourceChanged, match=r"was made at 101 .* reset.*Begin a new changefeed"):
            list(assembler.feed(begins, file, 1))
    else:
        assert list(assembler.feed(begins, file, 1)) == []


@pytest.mark.parametrize(
    ("wrote", "dialect"), [("8.4.3", "mysql"), ("9.0.1-log", "mysql 9"), ("10.1.0", "mysql 9"), ("", "mysql 9")]
)
def test_the_rules_of_the_server_that_wrote_a_file_count(wrote: str, dialect: str) -> None:
    """After an upgrade of MySQL, older files are still of the former version."""
    facts = Facts(False, "9.7.4", "1 a", False, Charsets({}, lambda _: ""))
    read = Position(server="1 a", place=Place(FILE, 500, None))
    state = CaptureState(position=write_position(read), commit_ts=5, tables=())
    assembler = BinlogCapture("mysql://root@127.0.0.1:1")._assembler(state, facts)
    body = b"\4\0" + wrote.encode().ljust(50, b"\0") + bytes(45)
    assert list(assembler.feed(Event(Kind.FORMAT_DESCRIPTION, 100, 256, 252, body), FILE, 1)) == []
    assert assembler._facts.dialect == dialect
