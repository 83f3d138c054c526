"""Requests the stream of a server's binlog, and cuts it into events."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ticdc_spark.capture.binlog.connection import Connection, fault, wrapped
from ticdc_spark.capture.binlog.position import MysqlGtids, Place
from ticdc_spark.capture.binlog.uri import ServerUri
from ticdc_spark.capture.binlog.wire.events import HEADER, Event, Kind
from ticdc_spark.capture.binlog.wire.payload import unpack
from ticdc_spark.errors import SourceFault

_COM_BINLOG_DUMP, _COM_BINLOG_DUMP_GTID = 0x12, 0x1E
_NON_BLOCKING, _THROUGH_GTID = 1, 4
_LARGEST_PACKET = 0xFFFFFF
_MADE_UP = 0x20
"""The flag of an event that is not in the file."""


class Dump:
    """Events from a place on. ``file`` has the file name of the current event.

    Raises: SourceFault if the connection breaks; SourceChanged if the server no longer has the place.
    """

    def __init__(
        self, server: ServerUri, place: Place, server_id: int, *, mariadb: bool, heartbeat: float, wait: bool = True
    ) -> None:
        """``heartbeat``: seconds after which an idle server sends a heartbeat. ``wait``: at the end, for new events."""
        self._server = server
        self._waits = wait
        self._connection = Connection(server)
        self.file = place.file
        self.origin = 0
        """The server_id of the last event."""
        self._checksum = 0
        try:
            self._ask(place, server_id, mariadb, heartbeat, wait)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def interrupt(self) -> None:
        """End a waiting read, from another thread."""
        sock = self._connection.raw._sock
        if sock is not None:
            with suppress(OSError):  # it is closed already
                sock.shutdown(2)

    def events(self) -> Iterator[Event]:
        """Events as they arrive."""
        raw = self._connection.raw
        with wrapped(self._server):
            while True:
                packet = _packet(raw._rfile.read)
                if packet[0] == 0:
                    event = self._event(packet)
                    if event.kind == Kind.TRANSACTION_PAYLOAD:
                        yield from unpack(event)
                    else:
                        yield event
                elif packet[0] == 0xFF:
                    code = int.from_bytes(packet[1:3], "little")
                    raise fault(self._server, code, packet[3:].decode("utf-8", "replace").lstrip("#HY0"))
                elif self._waits:
                    raise SourceFault(f"{self._server.where} ended its binlog's stream")
                else:
                    return

    def _event(self, packet: bytes) -> Event:
        timestamp, kind, self.origin, size, end, flags = HEADER.unpack_from(packet, 1)
        if kind == Kind.FORMAT_DESCRIPTION:
            # the byte before the checksum says which kind of checksum the file's events have
            self._checksum = 4 if packet[-5] == 1 else 0
            stop = -4 if self._checksum else len(packet)
        else:
            stop = -4 if self._checksum else len(packet)
            if self._checksum and zlib.crc32(packet[1:-4]) != int.from_bytes(packet[-4:], "little"):
                raise SourceFault(
                    f"{self._server.where}: the checksum of an event before {self.file}:{end} does not fit"
                )
        body = packet[20:stop]
        if kind == Kind.ROTATE:
            self.file = body[8:].decode()
            end = 0  # it is in the file before the one that it names
        return Event(kind, timestamp, 0 if flags & _MADE_UP and kind != Kind.HEARTBEAT else end, size, body)

    def _ask(self, place: Place, server_id: int, mariadb: bool, heartbeat: float, wait: bool) -> None:
        rows = self._connection.rows
        checksum = self._connection.variables(["binlog_checksum"]).get("binlog_checksum", "NONE")
        rows("SET @master_binlog_checksum = %s, @source_binlog_checksum = %s", (checksum, checksum))
        # artificial events before the first format description have the agreed checksum
        self._checksum = 0 if checksum.upper() == "NONE" else 4
        nanoseconds = int(heartbeat * 1_000_000_000)
        rows(f"SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}")
        raw = self._connection.raw
        flags = 0 if wait else _NON_BLOCKING
        if mariadb:
            rows("SET @mariadb_slave_capability = 4")
            if place.gtid is not None:
                # as on the server: one that accepts numbers out of order also logs them so
                rows(
                    "SET @slave_connect_state = %s, @slave_gtid_strict_mode = @@GLOBAL.gtid_strict_mode, "
                    "@slave_gtid_ignore_duplicates = 0",
                    (place.gtid,),
                )
        by_gtid = place.gtid is not None
        if by_gtid and not mariadb:
            known = MysqlGtids(place.gtid or "").encoded()
            body = struct.pack("<HIIQI", flags | _THROUGH_GTID, server_id, 0, 4, len(known)) + known
            command = _COM_BINLOG_DUMP_GTID
        else:
            offset, file = (4, b"") if by_gtid else (place.offset, place.file.encode())
            body, command = struct.pack("<IHI", offset, flags, server_id) + file, _COM_BINLOG_DUMP
        with wrapped(self._server):
            self._register(raw, server_id)
            _send(raw, bytes([command]) + body)

    def _register(self, raw: Any, server_id: int) -> None:
        """Register, to be listed in SHOW SLAVE HOSTS."""
        host = b"ticdc-spark"
        text = struct.pack("<BI", 0x15, server_id) + bytes([len(host)]) + host + b"\0\0" + struct.pack("<HII", 0, 0, 0)
        _send(raw, text)
        packet = _packet(raw._rfile.read)
        if packet[0] == 0xFF:
            raise fault(self._server, int.from_bytes(packet[1:3], "little"), packet[9:].decode("utf-8", "replace"))


def _send(raw: Any, body: bytes) -> None:
    raw._write_bytes(len(body).to_bytes(3, "little") + b"\0" + body)


def _packet(read: Any) -> bytes:
    """A packet. Parts of one larger than 16 MiB are joined."""
    parts: list[bytes] = []
    while True:
        header = read(4)
        if len(header) < 4:
            raise OSError("the server closed it")
        size = header[0] | header[1] << 8 | header[2] << 16
        part: bytes = read(size)
        if len(part) < size:
            raise OSError("the server closed it")
        if size < _LARGEST_PACKET and not parts:
            return part
        parts.append(part)
        if size < _LARGEST_PACKET:
            return b"".join(parts)
