"""Simple's schemas, completed by the SQL of DDL."""

from __future__ import annotations

import json
import re

import pytest
from msgspec.structs import replace

from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Bootstrap, Column, Message, RowChange, SchemaChange, Table
from ticdc_spark.mysql import parse_type
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.streams.converter import Converter
from ticdc_spark.streams.reader import EventReader, Found
from ticdc_spark.streams.sql_details import SqlDetails

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, s INT AS (a + 1) STORED, g INT AS (a + 2) VIRTUAL)"


def by_ids(sql: str, version: int, *names: str) -> Table:
    """A table as Simple has it: columns in this order, generated ones not marked."""
    table = parse_create(sql, "d")
    columns = {column.name: replace(column, virtual=None, stored=None) for column in table.columns}
    return replace(table, version=version, columns=tuple(columns[name] for name in names))


FIRST = by_ids(CREATE, 1, "id", "a", "s", "g")
SECOND = by_ids(CREATE.replace("(id", "(b INT, id"), 2, "id", "a", "s", "g", "b")


def ddl(ts: int, query: str, table: Table | None, before: Table | None = None) -> SchemaChange:
    return SchemaChange(commit_ts=ts, query=query, kind="ALTER", schema="d", name="t", table=table, pre_table=before)


ADD = ddl(20, "ALTER TABLE t ADD COLUMN b INT FIRST", SECOND, FIRST)


def generated(table: Table) -> list[tuple[str, bool | None, bool | None]]:
    return [(column.name, column.virtual, column.stored) for column in table.columns]


GENERATED = [("id", False, False), ("a", False, False), ("s", False, True), ("g", True, False)]


def test_ddl_gives_the_order_of_columns_and_which_are_generated() -> None:
    details = SqlDetails()
    details.follow(ddl(10, CREATE, FIRST))
    details.follow(ADD)
    assert generated(details.complete(FIRST)) == GENERATED
    assert generated(details.complete(SECOND)) == [("b", False, False), *GENERATED]


def test_a_ddl_that_comes_again_in_another_partition_changes_nothing() -> None:
    details = SqlDetails()
    create, drop = ddl(10, CREATE, FIRST), ddl(30, "ALTER TABLE t DROP COLUMN b", replace(FIRST, version=3), SECOND)
    for change in (create, ADD, create, drop, ADD, drop):
        details.follow(change)
    assert generated(details.complete(SECOND)) == [("b", False, False), *GENERATED]
    assert generated(details.complete(replace(FIRST, version=3))) == GENERATED


def test_a_table_whose_ddl_was_not_seen_stays_as_its_schema_has_it() -> None:
    details = SqlDetails()
    details.learn(SECOND)
    assert details.complete(SECOND) == SECOND
    assert details.complete(FIRST) == FIRST


def test_a_column_that_is_added_to_such_a_table_is_where_the_ddl_puts_it() -> None:
    details = SqlDetails()
    details.follow(ADD)
    assert [column.name for column in details.complete(SECOND).columns] == ["b", "id", "a", "s", "g"]


def test_sql_that_does_not_fit_the_schema_adds_nothing() -> None:
    details = SqlDetails()
    details.follow(ddl(10, "CREATE TABLE t (id INT PRIMARY KEY, other INT)", FIRST))
    assert details.complete(FIRST) == FIRST
    details.follow(ddl(20, "ALTER TABLE t DO SOMETHING NEW", SECOND, FIRST))
    assert details.complete(SECOND) == SECOND


def test_hidden_columns_of_an_index_stand_where_they_were_made() -> None:
    hidden = Column(name="_V$_i_0", type=parse_type("bigint"))
    indexed = replace(FIRST, version=2, columns=(*FIRST.columns, hidden))
    later = replace(SECOND, version=3, columns=(*indexed.columns, SECOND.columns[-1]))
    details = SqlDetails()
    details.follow(ddl(10, CREATE, FIRST))
    details.follow(ddl(20, "ALTER TABLE t ADD INDEX i ((a + 1))", indexed, FIRST))
    details.follow(ddl(30, "ALTER TABLE t ADD COLUMN b INT", later, indexed))
    assert generated(details.complete(later)) == [*GENERATED, ("_V$_i_0", True, None), ("b", False, False)]


def found(event: SchemaChange | Bootstrap | RowChange) -> Found:
    message = Message(topic="t", partition=0, offset=0, timestamp=0, key=None, value=b"")
    return Found(message, 0, event)


def flags(messages: list[Message]) -> dict[str, int]:
    """The flags of the last row's columns in Open."""
    (value,) = [message.value for message in messages if b'"u":{' in (message.value or b"")][-1:]
    return {name: cell["f"] for name, cell in json.loads((value or b"")[8:])["u"].items()}


ROW = {"id": "1", "a": "2", "s": "3"}


@pytest.mark.parametrize("seen", [True, False])
def test_open_flags_a_generated_column_whose_ddl_was_seen(seen: bool) -> None:
    converter = Converter(EventReader(decoder("simple")).tables_of, "open", target_encoder("open", {}))
    events: list[SchemaChange | Bootstrap | RowChange] = [ddl(10, CREATE, FIRST)] if seen else [Bootstrap(FIRST)]
    events.append(RowChange(op="insert", table=FIRST, commit_ts=11, after=ROW))
    messages = [one for event in events for one in converter.convert(found(event))] + list(converter.flush())
    stored = 69 if seen else 65
    assert flags(messages) == {"id": 11, "a": 65, "s": stored}  # type: ignore[arg-type]


@pytest.mark.parametrize("with_ddl", [True, False])
def test_open_to_open_keeps_the_flag_of_a_generated_column(with_ddl: bool) -> None:
    to = target_encoder("open", {})
    query = to.ddl(ddl(10, CREATE, None))
    (row,) = to.rows([RowChange(op="insert", table=parse_create(CREATE, "d"), commit_ts=11, after=ROW)])
    assert query is not None
    sent = [
        Message(topic="t", partition=0, offset=at, timestamp=0, key=one.key, value=one.value)
        for at, one in enumerate([query, row] if with_ddl else [row])
    ]
    assert re.search(rb'"s":\{"t":3,"f":69,', row.value or b"")
    reading = EventReader(decoder("open"), ReadOptions())
    converter = Converter(reading.tables_of, "open", to)
    messages = [one for message in sent for event in reading.read(message) for one in converter.convert(event)]
    messages += converter.flush()
    assert [message.value for message in messages] == [message.value for message in sent]  # type: ignore[union-attr]


def test_a_table_without_a_version_is_as_it_comes() -> None:
    """Those of a server's binlog have none, and have all of it: an older one must not stand in for a newer one."""
    details = SqlDetails()
    older, newer = parse_create(CREATE, "d"), parse_create(CREATE.replace("a INT", "a BIGINT, b INT"), "d")
    details.follow(ddl(10, CREATE, older))
    details.follow(ddl(20, "ALTER TABLE t MODIFY a BIGINT, ADD COLUMN b INT AFTER a", newer, older))
    assert (details.complete(older), details.complete(newer)) == (older, newer)
