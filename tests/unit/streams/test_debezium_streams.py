"""Streams of Debezium's messages whose tables are known by other means than a CREATE TABLE."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.support.debezium_connect import SOURCE, change, field, key, text
from ticdc_spark.model import Message, Rejected, RowChange
from ticdc_spark.mysql import format_type
from ticdc_spark.protocols.debezium.decode import DECODER
from ticdc_spark.streams.reader import EventReader

ID = {**field("id", "int32"), "optional": False}
FIELDS = [ID, field("at", "int64", "io.debezium.time.Timestamp"), field("name", "string")]


def read(values: Iterable[tuple[bytes | None, bytes]]) -> list[Any]:
    reader = EventReader(DECODER)
    messages = (
        Message(topic="t", partition=0, offset=at, key=a_key, value=value) for at, (a_key, value) in enumerate(values)
    )
    return [found.event for message in messages for found in reader.read(message)]


def ddl(commit_ts: int, sql: str, columns: list[dict[str, Any]] | None) -> tuple[None, bytes]:
    table = None if columns is None else {"primaryKeyColumnNames": ["id"], "columns": columns}
    changes = [{"type": "ALTER", "id": '"inventory"."items"', "table": table}]
    source = SOURCE | {"commit_ts": commit_ts}
    payload = {"source": source, "databaseName": "inventory", "ddl": sql, "tableChanges": changes}
    return None, text({"payload": payload})


def row(commit_ts: int, after: dict[str, Any]) -> tuple[None, bytes]:
    payload = {"source": SOURCE | {"commit_ts": commit_ts}, "op": "c", "before": None, "after": after}
    return None, text({"payload": payload})


def test_a_connectors_rows_need_no_ddl() -> None:
    values = [change("c", None, {"id": 1, "at": 1000, "name": "x"}, FIELDS)]
    values += [change("u", {"id": 1, "at": 1, "name": "x"}, {"id": 1, "at": 2, "name": None}, FIELDS)]
    values += [change("c", None, {"id": 2, "at": None, "name": "y", "n": 3}, [*FIELDS, field("n", "int64")])]
    found = read((key({"id": 1}, ID), value) for value in values)
    assert [event.after for event in found] == [
        {"id": "1", "at": "1970-01-01 00:00:01.000", "name": "x"},
        {"id": "1", "at": "1970-01-01 00:00:00.002", "name": None},
        {"id": "2", "at": None, "name": "y", "n": "3"},
    ]
    (last,) = {event.table for event in found[2:]}
    assert [format_type(column.type) for column in last.columns] == ["int(11)", "datetime(3)", "longtext", "bigint(20)"]
    assert last.indexes[0].columns == ("id",)


def test_a_stream_that_is_joined_in_its_midst() -> None:
    columns: list[dict[str, Any]] = [
        {"name": "id", "typeName": "BIGINT UNSIGNED", "optional": False},
        {"name": "kind", "typeName": "ENUM", "enumValues": ["'a'", "'b'"]},
        {"name": "x", "typeName": "INT"},
    ]
    before, altered, after, again, dropped, copy, late = read(
        [
            row(1, {"id": 1, "kind": "a"}),
            ddl(2, "ALTER TABLE items ADD COLUMN x INT", columns),
            row(3, {"id": -1, "kind": "b", "x": 4}),
            ddl(4, "ALTER TABLE items ADD COLUMN y BLOB", [*columns, {"name": "y", "typeName": "TEXT"}]),
            ddl(5, "DROP TABLE items", None),
            ddl(2, "ALTER TABLE items ADD COLUMN x INT", columns),
            row(6, {"id": 1, "kind": "a", "x": 5}),
        ]
    )
    assert isinstance(before, Rejected) and "no schema block" in before.reason
    assert isinstance(after, RowChange)
    assert after.after == {"id": "18446744073709551615", "kind": "2", "x": "4"}
    assert altered.query == copy.query and again.query and dropped.query
    assert isinstance(late, Rejected), "a DDL's copy brings no dropped table back"


def test_the_sql_of_a_known_table_counts_more_than_what_stands_beside_it() -> None:
    beside: list[dict[str, Any]] = [{"name": "id", "typeName": "BIGINT"}, {"name": "y", "typeName": "TEXT"}]
    *_, found = read(
        [
            ddl(1, "CREATE TABLE items (id BIGINT PRIMARY KEY)", beside[:1]),
            ddl(2, "ALTER TABLE items ADD COLUMN y BLOB", beside),
            row(3, {"id": 1, "y": "AP8="}),
        ]
    )
    assert isinstance(found, RowChange) and found.after == {"id": "1", "y": b"\0\xff"}
