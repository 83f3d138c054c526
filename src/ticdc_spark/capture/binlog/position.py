"""The position of a binlog source: GTIDs, if the server has them, and the file and offset."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from ticdc_spark.errors import UsageError

_UUID_SET = re.compile(r"([0-9a-fA-F-]{36})((?::(?:\d+(?:-\d+)?|[a-zA-Z_]\w{0,31}))+)")


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place between two groups of events."""

    file: str
    offset: int
    gtid: str | None = None
    """Everything before it: MariaDB's position of all domains, or MySQL's set. ``None``: found by file and offset."""


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """``CaptureState.position``, before it is written as text."""

    server: str
    """The server's identity: for MySQL its UUID, for MariaDB its server_id and unique id."""
    place: Place
    """After the last group that was given completely."""
    part: int = 0
    """How many elements of the next group were already given (CREATE TABLE … SELECT is a DDL and rows)."""
    since: Place | None = None
    """Before the oldest prepared XA transaction that is not yet committed or rolled back. Reading begins there."""
    created: int = 0
    """When the server created ``place.file``, in seconds. A later file with this name is another one."""


def write_position(position: Position) -> str:
    """Write a position as text."""
    return msgspec.json.encode(position).decode()


def read_position(text: str) -> Position:
    """Read a position from text.

    Raises: UsageError for text that is no position of this source.
    """
    try:
        return msgspec.json.decode(text, type=Position)
    except msgspec.DecodeError as error:
        raise UsageError(f"position {text[:80]!r} is none of a binlog: {error}") from error


def file_number(file: str) -> int:
    """The number of a file, by its name."""
    number = file.rpartition(".")[2]
    return int(number) if number.isdigit() else 0


class MariadbGtids:
    """MariaDB's position: the last transaction of each domain."""

    def __init__(self, text: str) -> None:
        self._last = {}
        for one in filter(None, text.split(",")):
            domain, server, sequence = one.strip().split("-")
            self._last[domain] = (server, int(sequence))

    def add(self, gtid: str) -> None:
        """Note that a transaction was read."""
        domain, server, sequence = gtid.split("-")
        self._last[domain] = (server, int(sequence))

    def has(self, gtid: str) -> bool:
        """Whether a transaction is before the position."""
        domain, _, sequence = gtid.split("-")
        return domain in self._last and self._last[domain][1] >= int(sequence)

    def equals(self, other: MariadbGtids) -> bool:
        """Whether the same transactions are before both."""
        return self._last == other._last

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{sequence}" for domain, (server, sequence) in self._last.items())


class MysqlGtids:
    """MySQL's set: intervals of transaction numbers, ends included, of each source: ``uuid`` or ``uuid:tag``."""

    def __init__(self, text: str) -> None:
        self._sets: dict[str, list[list[int]]] = {}
        for one in filter(None, (part.strip() for part in text.split(","))):
            found = _UUID_SET.fullmatch(one)
            if not found:
                raise UsageError(f"GTID set {one!r} is not understood; allowed: uuid:1-5:7:tag:1-3")
            source = found[1].lower()
            for part in found[2][1:].split(":"):
                if not part[0].isdigit():
                    source = f"{found[1]}:{part}".lower()
                    continue
                first, _, last = part.partition("-")
                self._put(source, int(first), int(last or first))

    def add(self, gtid: str) -> None:
        """Note that a transaction was read."""
        source, _, number = gtid.rpartition(":")
        intervals = self._sets.get(source)
        if intervals and intervals[-1][1] == int(number) - 1:
            intervals[-1][1] += 1
        else:
            self._put(source, int(number), int(number))

    def has(self, gtid: str) -> bool:
        """Whether a transaction is in it."""
        source, _, number = gtid.rpartition(":")
        return any(first <= int(number) <= last for first, last in self._sets.get(source, ()))

    def encoded(self) -> bytes:
        """The bytes for COM_BINLOG_DUMP_GTID. A set with tags has a form of its own, as in PREVIOUS_GTIDS events."""
        tagged = any(":" in source for source in self._sets)
        count = len(self._sets)
        parts = [b"\1" + count.to_bytes(6, "little") + b"\1" if tagged else count.to_bytes(8, "little")]
        for source, intervals in self._sets.items():
            uuid, _, tag = source.partition(":")
            parts += [bytes.fromhex(uuid.replace("-", ""))]
            parts += [bytes((len(tag) * 2,)), tag.encode()] if tagged else []
            parts += [len(intervals).to_bytes(8, "little")]
            for first, last in intervals:
                parts += [first.to_bytes(8, "little"), (last + 1).to_bytes(8, "little")]
        return b"".join(parts)

    def __str__(self) -> str:
        return ",".join(f"{source}:{':'.join(_intervals(intervals))}" for source, intervals in self._sets.items())

    def _put(self, source: str, first: int, last: int) -> None:
        merged: list[list[int]] = []
        for low, high in sorted([*self._sets.get(source, []), [first, last]]):
            if merged and low <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        self._sets[source] = merged


def _intervals(intervals: Iterable[list[int]]) -> list[str]:
    return [str(first) if first == last else f"{first}-{last}" for first, last in intervals]
