"""Rows whose columns are not those of their table: the changefeed leaves some out, or TiDB has some of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.job import Route
from ticdc_spark.model import RowChange
from ticdc_spark.mysql import HIDDEN_NAMES, with_hidden_columns
from ticdc_spark.protocols.base import Encoded, ReadOptions
from ticdc_spark.streams.reader import EventReader

PROTOCOLS = ("open", "canal-json", "debezium")
LACKED = "rows came without columns of the table, which hold no value of the source in them: `w`"


def shop_with(columns: str, protocol: str, **job: Any) -> Shop:
    shop = Shop(protocol, **job)
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    return shop


def send_without(shop: Shop, *left_out: str, op: str = "insert", **row: str) -> None:
    """A row as a changefeed sends it whose column selector leaves columns out."""
    change = shop.row(op, (SCHEMA, "t"), row)
    columns = tuple(column for column in change.table.columns if column.name not in left_out)
    images = {
        name: {key: value for key, value in image.items() if key not in left_out}
        for name, image in (("before", change.before), ("after", change.after))
        if image is not None
    }
    shop.send_row(
        msgspec.structs.replace(change, table=msgspec.structs.replace(change.table, columns=columns), **images)
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_column_that_rows_lack_marks_the_table(protocol: str) -> None:
    shop = shop_with("v INT, w INT", protocol)
    shop.insert("t", id="1", v="1", w="1")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "clean"
    send_without(shop, "w", id="2", v="2", w="2")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, 1, 1), (2, 2, None)]
    assert shop.condition("t") == "diverged"
    assert LACKED in shop.status("t").detail


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_hidden_drop_of_a_column_marks_the_table(protocol: str) -> None:
    shop = shop_with("v INT, w INT DEFAULT 5", protocol)
    shop.insert("t", id="1", v="1", w="1")
    shop.change("ALTER TABLE t DROP COLUMN w")
    shop.update("t", id="1", v="2")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, 2, None)]
    assert LACKED in shop.status("t").detail


def test_a_mark_that_is_cleared_comes_back_with_the_next_row_that_lacks_a_column() -> None:
    shop = shop_with("w INT", "open")
    for number in ("1", "2", "3"):
        send_without(shop, "w", id=number, w="1")
        shop.watermark()
        shop.run()
        assert shop.condition("t") == "diverged"
        shop.sql("TRUNCATE TABLE t")
        shop.watermark()
        shop.run()
        assert shop.condition("t") == "clean"


def test_no_death_loses_the_mark() -> None:
    def make() -> Shop:
        shop = shop_with("w INT", "canal-json")
        send_without(shop, "w", id="1", w="1")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert shop.rows("t") == [(1, None)]
        assert shop.condition("t") == "diverged"

    assert after_every_death(make, judge) > 5


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rows_that_may_lack_columns_leave_the_table_clean(protocol: str) -> None:
    shop = shop_with("v INT, g INT AS (v + 1)", protocol)
    send_without(shop, "g", id="1", v="1")
    send_without(shop, "g", id="2", v="2")
    shop.sql("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7")
    send_without(shop, "g", id="3", v="3", w="3")
    send_without(shop, "v", "w", "g", op="delete", id="2")  # delete-only-output-handle-key-columns
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, 1, 2, 7), (3, 3, 4, 3)]
    assert shop.condition("t") == "clean"


def test_rows_that_cannot_be_read_are_told_apart_from_those_that_lack_columns() -> None:
    shop = shop_with("v INT NOT NULL, w INT", "open", on_reject="continue")
    send_without(shop, "w", id="1", v="1")
    send_without(shop, "v", id="2", v="2")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, 1, None)]
    assert shop.condition("t") == "diverged"


TS = 463267588210688000
HIDDEN = {
    "open": (
        b'\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\x36{"ts":463267588210688000,"scm":"shop","tbl":"t","t":1}',
        (
            b'\0\0\0\0\0\0\0\xb6{"u":{"_tidb_origin_ts":{"t":8,"f":193,"v":7},"_tidb_softdelete_time":{"t":7,"f":65,'
            b'"v":"2026-01-01 00:00:01.500000"},"id":{"t":3,"h":true,"f":11,"v":1},"v":{"t":15,"f":64,"v":"a"}}}'
        ),
    ),
    "canal-json": (
        None,
        (
            b'{"id":0,"database":"shop","table":"t","pkNames":["id"],"isDdl":false,"type":"INSERT","es":1767225602000,'
            b'"ts":0,"sql":"","sqlType":{"id":4,"v":12,"_tidb_softdelete_time":93,"_tidb_origin_ts":-5},"mysqlType":'
            b'{"id":"int","v":"varchar","_tidb_softdelete_time":"timestamp","_tidb_origin_ts":"bigint"},"old":null,'
            b'"data":[{"id":"1","v":"a","_tidb_softdelete_time":"2026-01-01 00:00:01.500000","_tidb_origin_ts":"7"}],'
            b'"_tidb":{"commitTs":463267588210688000}}'
        ),
    ),
    "debezium": (
        b'{"payload":{"id":1}}',
        (
            b'{"payload":{"source":{"version":"2.4.0.Final","connector":"TiCDC","name":"default","ts_ms":1767225602000,'
            b'"snapshot":"false","db":"shop","table":"t","server_id":0,"gtid":null,"file":"","pos":0,"row":0,"thread":0,'
            b'"query":null,"commit_ts":463267588210688000,"cluster_id":"default"},"ts_ms":0,"transaction":null,"op":"c",'
            b'"before":null,"after":{"id":1,"v":"a","_tidb_softdelete_time":"2026-01-01T00:00:01.5Z","_tidb_origin_ts":7}}}'
        ),
    ),
    "simple": (
        None,
        (
            b'{"version":1,"database":"shop","table":"t","tableID":1,"type":"INSERT","commitTs":463267588210688000,'
            b'"buildTs":0,"schemaVersion":463267587948543999,"data":{"_tidb_origin_ts":"7","_tidb_softdelete_time":'
            b'{"location":"UTC","value":"2026-01-01 00:00:01.5"},"id":"1","v":"a"}}'
        ),
    ),
}
"""A row of a soft-delete and active-active table, by TiCDC's encoders with the values put in by hand."""


def hidden_row(protocol: str) -> Encoded:
    key, value = HIDDEN[protocol]
    if protocol == "open":
        body = value[8:]
        value = len(body).to_bytes(8) + body
    return Encoded(key, value)


@pytest.mark.parametrize("protocol", HIDDEN)
def test_columns_of_soft_delete_tables_come_with_their_rows(protocol: str) -> None:
    shop = shop_with("v VARCHAR(9)", protocol, soft_deletes="keep")
    shop.send(hidden_row(protocol), "cdc")
    shop.ts = TS + (1 << 30)
    shop.insert("t", id="2", v="b")
    shop.watermark()
    shop.run()
    columns = shop.columns("t")
    assert set(columns) == {"id", "v", "_tidb_softdelete_time", "_tidb_origin_ts"}
    lake = shop.lake("t")
    assert lake is not None
    rows = {row["id"]: {name: row[name] for name in columns} for row in lake.rows}
    gone = datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert rows == {
        1: {"id": 1, "v": "a", "_tidb_softdelete_time": gone, "_tidb_origin_ts": Decimal(7)},
        2: {"id": 2, "v": "b", "_tidb_softdelete_time": None, "_tidb_origin_ts": None},
    }
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
def test_columns_of_soft_delete_tables_stay_through_ddl_and_deaths(protocol: str) -> None:
    def make() -> Shop:
        shop = shop_with("v VARCHAR(9)", protocol, soft_deletes="keep")
        shop.send(hidden_row(protocol), "cdc")
        shop.ts = TS + (1 << 30)
        shop.sql("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 3")
        shop.insert("t", id="2", v="b", w="2")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        lake = shop.lake("t")
        assert lake is not None
        assert [(row["id"], row["w"], row["_tidb_origin_ts"]) for row in lake.rows] == [
            (1, 3, Decimal(7)),
            (2, 2, None),
        ]
        assert shop.condition("t") == "clean"

    assert after_every_death(make, judge) > 5


def send_soft(shop: Shop, op: str, gone: bool, **row: str) -> None:
    """A row of a soft-delete table, by a changefeed with ``enable-active-active``."""
    change = shop.row(op, (SCHEMA, "t"), row)
    table = with_hidden_columns(change.table, HIDDEN_NAMES)
    hidden = {"_tidb_softdelete_time": "2026-01-01 00:00:01.500000" if gone else None, "_tidb_origin_ts": None}
    images = {
        name: {**image, **hidden} for name, image in (("before", change.before), ("after", change.after)) if image
    }
    shop.send_row(msgspec.structs.replace(change, table=table, **images))


@pytest.mark.parametrize("rows", [1, 1000])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_soft_deleted_row_is_gone_until_it_is_recovered(protocol: str, rows: int) -> None:
    shop = shop_with("v VARCHAR(9)", protocol)

    def kept() -> list[tuple[int, str]]:
        shop.watermark()
        shop.run(rows)
        lake = shop.lake("t")
        assert lake is not None
        return sorted((row["id"], row["v"]) for row in lake.rows)

    send_soft(shop, "insert", False, id="1", v="a")
    send_soft(shop, "insert", False, id="2", v="b")
    assert kept() == [(1, "a"), (2, "b")]
    send_soft(shop, "update", True, id="1", v="a")
    assert kept() == [(2, "b")]
    send_soft(shop, "update", True, id="1", v="c")
    assert kept() == [(2, "b")]
    send_soft(shop, "update", False, id="1", v="c")
    assert kept() == [(1, "c"), (2, "b")]
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dropped", [("_tidb*",), ("*", "!id", "!v")])
def test_a_soft_deleted_row_is_gone_where_a_rule_leaves_out_the_column_that_says_so(
    protocol: str, dropped: tuple[str, ...]
) -> None:
    shop = shop_with("v VARCHAR(9)", protocol, routes=(Route(tables=("*.*",), drop_columns=dropped),))
    send_soft(shop, "insert", False, id="1", v="a")
    send_soft(shop, "insert", False, id="2", v="b")
    send_soft(shop, "update", True, id="1", v="a")
    shop.watermark()
    shop.run()
    assert (shop.columns("t"), shop.rows("t")) == (("id", "v"), [(2, "b")])
    send_soft(shop, "update", False, id="1", v="c")
    send_soft(shop, "update", True, id="2", v="b")
    shop.watermark()
    shop.run(again=True)
    assert (shop.columns("t"), shop.rows("t"), shop.condition("t")) == (("id", "v"), [(1, "c")], "clean")


def test_a_hidden_drop_of_a_column_marks_the_table_where_messages_carry_schemas() -> None:
    shop = shop_with("v INT, w INT", "simple")
    shop.insert("t", id="1", v="1", w="1")
    shop.watermark()
    shop.run()
    shop.change("ALTER TABLE t DROP COLUMN w")
    shop.bootstrap("t")
    shop.update("t", id="1", v="2")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, 2, None)]
    assert LACKED in shop.status("t").detail


@pytest.mark.parametrize("query", ["ADD COLUMN x INT", "RENAME COLUMN v TO x", "ADD INDEX (w)"])
def test_columns_that_rows_lack_are_known_where_the_sql_said_which_are_generated(query: str) -> None:
    shop = shop_with("v INT, w INT, g INT AS (w + 1)", "simple")
    shop.sql(f"ALTER TABLE t {query}")
    send_without(shop, "g", id="1", w="1")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "clean"
    send_without(shop, "w", "g", id="2")
    shop.watermark()
    shop.run()
    assert LACKED in shop.status("t").detail


def test_a_generated_column_that_no_sql_told_of_is_none_that_rows_lack() -> None:
    shop = Shop("simple")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v INT, g INT AS (v + 1))")
    shop.bootstrap("t")
    send_without(shop, "g", id="1", v="1")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "unverified"


@pytest.mark.parametrize("protocol", HIDDEN)
def test_a_stream_gives_the_columns_of_soft_delete_tables(protocol: str) -> None:
    shop = shop_with("v VARCHAR(9)", protocol)
    shop.send(hidden_row(protocol), "cdc")
    reader = EventReader(shop.wire.decoder, ReadOptions(source_timezone="UTC"))
    found = [one.event for message in shop.broker.topics["cdc"].partitions[0].messages for one in reader.read(message)]
    (row,) = (event for event in found if isinstance(event, RowChange))
    assert row.after is not None
    assert row.after["_tidb_origin_ts"] == "7"
    assert {column.name: column.type.name for column in row.table.columns}["_tidb_softdelete_time"] == "timestamp"


def test_an_index_of_an_expression_adds_no_column() -> None:
    """TiDB's hidden column of it is virtual, and TiCDC writes no virtual column (``codec/open/codec.go``)."""
    shop = shop_with("v VARCHAR(9), KEY ((lower(v)))", "open")
    shop.insert("t", id="1", v="A")
    shop.sql("ALTER TABLE t ADD UNIQUE KEY u ((upper(v)), id)")
    shop.insert("t", id="2", v="B")
    shop.watermark()
    shop.run()
    assert shop.columns("t") == ("id", "v")
    assert shop.rows("t") == [(1, "A"), (2, "B")]
    assert shop.condition("t") == "clean"


def test_row_columns_without_watermarks() -> None:
    shop = Shop("canal-json", mode="arrival", soft_deletes="keep")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), w INT)")
    shop.send(hidden_row("canal-json"), "cdc")
    shop.run()
    lake = shop.lake("t")
    assert lake is not None
    assert [(row["id"], row["v"], row["w"], row["_tidb_origin_ts"]) for row in lake.rows] == [
        (1, "a", None, Decimal(7))
    ]
    assert LACKED in shop.status("t").detail


def simple_row(shop: Shop, number: int, columns: str = "") -> Encoded:
    """A row of table ``t`` by the newest schema, with the columns of ``columns`` before it (JSON with a comma)."""
    version = shop.tables[SCHEMA, "t"].version
    return Encoded(
        None,
        (
            f'{{"version":1,"database":"shop","table":"t","tableID":1,"type":"INSERT","commitTs":{shop.tick()},'
            f'"buildTs":0,"schemaVersion":{version},"data":{{{columns}"id":"{number}","v":"{number}"}}}}'
        ).encode(),
    )


ORIGIN = '"_tidb_origin_ts":"7",'


@pytest.mark.parametrize("columns", ["", ORIGIN])
def test_a_mark_stays_where_the_same_rows_bring_a_hidden_column(columns: str) -> None:
    shop = shop_with("v INT, w INT", "simple")
    shop.insert("t", id="1", v="1", w="1")
    shop.watermark()
    shop.run()
    shop.change("ALTER TABLE t DROP COLUMN w")
    shop.bootstrap("t")
    shop.send(simple_row(shop, 2, columns), "cdc")
    for _ in range(2):
        shop.watermark()
        shop.run(again=True)
        assert LACKED in shop.status("t").detail
    assert shop.condition("t") == "diverged"


@pytest.mark.parametrize("columns", ["", ORIGIN])
def test_rows_for_a_kept_table_mark_it_also_where_they_bring_a_hidden_column(columns: str) -> None:
    shop = shop_with("v INT", "simple", drop_table="keep")
    shop.insert("t", id="1", v="1")
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.bootstrap("t")
    shop.send(simple_row(shop, 2, columns), "cdc")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "diverged"
    assert "dropped and kept" in shop.status("t").detail


@pytest.mark.parametrize("columns", ["", ORIGIN])
def test_an_adopted_table_takes_first_rows_with_a_hidden_column(columns: str) -> None:
    shop = Shop("simple", adopt=True)
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.bootstrap("t")
    shop.lab.lake.create(shop.tables[SCHEMA, "t"], [{"id": "5", "v": "5"}], ())
    shop.send(simple_row(shop, 2, columns), "cdc")
    shop.watermark()
    shop.run()
    lake = shop.lake("t")
    assert lake is not None
    assert sorted((row["id"], row.get("_tidb_origin_ts")) for row in lake.rows) == [
        (2, Decimal(7) if columns else None),
        (5, None),
    ]
    assert shop.condition("t") == "unverified"


def canal_row(shop: Shop, number: int, hidden: str) -> Encoded:
    """A row of canal-json with one of TiDB's hidden columns."""
    code, kind, value = {
        "_tidb_softdelete_time": ("93", "timestamp", "2026-01-01 00:00:01.500000"),
        "_tidb_origin_ts": ("-5", "bigint", "7"),
    }[hidden]
    ts = shop.tick()
    return Encoded(
        None,
        (
            f'{{"id":0,"database":"shop","table":"t","pkNames":["id"],"isDdl":false,"type":"INSERT","es":{ts >> 18},'
            f'"ts":0,"sql":"","sqlType":{{"id":4,"v":12,"{hidden}":{code}}},"mysqlType":{{"id":"int","v":"varchar",'
            f'"{hidden}":"{kind}"}},"old":null,"data":[{{"id":"{number}","v":"a","{hidden}":"{value}"}}],'
            f'"_tidb":{{"commitTs":{ts}}}}}'
        ).encode(),
    )


SOFT_DELETE = '"_tidb_softdelete_time":{"location":"UTC","value":"2026-01-01 00:00:01.5"},'


def test_rows_of_two_versions_may_bring_one_hidden_column_each() -> None:
    shop = shop_with("v INT", "simple", soft_deletes="keep")
    shop.send(simple_row(shop, 1, SOFT_DELETE), "cdc")
    shop.change("ALTER TABLE t ADD INDEX (v)")
    shop.bootstrap("t")
    shop.send(simple_row(shop, 2, ORIGIN), "cdc")
    shop.watermark()
    shop.run()
    lake = shop.lake("t")
    assert lake is not None
    gone = datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    rows = {row["id"]: (row["_tidb_softdelete_time"], row["_tidb_origin_ts"]) for row in lake.rows}
    assert rows == {1: (gone, None), 2: (None, Decimal(7))}


def bootstrapped_shop(**job: Any) -> Shop:
    """A table of which no SQL has come, so that no message says which of its columns are generated."""
    shop = Shop("simple", **job)
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)")
    shop.bootstrap("t")
    shop.insert("t", id="1", v="1", w="1")
    shop.watermark()
    shop.run()
    return shop


def test_rows_without_a_column_mark_a_table_that_is_clean_after_a_truncate() -> None:
    shop = bootstrapped_shop()
    shop.sql("TRUNCATE TABLE t")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "clean"
    send_without(shop, "w", id="2", v="2", w="2")
    shop.watermark()
    shop.run()
    assert LACKED in shop.status("t").detail


@pytest.mark.parametrize("how", ["now", "exact"])
@pytest.mark.parametrize("generated", [False, True])
def test_a_full_read_shows_which_columns_rows_may_lack(how: str, generated: bool) -> None:
    shop = Shop("simple", snapshot=how)
    shop.change(f"CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT{' AS (v)' if generated else ''})")
    shop.bootstrap("t")
    shop.insert("t", id="1", v="1", **({} if generated else {"w": "1"}))
    for _ in range(6):
        shop.watermark()
        shop.run()
    assert shop.condition("t") == "clean"
    send_without(shop, "w", id="2", v="2", **({} if generated else {"w": "2"}))
    shop.watermark()
    shop.run()
    assert shop.condition("t") == ("clean" if generated else "diverged")


@pytest.mark.parametrize("how", ["now", "exact"])
def test_a_full_read_keeps_hidden_columns_and_marks_the_table(how: str) -> None:
    shop = shop_with("v VARCHAR(9)", "canal-json", snapshot=how)
    shop.send(canal_row(shop, 1, "_tidb_origin_ts"), "cdc")
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "a"}
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "clean"
    shop.rebuild("t")
    for _ in range(6):
        shop.watermark()
        shop.run()
    shop.send(canal_row(shop, 2, "_tidb_origin_ts"), "cdc")
    shop.watermark()
    shop.run()
    lake = shop.lake("t")
    assert lake is not None
    assert {row["id"]: row["_tidb_origin_ts"] for row in lake.rows} == {1: None, 2: Decimal(7)}
    assert shop.condition("t") == "diverged"
    assert "_tidb_origin_ts" in shop.status("t").detail
