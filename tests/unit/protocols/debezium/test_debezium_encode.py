"""Debezium, written: the document's examples, what it cannot encode, and that what is written is read."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ticdc_spark import mysql
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Index, RowChange, SchemaChange, Table, Value, Watermark
from ticdc_spark.mysql import parse_type
from ticdc_spark.protocols.base import decode
from ticdc_spark.protocols.debezium.decode import DECODER
from ticdc_spark.protocols.debezium.encode import DebeziumConfig, encoder

NOW = 1701326309000
PRIMARY = Index(name="primary", unique=True, primary=True, nullable=False, columns=("tiny",))
TINY = Table(
    schema="test", name="table1", columns=(Column(name="tiny", type=parse_type("tinyint")),), indexes=(PRIMARY,)
)
UPDATE = RowChange(op="update", table=TINY, commit_ts=1, before={"tiny": "2"}, after={"tiny": "1"})


def config(**options: Any) -> DebeziumConfig:
    return DebeziumConfig(cluster_id="test_cluster", build_ts=lambda: NOW, **options)


def sent(change: RowChange, **options: Any) -> tuple[Any, Any]:
    (encoded,) = encoder(config(**options)).rows([change])
    assert encoded.key is not None and encoded.value is not None and encoded.rows == 1
    return json.loads(encoded.key), json.loads(encoded.value)


def test_the_update_of_the_document() -> None:
    key, value = sent(UPDATE)
    assert key == {
        "payload": {"tiny": 1},
        "schema": {
            "fields": [{"field": "tiny", "optional": True, "type": "int16"}],
            "name": "test_cluster.test.table1.Key",
            "optional": False,
            "type": "struct",
        },
    }
    source = {
        "version": "2.4.0.Final",
        "connector": "TiCDC",
        "name": "test_cluster",
        "ts_ms": 0,
        "snapshot": "false",
        "db": "test",
        "table": "table1",
        "server_id": 0,
        "gtid": None,
        "file": "",
        "pos": 0,
        "row": 0,
        "thread": 0,
        "query": None,
        "commit_ts": 1,
        "cluster_id": "test_cluster",
    }
    images = {"before": {"tiny": 2}, "after": {"tiny": 1}}
    assert value["payload"] == {"source": source, "ts_ms": NOW, "transaction": None, "op": "u", **images}
    assert value["schema"]["name"] == "test_cluster.test.table1.Envelope"
    image = {"type": "struct", "optional": True, "name": "test_cluster.test.table1.Value"}
    fields = [{"type": "int16", "optional": True, "field": "tiny"}]
    assert value["schema"]["fields"][:2] == [{**image, "field": at, "fields": fields} for at in ("before", "after")]
    assert [field["field"] for field in value["schema"]["fields"][2:]] == ["source", "op", "ts_ms", "transaction"]


def test_the_watermark_of_the_document() -> None:
    assert encoder(config()).watermark(3) is None
    encoded = encoder(config(enable_tidb_extension=True)).watermark(3)
    assert encoded is not None and encoded.key is not None and encoded.value is not None
    schema = {"fields": [], "optional": False, "name": "test_cluster.watermark.Key", "type": "struct"}
    assert json.loads(encoded.key) == {"payload": {}, "schema": schema}
    assert DECODER.open_message(encoded.key, encoded.value) == (Watermark(3),)
    assert json.loads(encoded.value)["schema"]["name"] == "test_cluster.watermark.Envelope"


def test_the_ddl_of_the_document() -> None:
    sql = "RENAME TABLE test.table1 TO test.table2"
    change = SchemaChange(commit_ts=1, query=sql, kind="", schema="test", name="table2")
    for table in (None, Table(schema="test", name="table2", columns=TINY.columns, indexes=(PRIMARY,))):
        reported = SchemaChange(
            commit_ts=1, query=sql, kind="", schema="test", name="table2", table=table, pre_table=TINY
        )
        encoded = encoder(config()).ddl(reported)
        assert encoded is not None and encoded.key is not None and encoded.value is not None
        assert json.loads(encoded.key)["payload"] == {"databaseName": "test"}
        (changed,) = json.loads(encoded.value)["payload"]["tableChanges"]
        assert (changed["type"], changed["id"]) == ("ALTER", '"test"."table1","test"."table2"')
        assert (changed["table"] is None) == (table is None)
        (event,) = DECODER.open_message(encoded.key, encoded.value)
        assert event == SchemaChange(commit_ts=1, query=sql, kind="ALTER", schema="test", name="table2")
    assert encoder(config()).ddl(change) is not None
    assert encoder(config()).bootstrap(TINY) is None


@pytest.mark.parametrize("sql", ["CREATE TABLE t (tiny TINYINT)", "ALTER TABLE t ADD tiny INT", "RENAME TABLE a TO t"])
def test_a_ddl_has_the_default_character_set_of_its_table(sql: str) -> None:
    table = replace(TINY, charset="latin1", collate="latin1_bin")
    change = SchemaChange(commit_ts=1, query=sql, kind="", schema="test", name="t", table=table)
    encoded = encoder(config()).ddl(change)
    assert encoded is not None and encoded.value is not None
    (changed,) = json.loads(encoded.value)["payload"]["tableChanges"]
    assert changed["table"]["defaultCharsetName"] == "latin1"


def test_a_database_ddl_without_its_database_has_it_from_the_sql() -> None:
    # as Simple sends it
    for sql, database in (("CREATE DATABASE `d`", "d"), ("DROP DATABASE IF EXISTS `e`", "e")):
        encoded = encoder(config()).ddl(SchemaChange(commit_ts=1, query=sql, kind=""))
        assert encoded is not None
        (event,) = DECODER.open_message(encoded.key, encoded.value)
        assert isinstance(event, SchemaChange) and event.schema == database


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("CREATE TABLE `t` (`id` INT)", "CREATE"),
        ("CREATE VIEW `v` AS SELECT 1", "CREATE"),
        ("DROP TABLE `test`.`t`", "DROP"),
        ("DROP INDEX `i` ON `t`", "DROP"),
        ("ALTER TABLE `t` DROP PRIMARY KEY", "ALTER"),
        ("TRUNCATE TABLE `t`", ""),
        ("CREATE DATABASE `d`", ""),
        ("ALTER TABLE `t` TTL_ENABLE = 'OFF'", None),
        ("RECOVER TABLE `t`", None),
        ("ALTER TABLE `t` DROP FOREIGN KEY `f`", None),
        ("CREATE SEQUENCE `s`", None),
    ],
)
def test_the_kinds_of_ddl(sql: str, kind: str | None) -> None:
    encoded = encoder(config()).ddl(SchemaChange(commit_ts=1, query=sql, kind="", schema="test", name="t"))
    if encoded is None:
        assert kind is None
        return
    (event,) = DECODER.open_message(encoded.key, encoded.value)
    assert isinstance(event, SchemaChange) and event.kind == kind


@pytest.mark.parametrize(
    ("written", "stored", "shown"),
    [
        ("DATETIME DEFAULT 0", "0000-00-00 00:00:00", "0"),
        ("TIME DEFAULT -1", "-00:00:01", "-00:00:01"),
        ("TIME DEFAULT '1:2'", "01:02:00", "1:2"),
    ],
)
def test_the_default_of_a_time_is_as_written_but_for_a_sign(written: str, stored: str, shown: str) -> None:
    column = Column(name="c", type=parse_type(written.split()[0].lower()), default=stored)
    table = Table(schema="d", name="t", columns=(column,))
    change = SchemaChange(
        commit_ts=1, query=f"CREATE TABLE t (c {written})", kind="", schema="d", name="t", table=table
    )
    encoded = encoder(config()).ddl(change)
    assert encoded is not None and encoded.value is not None
    (described,) = json.loads(encoded.value)["payload"]["tableChanges"][0]["table"]["columns"]
    assert described["defaultValueExpression"] == shown


def test_a_column_in_the_statement_goes_before_that_in_the_table() -> None:
    sql = (
        "CREATE TABLE `t` (`id` INT AUTO_INCREMENT PRIMARY KEY,`at` TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
        "`dt` DATETIME ON UPDATE CURRENT_TIMESTAMP,`b` BIT(10) DEFAULT b'1010',`y` YEAR DEFAULT 2024)"
    )
    columns = {"id": "int", "at": "timestamp", "dt": "datetime", "b": "bit(10)", "y": "year", "late": "time"}
    defaults = {"b": 10, "at": "CURRENT_TIMESTAMP", "y": "2024"}
    table = Table(
        schema="test",
        name="t",
        columns=tuple(Column(name=n, type=parse_type(t), default=defaults.get(n)) for n, t in columns.items()),
    )
    encoded = encoder(config()).ddl(SchemaChange(commit_ts=1, query=sql, kind="", schema="test", name="t", table=table))
    assert encoded is not None and encoded.value is not None
    described = json.loads(encoded.value)["payload"]["tableChanges"][0]["table"]["columns"]
    reported = {c["name"]: (c["length"], c["autoIncremented"], c["defaultValueExpression"]) for c in described}
    assert reported == {
        "id": (None, True, None),
        "at": (None, True, "1970-01-01 00:00:00"),
        "dt": (None, False, None),
        "b": (10, False, "1010"),
        "y": (None, False, "2024"),
        "late": (0, False, None),
    }


def test_options() -> None:
    key, value = sent(UPDATE, debezium_disable_schema=True, debezium_output_old_value=False)
    assert (list(key), list(value)) == (["payload"], ["payload"])
    assert "before" not in value["payload"] and value["payload"]["after"] == {"tiny": 1}
    key, _ = sent(UPDATE, enable_tidb_extension=True)
    assert key["schema"]["fields"][0]["tidb_type"] == "tinyint"
    (packed,) = encoder(config(compression="lz4")).rows([UPDATE])
    assert packed.key and packed.key.startswith(b"\x04\x22\x4d\x18")


def test_a_delete_has_no_tombstone_behind_it() -> None:
    delete = RowChange(op="delete", table=TINY, commit_ts=1, before={"tiny": "2"})
    assert len(list(encoder(config()).rows([delete]))) == 1
    assert list(sent(delete)[1]["payload"])[-3:] == ["op", "after", "before"]


def test_rows_may_lack_columns_that_are_never_sent() -> None:
    columns = (*TINY.columns, Column(name="g", type=parse_type("int"), virtual=None))
    table = Table(schema="test", name="table1", columns=columns, indexes=(PRIMARY,))
    rows = [{"tiny": "1"}, {"tiny": "1", "g": None}, {"tiny": "3"}]
    changes = [RowChange(op="insert", table=table, commit_ts=1, after=row) for row in rows]
    sent_rows = [json.loads(one.value or b"")["payload"]["after"] for one in encoder(config()).rows(changes)]
    assert sent_rows == [{"tiny": 1}, {"tiny": 1, "g": None}, {"tiny": 3}]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"op": "upsert", "after": {"tiny": "1"}}, "no message for 'upsert'"),
        ({"op": "insert"}, "without an image"),
        ({"op": "update", "after": {"tiny": "1"}}, "without an image"),
        ({"op": "insert", "after": {"tiny": "1", "big": "2"}}, r"no column \['big'\]"),
        ({"op": "insert", "after": {}}, "without its handle key"),
        ({"op": "insert", "after": {"tiny": "1"}, "partial": True}, "some of its columns"),
    ],
)
def test_what_debezium_cannot_encode_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        list(encoder(config()).rows([RowChange(table=TINY, commit_ts=1, **change)]))


def table_of(kind: str, **options: Any) -> Table:
    return Table(schema="s", name="t", columns=(Column(name="c", type=parse_type(kind), **options),))


def cell(kind: str, value: Value, **options: Any) -> Any:
    change = RowChange(op="insert", table=table_of(kind, **options), commit_ts=1, after={"c": value})
    (encoded,) = encoder(config(debezium_disable_schema=True)).rows([change])
    return json.loads(encoded.value or b"")["payload"]["after"]["c"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("date", "0000-00-00", None),
        ("date", "0018-01-01", 17532),
        ("date", "2024-00-00", None),
        ("datetime", "0000-00-00 00:00:00", None),
        ("timestamp(3)", "0000-00-00 00:00:00.000", "1970-01-01T00:00:00Z"),
        ("time(3)", "-838:59:59.000", -3020399000000),
        ("bit(10)", "1023", "/wM="),
        ("bigint unsigned", "18446744073709551615", -1),
        ("enum('a')", "0", ""),
        ("varchar(9)", b"a\xffb", "a\ufffdb"),
        ("varchar(9)", "<\b\f\u2028\\b", "<\b\f\u2028\\b"),
        ("decimal(65,30)", "0.000000100000000000000000000000", 1e-07),
        ("decimal(65,0)", "9" * 65, 1e65),
    ],
)
def test_values(kind: str, value: Value, expected: Any) -> None:
    assert cell(kind, value) == expected


def test_minus_zero_is_sent_but_not_read() -> None:
    change = RowChange(op="insert", table=table_of("double"), commit_ts=1, after={"c": "-0"})
    (encoded,) = encoder(config(debezium_disable_schema=True)).rows([change])
    assert b'"after":{"c":-0}' in (encoded.value or b"")
    (read,) = decode(DECODER, encoded.key, encoded.value, {("s", "t", ""): table_of("double")})
    assert isinstance(read, RowChange) and read.after == {"c": "0"}


def test_a_zero_date_that_cannot_be_null_is_the_epoch() -> None:
    assert cell("date", "0000-00-00", nullable=False) == 0
    assert cell("datetime", "0000-00-00 00:00:00", nullable=False) == 0


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("datetime", "2024-00-00 00:00:00", "no date"),
        ("datetime", "2024-01-01 00:00:00.000001", "more digits"),
        ("bit(2)", "4", "more than 2 bits"),
        ("bit", "2", "more than 1 bits"),
        ("enum('a')", "7", "ENUM"),
    ],
)
def test_values_that_debezium_cannot_carry(kind: str, value: Value, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        cell(kind, value)


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("int", "42", 42),
        ("int", "(rand())", None),
        ("datetime", "CURRENT_TIMESTAMP", 0),
        ("datetime", "str_to_date('1','%d')", 0),
        ("datetime", "0000-00-00 00:00:00", None),
        ("timestamp", "CURRENT_TIMESTAMP", None),
        ("timestamp", "str_to_date('1','%d')", 0),
        ("timestamp", "0000-00-00 00:00:00", None),
        ("timestamp(3)", "2020-01-01 00:00:00.500", "2020-01-01T00:00:00.500Z"),
        ("date", "2020-02-29", 18321),
        ("date", "0000-00-00", None),
        ("year", "0000", 2000),
        ("bit(10)", 10, "CgA="),
        ("json", "json_object()", "json_object()"),
    ],
)
def test_defaults_in_the_schema(kind: str, default: str | int, expected: Any) -> None:
    change = RowChange(op="insert", table=table_of(kind, default=default), commit_ts=1, after={"c": None})
    assert declared(change).get("default", None) == expected
    assert ("default" in declared(change)) is (expected is not None), "a default that is null is not written"


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("timestamp", "CURRENT_TIMESTAMP", "1970-01-01T00:00:00Z"),
        ("timestamp", "0000-00-00 00:00:00", "1970-01-01T00:00:00Z"),
        ("datetime", "0000-00-00 00:00:00", 0),
        ("date", "0000-00-00", 0),
    ],
)
def test_a_column_that_is_not_null_has_a_default_in_place_of_no_moment(kind: str, default: str, expected: Any) -> None:
    table = table_of(kind, default=default, nullable=False)
    change = RowChange(op="insert", table=table, commit_ts=1, after={"c": "2020-01-01 00:00:00"})
    assert declared(change)["default"] == expected


def declared(change: RowChange) -> dict[str, Any]:
    """The column in the schema block."""
    (encoded,) = encoder(config()).rows([change])
    found: dict[str, Any] = json.loads(encoded.value or b"")["schema"]["fields"][0]["fields"][0]
    return found


def integers(kind: str) -> st.SearchStrategy[str]:
    bounds = mysql.integer_range(parse_type(kind))
    assert bounds is not None
    return st.integers(*bounds).map(str)


def floats(width: Any) -> st.SearchStrategy[str]:
    # -0 is sent as -0, which a JSON reader takes for the integer 0
    numbers = st.floats(width=width, allow_nan=False, allow_infinity=False).filter(lambda number: str(number) != "-0.0")
    return numbers.map(lambda number: mysql.canonical_float(repr(number), width))


# years below 100 are moved, and a DECIMAL keeps some 15 digits
INSTANTS = st.datetimes(datetime(100, 1, 1), datetime(9999, 12, 31))  # noqa: DTZ001
DECIMALS = st.integers(-(10**15) + 1, 10**15 - 1).map(
    lambda n: mysql.canonical_decimal(f"{Decimal(n).scaleb(-4):f}", 4)
)
MICROS = st.integers(-3_020_399_000_000, 3_020_399_000_000)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def time_text(micros: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return "-" + clock if micros < 0 else clock


VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{kind: integers(kind) for kind in ("tinyint", "int unsigned", "bigint", "bigint unsigned", "bit(1)", "bit(64)")},
    "year": st.integers(1901, 2155).map(str),
    "float": floats(32),
    "double": floats(64),
    "decimal(15,4)": DECIMALS,
    "date": INSTANTS.map(lambda at: at.date().isoformat()),
    "datetime(6)": INSTANTS.map(lambda at: at.isoformat(" ", "microseconds")),
    "datetime(3)": INSTANTS.map(lambda at: at.isoformat(" ", "milliseconds")),
    "timestamp(6)": INSTANTS.map(lambda at: at.isoformat(" ", "microseconds")),
    "time(6)": MICROS.map(time_text),
    "enum('a','b')": st.sampled_from(["0", "1", "2"]),
    "set('a','b')": st.sampled_from(["0", "1", "2", "3"]),
    "varchar(99)": TEXT,
    "json": TEXT,
    "varbinary(99)": st.binary(max_size=12),
    "binary(9)": st.binary(max_size=9),
}
WIDE = Table(
    schema='s"%',
    name="t%s",
    columns=tuple(Column(name=f'{at}"%s{kind}', type=parse_type(kind)) for at, kind in enumerate(VALUES)),
)
ROWS = st.fixed_dictionaries(
    {column.name: st.none() | values for column, values in zip(WIDE.columns, VALUES.values(), strict=True)}
)


@given(ROWS, ROWS, st.booleans(), st.integers(1, (1 << 63) - 1))
def test_what_is_written_is_read(before: Any, after: Any, bare: bool, commit_ts: int) -> None:
    changes = [
        RowChange(op="insert", table=WIDE, commit_ts=commit_ts, after=after),
        RowChange(op="update", table=WIDE, commit_ts=commit_ts, before=before, after=after),
        RowChange(op="delete", table=WIDE, commit_ts=commit_ts, before=before),
    ]
    messages = encoder(config(debezium_disable_schema=bare, enable_tidb_extension=True)).rows(changes)
    tables = {(WIDE.schema, WIDE.name, ""): WIDE}
    assert [decode(DECODER, one.key, one.value, tables) for one in messages] == [[change] for change in changes]


@given(st.integers(1, (1 << 63) - 1))
def test_watermarks_are_read(commit_ts: int) -> None:
    encoded = encoder(config(enable_tidb_extension=True)).watermark(commit_ts)
    assert encoded is not None
    assert DECODER.open_message(encoded.key, encoded.value) == (Watermark(commit_ts),)
