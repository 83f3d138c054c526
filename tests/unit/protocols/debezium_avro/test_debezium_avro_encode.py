"""Debezium in Avro as it is written: what the vectors lack, and what is refused."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest

from tests.support.avro_examples import Registry
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Envelope, Index, Op, Row, RowChange, SchemaChange, Table, Value
from ticdc_spark.mysql import parse_type, tso
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.debezium_avro.decode import DebeziumAvroDecoder, table_from_schemas
from ticdc_spark.protocols.debezium_avro.encode import DebeziumAvroConfig, encoder
from ticdc_spark.wire.avro_binary import write_text
from ticdc_spark.wire.confluent import schema_id

TS = tso(1_790_000_000_000) + 7
STRINGS = {"avro_decimal_handling_mode": "string", "avro_bigint_unsigned_handling_mode": "string"}


def table(*columns: str, key: tuple[str, ...] = ("id",), name: str = "t") -> Table:
    """A table of columns written ``name type``."""
    split = [text.split(" ", 1) for text in columns]
    return Table(
        schema="d",
        name=name,
        columns=tuple(Column(name=n, type=parse_type(kind), nullable=n not in key) for n, kind in split),
        indexes=(Index(name="primary", unique=True, primary=True, nullable=False, columns=key),) if key else (),
    )


def sent(kind: str, value: Value, *, nullable: bool = True, **options: Any) -> Any:
    """A value as another reader finds it behind its schema."""
    registry = Registry()
    columns = (Column(name="c", type=parse_type(kind), nullable=nullable),)
    change = RowChange(
        op="insert", table=Table(schema="d", name="t", columns=columns), commit_ts=TS, after={"c": value}
    )
    (one,) = encoder(DebeziumAvroConfig(**options), registry).rows([change])
    assert one.value is not None
    schema = fastavro.parse_schema(json.loads(registry.schemas[schema_id(one.value)]))
    body = BytesIO(one.value[5:])
    read: Any = fastavro.schemaless_reader(body, schema, None)
    assert not body.read()
    return read["after"]["c"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("tinyint", "-128", -128),
        ("smallint unsigned", "65535", 65535),
        ("int unsigned", "4294967295", 4294967295),
        ("bigint unsigned", str(2**63 - 1), 2**63 - 1),
        ("float", "0.1", 0.10000000149011612),
        ("float(10,2)", "0.1", 0.10000000149011612),
        ("double", "-0", 0.0),
        ("bit(1)", "1", True),
        ("bit(1)", "0", False),
        ("bit(9)", "256", b"\0\1"),
        ("enum('a','b')", "0", ""),
        ("set('a','b')", "3", "a,b"),
        ("date", "0018-01-02", 17533),
        ("date", "0000-00-00", None),
        ("datetime(3)", "1970-01-01 00:00:01.500", 1500),
        ("datetime(6)", "1970-01-01 00:00:01.500000", 1_500_000),
        ("datetime", "0000-00-00 00:00:00", None),
        ("timestamp(3)", "2024-01-02 03:04:05.678", "2024-01-02T03:04:05.678Z"),
        ("timestamp(3)", "0000-00-00 00:00:00.000", "1970-01-01T00:00:00Z"),
        ("time(3)", "-838:59:59.000", -3020399000000),
        ("year", "0", 0),
        ("json", '{"a": "<é>"}', '{"a": "<é>"}'),
        ("vector", "[1,2.5]", "[1,2.5]"),
        ("varchar(9)", "", ""),
        ("varbinary(9)", b"", b""),
        ("blob", b"\0\xff", b"\0\xff"),
        ("int", None, None),
    ],
)
def test_values(kind: str, value: Value, expected: object) -> None:
    found = sent(kind, value)
    assert (found, type(found)) == (expected, type(expected))


def test_a_zero_date_that_cannot_be_null_is_the_epoch() -> None:
    assert sent("date", "0000-00-00", nullable=False) == 0


@pytest.mark.parametrize(
    ("value", "raw"), [("0.00", b"\0"), ("-1.28", b"\x80"), ("1.28", b"\0\x80"), ("-0.01", b"\xff")]
)
def test_a_decimal_is_its_shortest_number(value: str, raw: bytes) -> None:
    registry = Registry()
    change = RowChange(op="insert", table=table("c decimal(10,2)", key=()), commit_ts=TS, after={"c": value})
    (one,) = encoder(DebeziumAvroConfig(), registry).rows([change])
    assert one.value is not None and one.value[5:].startswith(b"\0\2\2" + bytes([2 * len(raw)]) + raw)


@pytest.mark.parametrize(
    ("kind", "value"), [("decimal(10,2)", "-1.50"), ("bigint unsigned", "18446744073709551615"), ("bigint", "-5")]
)
def test_strings_hold_what_numbers_cannot(kind: str, value: str) -> None:
    assert str(sent(kind, value, **STRINGS)) == value


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("bigint unsigned", str(2**63), "overflows"),
        ("bit(3)", "8", "more than 3 bits"),
        ("datetime", "2024-01-00 00:00:00", "no date"),
        ("geometry", b"", "not known"),
        ("decimal(10,2)", "1.234", "digits after its point"),
    ],
)
def test_what_it_cannot_carry_is_refused(kind: str, value: Value, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        sent(kind, value)


PLAIN = table("id int", "v varchar(9)")
ROW: Row = {"id": "1", "v": "x"}


def change(op: Op, of: Table = PLAIN, **images: Any) -> RowChange:
    return RowChange(op=op, table=of, commit_ts=TS, **images)


VIRTUAL = Table(
    schema="d",
    name="t",
    columns=(*PLAIN.columns, Column(name="g", type=parse_type("int"), nullable=True, virtual=True)),
)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (change("upsert", after=ROW), "no message for 'upsert'"),
        (change("insert"), "without an image"),
        (change("delete", after=ROW), "without an image"),
        (change("update", after=ROW), "without an image"),
        (change("update", before={"id": "1"}, after=ROW), r"with columns \['id'\]"),
        (change("insert", after={**ROW, "more": "1"}), "with columns"),
        (change("insert", after={"id": "1"}, partial=True), "some of its columns only"),
        (change("delete", before={"v": "x"}, partial=True), "without its handle key's `id`"),
        (change("insert", table("a.b int", "a_b int", key=()), after={"a.b": "1", "a_b": "2"}), "can only call 'a_b'"),
        (change("insert", VIRTUAL, after=ROW), "virtual column `g`"),
    ],
)
def test_what_cannot_be_encoded_is_refused(bad: RowChange, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        list(encoder(DebeziumAvroConfig(), Registry()).rows([bad]))


def test_there_is_nothing_but_rows() -> None:
    to = encoder(DebeziumAvroConfig(), Registry())
    ddl = SchemaChange(commit_ts=TS, query="DROP TABLE t", kind="4", schema="d", name="t")
    assert (to.ddl(ddl), to.watermark(TS), to.bootstrap(PLAIN)) == (None, None, None)


@pytest.mark.parametrize("extended", [True, False])
def test_a_delete_of_keys_alone_and_an_update_without_its_old_row(extended: bool) -> None:
    registry = Registry()
    config = DebeziumAvroConfig(enable_tidb_extension=extended, debezium_output_old_value=False)
    changes = [change("delete", before={"id": "1"}, partial=True), change("update", before=ROW, after=ROW)]
    found = []
    for one in encoder(config, registry).rows(changes):
        decoder = DebeziumAvroDecoder(registry.schemas)
        (event,) = decoder.open_message(one.key, one.value)
        assert isinstance(event, Envelope)
        columns = decoder.row_reader(PLAIN, ReadOptions())([event.before, event.after])
        assert not columns.bad
        found.append((event.op, event.commit_ts, columns.values))
    assert found == [("delete", TS, [["1", None], [None, None]]), ("upsert", TS, [[None, "1"], [None, "x"]])]


def test_names_that_avro_does_not_allow() -> None:
    named = Table(schema="a b", name="9<t>.é", columns=(Column(name="1 <é>", type=parse_type("int"), nullable=True),))
    registry = Registry()
    insert = RowChange(op="insert", table=named, commit_ts=TS, after={"1 <é>": "5"})
    (one,) = encoder(DebeziumAvroConfig(cluster_id="my cluster"), registry).rows([insert])
    subjects = {subject for subject, _ in registry.ids}
    assert subjects == {"a_b_9_t_._-key", "a_b_9_t_._-value"}
    (text,) = (text for (subject, text) in registry.ids if subject.endswith("-value"))
    fastavro.parse_schema(json.loads(text))
    assert "<" not in text
    assert json.loads(text)["fields"][0]["type"][1]["fields"][0]["connect.field"] == "1 <é>"
    (event,) = DebeziumAvroDecoder(registry.schemas).open_message(one.key, one.value)
    assert isinstance(event, Envelope) and (event.schema, event.table) == ("a b", "9<t>.é")
    reported = table_from_schemas(event.schema, event.table, None, text)
    assert [column.name for column in reported.columns] == ["1 <é>"]


def test_decimals_in_strings_are_text_where_only_the_schema_shows_them() -> None:
    registry = Registry()
    wide = table("id bigint unsigned", "c decimal(20,5)")
    to = encoder(DebeziumAvroConfig(enable_tidb_extension=True, **STRINGS), registry)  # type: ignore[arg-type]
    (one,) = to.rows([change("insert", wide, after={"id": str(2**64 - 1), "c": "-1.50000"})])
    assert one.key is not None and one.value is not None and write_text("-1.50000") in one.value
    texts = [registry.schemas[schema_id(part)] for part in (one.key, one.value)]
    reported = table_from_schemas("d", "t", *texts)
    assert [column.type.name for column in reported.columns] == ["bigint", "longtext"]
    decoder = DebeziumAvroDecoder(registry.schemas)
    (event,) = decoder.open_message(one.key, one.value)
    assert isinstance(event, Envelope)
    assert decoder.row_reader(reported, ReadOptions())([event.after]).values == [[str(2**64 - 1)], ["-1.50000"]]
