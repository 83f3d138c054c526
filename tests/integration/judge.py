"""Two judges of one database: the messages of a changefeed beside those of native Debezium, place by place.

Messages are put beside each other by transaction (our commit_ts, native's gtid, both in the binlog's order) and within
it by table, operation and key. What is left then, and each place where two messages differ, is a ``Spot``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, TopicPartition

from tests.support.kafka_broker import Broker

assert TIMESTAMP_NOT_AVAILABLE == 0


class Absent:
    """In place of a field that is not there."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = Absent()


class Message(NamedTuple):
    """A message, read from JSON. ``key`` and ``value`` have ``payload`` and ``schema`` also where it was bare."""

    topic: str
    key: Any
    value: Any
    headers: dict[str, str]

    @property
    def payload(self) -> Any:
        return self.value["payload"]

    @property
    def table(self) -> str:
        return str(self.payload["source"]["table"])

    @property
    def handle(self) -> str:
        """The key's columns, as text."""
        return json.dumps(self.key and self.key["payload"], sort_keys=True)

    @property
    def identity(self) -> tuple[str, str, str]:
        """What pairs it with the other side's."""
        return self.table, self.payload["op"], self.handle


class Spot(NamedTuple):
    """A place where both sides differ."""

    table: str
    path: tuple[str, ...]
    """In the message; for what is missing as a whole ``("message", …)``."""
    ours: Any
    native: Any
    pair: tuple[Message | None, Message | None] = (None, None)

    @property
    def where(self) -> str:
        return f"{self.table} {'.'.join(self.path)}"


def read_all(broker: Broker, topic: str) -> list[Message]:
    """A topic's messages; its one partition."""
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "judge", "enable.auto.commit": False})
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, first)])
        found: list[Message] = []
        at = first
        while at < end:
            for one in consumer.consume(500, timeout=1):
                assert one.error() is None, one.error()
                headers = {name: bytes(value or b"").decode() for name, value in one.headers() or []}
                found.append(Message(topic, _json(one.key()), _json(one.value()), headers))
                at = one.offset() + 1
        return found
    finally:
        consumer.close()


def _json(raw: Any) -> Any:
    if raw is None:
        return None
    parsed = json.loads(raw)
    return parsed if "payload" in parsed else {"payload": parsed}


def is_row(message: Message) -> bool:
    return message.value is not None and message.payload.get("op") in ("c", "u", "d", "r")


def is_ddl(message: Message) -> bool:
    return message.value is not None and "ddl" in message.payload


def transactions(rows: Sequence[Message], *, native: bool) -> list[list[Message]]:
    """Rows by transaction, in the order of the commits."""

    def source(one: Message) -> Any:
        return one.payload["source"]

    if native:
        ordered = sorted(rows, key=lambda one: (source(one)["file"], int(source(one)["gtid"].rsplit("-")[-1])))
        return [[*group] for _, group in groupby(ordered, lambda one: source(one)["gtid"])]
    return [[*group] for _, group in groupby(rows, lambda one: source(one)["commit_ts"])]


def compare_rows(ours: Sequence[Message], native: Sequence[Message]) -> Iterator[Spot]:
    """Every spot of the rows. A table that one side does not send at all is one spot."""
    for tables in (_tables(native) - _tables(ours), _tables(ours) - _tables(native)):
        for table in sorted(tables):
            yield Spot(table, ("message", "table"), table in _tables(ours), table in _tables(native))
    both = _tables(ours) & _tables(native)
    left, right = ([one for one in rows if one.table in both] for rows in (ours, native))
    # a transaction of which one side has nothing is none of the other's
    mine, theirs = transactions(left, native=False), transactions(right, native=True)
    at = 0
    for changes in theirs:
        here = mine[at] if at < len(mine) else []
        if not _same_keys(here, changes):
            yield from _net(changes[0].table, [], changes)
            continue
        at += 1
        for table in sorted(_tables(here) | _tables(changes)):
            yield from _compare_table(
                table, [one for one in here if one.table == table], [one for one in changes if one.table == table]
            )
    for changes in mine[at:]:
        yield Spot(changes[0].table, ("message", "transaction"), [one.identity for one in changes], ABSENT)


def compare_ddl(ours: Sequence[Message], native: Sequence[Message]) -> Iterator[Spot]:
    """Every spot of the DDL, put beside each other by their order and their SQL."""
    rest = list(native)
    for one in ours:
        at = next((at for at, other in enumerate(rest) if other.payload["ddl"] == one.payload["ddl"]), None)
        if at is None:
            yield Spot(one.table, ("message", "ddl"), one.payload["ddl"], ABSENT, (one, None))
            continue
        for other in rest[:at]:
            yield Spot(str(other.table), ("message", "ddl"), ABSENT, other.payload["ddl"], (None, other))
        yield from compare_pair(one.table, one, rest[at])
        del rest[: at + 1]
    for other in rest:
        yield Spot(str(other.table), ("message", "ddl"), ABSENT, other.payload["ddl"], (None, other))


def compare_rest(ours: Sequence[Message], native: Sequence[Message]) -> Iterator[Spot]:
    """Messages that are neither rows nor DDL: each is a spot."""
    for one in ours:
        if not is_row(one) and not is_ddl(one):
            kind = one.payload["op"] if one.value else "tombstone"
            yield Spot(one.topic, ("message", kind), one.payload, ABSENT, (one, None))
    before: dict[str, Message] = {}
    for one in native:
        if not is_row(one) and not is_ddl(one):
            kind = one.payload["op"] if one.value else "tombstone"
            yield Spot(one.topic, ("message", kind), ABSENT, one.handle, (before.get(one.topic), one))
        before[one.topic] = one


def compare(ours: Sequence[Message], native: Sequence[Message]) -> Iterator[Spot]:
    """Every spot of two feeds; each topic's messages in order."""
    yield from compare_rows([*filter(is_row, ours)], [*filter(is_row, native)])
    yield from compare_ddl([*filter(is_ddl, ours)], [*filter(is_ddl, native)])
    yield from compare_rest(ours, native)


def _tables(rows: Sequence[Message]) -> set[str]:
    return {one.table for one in rows}


def _same_keys(ours: Sequence[Message], native: Sequence[Message]) -> bool:
    """Whether what we send of a transaction can be of this one."""
    keys = {(one.table, one.handle) for one in native}
    return bool(ours) and any((one.table, one.handle) in keys for one in ours)


def _compare_table(table: str, ours: list[Message], native: list[Message]) -> Iterator[Spot]:
    """Of one transaction."""
    identities, others = ([one.identity for one in rows] for rows in (ours, native))
    if sorted(identities) == sorted(others):
        if identities != others:
            yield Spot(table, ("message", "order"), identities, others)
        rest = list(native)
        for one in ours:
            partner = next(other for other in rest if other.identity == one.identity)
            rest.remove(partner)
            yield from compare_pair(table, one, partner)
    else:
        yield from _net(table, ours, native)


def _net(table: str, ours: list[Message], native: list[Message]) -> Iterator[Spot]:
    """Other messages of one transaction: the rows before and after it, by key, are compared then."""
    yield Spot(table, ("message", "changes"), [one.identity for one in ours], [one.identity for one in native])
    mine, theirs = images(ours), images(native)
    for key in sorted(mine.keys() | theirs.keys()):
        before, after = mine.get(key, (None, None)), theirs.get(key, (None, None))
        for name, left, right in zip(("before", "after"), before, after, strict=True):
            yield from diff(table, ("value", "payload", name), left, right, (None, None))


def images(changes: Sequence[Message]) -> dict[str, tuple[Any, Any]]:
    """Of each key the row before the first and after the last of the changes, but for keys that come and go."""
    found: dict[str, tuple[Any, Any]] = {}
    for one in changes:
        for image, is_after in (
            (one.payload.get("before", ABSENT), False),
            (one.payload.get("after"), True),
        ):
            if image is ABSENT:
                found.setdefault(json.dumps([*one.key["payload"].values()]), (ABSENT, None))
            elif image is not None:
                key = json.dumps([image[name] for name in one.key["payload"]])
                first, _ = found.get(key, (None, None) if is_after else (image, None))
                found[key] = (first, image if is_after else None)
    return {key: pair for key, pair in found.items() if pair != (None, None)}


def compare_pair(table: str, ours: Message, native: Message) -> Iterator[Spot]:
    """Two messages."""
    pair = (ours, native)
    yield from diff(table, ("headers",), ours.headers, native.headers, pair)
    yield from diff(table, ("key",), ours.key, native.key, pair)
    yield from diff(table, ("value",), ours.value, native.value, pair)


def diff(
    table: str, path: tuple[str, ...], ours: Any, native: Any, pair: tuple[Message | None, Message | None]
) -> Iterator[Spot]:
    """Places where two JSON values differ. Lists of fields are compared by name, and their order as a place."""
    if isinstance(ours, Mapping) and isinstance(native, Mapping):
        for name in dict.fromkeys([*ours, *native]):
            yield from diff(table, (*path, name), ours.get(name, ABSENT), native.get(name, ABSENT), pair)
    elif isinstance(ours, list) and isinstance(native, list):
        mine, theirs = _named(ours), _named(native)
        common = [name for name in mine if name in theirs]
        if common != [name for name in theirs if name in mine]:
            yield Spot(table, (*path, "order"), [*mine], [*theirs], pair)
        yield from diff(table, path, mine, theirs, pair)
    elif not _equal(ours, native):
        yield Spot(table, path, ours, native, pair)


def _equal(ours: Any, native: Any) -> bool:
    """Numbers as JSON has them, of which a double is what readers make: 0 is 0.0."""
    if isinstance(ours, float) != isinstance(native, float) and {type(ours), type(native)} <= {int, float}:
        return float(ours) == float(native)
    return type(ours) is type(native) and bool(ours == native)


def _named(fields: list[Any]) -> dict[str, Any]:
    """A list's elements by their names, or by their places."""
    if fields and all(isinstance(one, dict) and ("field" in one or "name" in one) for one in fields):
        return {one.get("field", one.get("name")): one for one in fields}
    return {str(at): one for at, one in enumerate(fields)}
