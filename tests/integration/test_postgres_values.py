"""Values of every type go through a job into a PostgreSQL, and are there what SQL makes of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.contract.member import Member
from tests.integration.postgres_jobs import job_of
from tests.integration.postgres_member import postgres_member
from tests.integration.test_postgres_commands import command
from tests.spark.deaths import delete, update
from tests.spark.lake import replicate
from tests.spark.simple_topic import INT, KEY, ddl, insert, table, topic
from tests.support.conversion_cases import VALUES, ZONE, every_conversion
from tests.support.postgres_server import PostgresServer
from ticdc_spark.errors import DecisionNeeded, MessageError
from ticdc_spark.model import Change, Column, ColumnType, Row, Table, TableName, Value, Watermark
from ticdc_spark.mysql import parse_type
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.conversions import Conversion
from ticdc_spark.sinks.postgres.rewrites import text_of
from ticdc_spark.sinks.postgres.sink import PostgresSink
from ticdc_spark.sinks.postgres.tables import sql_name
from ticdc_spark.sinks.postgres.types import PostgresTypes
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark import tasks
from ticdc_spark.spark.types import LakeColumn, LakeOptions

EVERY_BYTE = bytes(range(256))
TEXT = "é 中 😀 '\"`\\ %s $1 \n\r\t\x1a \\N \\."
CASES: list[tuple[str, Value, str]] = [
    ("tinyint", "-128", "-128"),
    ("tinyint unsigned", "255", "255"),
    ("smallint unsigned", "65535", "65535"),
    ("mediumint", "-8388608", "-8388608"),
    ("int", "-2147483648", "-2147483648"),
    ("int unsigned", "4294967295", "4294967295"),
    ("bigint", "-9223372036854775808", "-9223372036854775808"),
    ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
    ("bit(1)", "1", "true"),
    ("bit(12)", "2049", "2049"),
    ("bit(64)", "18446744073709551615", "18446744073709551615"),
    ("float", "0.1", "'0.1'::real"),
    ("float", "-3.4028235e+38", "'-3.4028235e38'::real"),
    ("double", "0.1", "0.1"),
    ("double", "1.7976931348623157e+308", "'1.7976931348623157e308'::float8"),
    ("double", "5e-324", "'5e-324'::float8"),
    ("decimal(10,2)", "-1.50", "-1.50"),
    ("decimal(38,30)", "0.000000000000000000000000000001", "0.000000000000000000000000000001"),
    ("decimal(65,30)", f"-{'9' * 35}.{'9' * 30}", f"-{'9' * 35}.{'9' * 30}"),
    ("year", "2155", "2155"),
    ("date", "0001-01-01", "'0001-01-01'::date"),
    ("date", "9999-12-31", "'9999-12-31'::date"),
    ("time(6)", "-838:59:58.000001", "'-838:59:58.000001'"),
    ("datetime", "2024-02-29 23:59:59", "'2024-02-29 23:59:59'::timestamp"),
    ("datetime(6)", "9999-12-31 23:59:59.999999", "'9999-12-31 23:59:59.999999'::timestamp"),
    ("timestamp", "1970-01-01 00:00:01", "'1970-01-01 00:00:01+00'::timestamptz"),
    ("timestamp(6)", "2026-10-25 00:30:00.000001", "'2026-10-25 00:30:00.000001+00'::timestamptz"),
    ("varchar(200)", TEXT, f"convert_from('\\x{TEXT.encode().hex()}', 'UTF8')"),
    ("varchar(9)", "", "''"),
    ("varchar(9)", " a  ", "' a  '"),
    ("varchar(9)", "\\N", "'\\N'"),
    ("longtext", TEXT * 2000, f"repeat(convert_from('\\x{TEXT.encode().hex()}', 'UTF8'), 2000)"),
    ("binary(4)", b"a\xff\0\0", "'\\x61ff0000'::bytea"),
    ("varbinary(300)", EVERY_BYTE, f"'\\x{EVERY_BYTE.hex()}'::bytea"),
    ("tinyblob", b"", "''::bytea"),
    (r"enum('a','c,d','é😀')", "3", "'é😀'"),
    ("set('x','y','é')", "5", "'x,é'"),
    ("json", '{"b": [1, "é\\n\\u0000"], "a": null, "a": 1.0}', """'{"b": [1, "é\\n\\u0000"], "a": null, "a": 1.0}'"""),
]
"""A type, a value in its normal form, and SQL that makes it."""


def kind_of(text: str) -> ColumnType:
    found = parse_type(text)
    if found.charset is None:
        found = msgspec.structs.replace(found, charset="utf8mb4", collate="utf8mb4_bin")
    return found


NAMES = [f"c{at}" for at in range(len(CASES))]
COLUMNS = tuple(Column(name=name, type=kind_of(kind)) for name, (kind, _, _) in zip(NAMES, CASES, strict=True))


@pytest.mark.parametrize("small", [pytest.param(0, marks=pytest.mark.slow), 20_000])
def test_a_value_of_every_type_is_what_sql_makes_it(
    spark: SparkSession, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """By Spark's tasks, and by the driver. A text with U+0000 is a dead letter, and the others are there."""
    monkeypatch.setattr(tasks, "SMALL_ROWS", small)
    of = table(10, *COLUMNS)
    full: Row = {"id": "1"} | {name: value for name, (_, value, _) in zip(NAMES, CASES, strict=True)}
    empty: Row = {"id": "2"} | dict.fromkeys(NAMES)
    updated, bad = empty | {"id": "3"}, empty | {"id": "4", NAMES[28]: "a\0b"}
    events: list[Change] = [
        ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY)", of),
        *(insert(of, 20, **one) for one in (full, empty, updated, bad)),
        Watermark(30),
        update(of, 40, updated, **{name: full[name] for name in NAMES}),
        Watermark(50),
    ]
    file = job_of(tmp_path, postgres, events, 'on-reject = "continue"')
    replicate(file)
    for name, (kind, _, sql) in zip(NAMES, CASES, strict=True):
        cast = "::text" if kind == "json" else ""
        found = postgres.execute(f"SELECT id, {name}{cast} IS NOT DISTINCT FROM {sql} FROM s.t ORDER BY id")
        assert found == [(1, True), (2, False), (3, True)], (kind, sql)
        assert postgres.execute(f"SELECT count(*) FROM s.t WHERE {name} IS NULL") == [(1,)]
    code, text = command("dead-letters", "--json", str(file))
    assert (code, f"column `{NAMES[28]}`" in text, "U+0000" in text) == (0, True, True), text


KEYS = {
    kind_of(kind).name: (at, (kind, value))
    for at, (kind, value, _) in enumerate(CASES)
    if not kind_of(kind).name.endswith(("text", "blob", "json")) and value not in ("", b"")
}
"""One case of each type that can be a key, by its name."""
KEYS["text"] = (99, ("text", "long " * 3000))


def test_a_key_of_every_type_finds_its_row(spark: SparkSession, tmp_path: Path, postgres: PostgresServer) -> None:
    events: list[Change] = []
    tables: list[tuple[Table, Row]] = []
    for at, (kind, value) in KEYS.values():
        key = Column(name="id", type=kind_of(kind), nullable=False)
        columns = (key, Column(name="v", type=INT))
        of = Table(schema="s", name=f"k{at}", columns=columns, indexes=(KEY,), table_id=at + 1, version=10)
        tables.append((of, {"id": value, "v": "1"}))
        events.append(ddl("CREATE", 10, f"CREATE TABLE k{at} (id INT PRIMARY KEY)", of))
    events += [insert(of, 20, **row) for of, row in tables]
    events.append(Watermark(30))
    events += [update(of, 40, row, v="2") for of, row in tables]
    events.append(Watermark(50))
    job_file = job_of(tmp_path, postgres, events)
    replicate(job_file)
    found = {of.name: postgres.execute(f"SELECT v FROM s.{of.name}") for of, _ in tables}
    assert found == {of.name: [(2,)] for of, _ in tables}
    events += [delete(of, 60, **row | {"v": "2"}) for of, row in tables]
    events.append(Watermark(70))
    topic(tmp_path, events)
    replicate(job_file)
    left = {of.name: postgres.execute(f"SELECT count(*) FROM s.{of.name}")[0][0] for of, _ in tables}
    assert left == dict.fromkeys(left, 0)


def _held(kind: str, name: str) -> LakeColumn:
    of = Table(schema="s", name="t", columns=(Column(name=name, type=kind_of(kind)),), indexes=())
    (column,) = PostgresTypes().columns(of, (), LakeOptions())
    return column


@pytest.fixture(scope="module")
def converting(postgres: PostgresServer) -> Member:
    """Whose tables are made by the way, without commits."""
    member = postgres_member(postgres, None, job="converting")
    member.sink.create_database(member.schema)
    return member


QUICK = {
    "int(11)",
    "bit(9)",
    "double",
    "decimal(50,5)",
    "varchar(30)",
    "binary(4)",
    "datetime(6)",
    "timestamp(4)",
    "json",
}


@pytest.mark.parametrize("old", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in VALUES])
def test_modify_column_converts_as_the_source_does(converting: Member, old: str) -> None:
    """From a type to each other one: values become what the conversion says, and one that it refuses stops it."""
    sink, name = converting.sink, (converting.schema, "t")
    assert isinstance(sink, PostgresSink)
    key, before, stamp = _held("int", "id"), _held(old, "a"), Stamp("converting", (1, 0), 0)
    changes = [(new, change) for kind, new, *_, change in every_conversion() if kind == old]
    after = {new: (_held(new, f"n{at}"), change) for at, (new, change) in enumerate(changes)}
    sink.drop(name)
    sink.create(name, (msgspec.structs.replace(key, key=True), before, *(one for one, _ in after.values())), stamp)
    for new, (column, change) in after.items():
        found = sink.types.conversion(before, column, ZONE, "earlier")
        if found is None:
            continue
        results = {value: _after(change, column, value) for value in VALUES[old]}
        _fill(sink, name, before, [value for value, text in results.items() if text is not REFUSED])
        sink.convert_column(name, "a", column, found, stamp)
        wanted = [*(text for text in results.values() if text is not REFUSED), None]
        with sink.tables.work.reading() as cursor:
            values = ", ".join(f"(${at}::{column.type.name})" for at in range(1, len(wanted) + 1))
            cursor.execute(f"SELECT v::text FROM (VALUES {values}) w (v) ORDER BY 1", wanted)
            expected = cursor.fetchall()
            cursor.execute(f"SELECT {column.name}::text FROM {sql_name(name)} ORDER BY 1")
            assert cursor.fetchall() == expected, (old, new)
        refused = [value for value, text in results.items() if text is REFUSED][:1]
        if refused:
            _fill(sink, name, before, refused)
            with pytest.raises(DecisionNeeded, match="cannot be converted"):
                sink.convert_column(name, "a", column, found, stamp)


REFUSED = "refused"


def _after(change: Conversion, column: LakeColumn, value: Value) -> str | None:
    """What becomes of a value, as text for the server; ``REFUSED``: nothing."""
    try:
        return text_of(column, LakeOptions(), change.python(value))
    except (MessageError, ValueError):
        return REFUSED


def _fill(sink: PostgresSink, name: TableName, column: LakeColumn, values: list[Value]) -> None:
    """Let a table have one row of each value, and one of NULL."""
    with sink.tables.work.step() as cursor:
        cursor.execute(f"DELETE FROM {sql_name(name)}")
        for at, value in enumerate([*values, None]):
            text = text_of(column, LakeOptions(), value)
            cursor.execute(f"INSERT INTO {sql_name(name)} (id, a) VALUES ($1, $2::{column.type.name})", (at, text))


def test_a_cast_by_types_alone_fails_where_a_value_does_not_fit(converting: Member) -> None:
    sink, name, stamp = converting.sink, (converting.schema, "casts"), Stamp("converting", (1, 0), 0)
    assert isinstance(sink, PostgresSink)
    text, number = _held("varchar(9)", "a"), _held("int", "b")
    sink.create(name, (text, number), stamp)
    with sink.tables.work.step() as cursor:
        cursor.execute(f"INSERT INTO \"{name[0]}\".casts (a) VALUES ('2.5'), (NULL)")
    sink.convert_column(name, "a", number, ColumnConversion(expression="{old}"), stamp)
    with sink.tables.work.step() as cursor:
        cursor.execute(f'SELECT b FROM "{name[0]}".casts ORDER BY b')
        assert cursor.fetchall() == [(3,), (None,)]
        cursor.execute(f"UPDATE \"{name[0]}\".casts SET a = 'x'")
    with pytest.raises(DecisionNeeded, match="`b` cannot be converted to int"):
        sink.convert_column(name, "a", number, ColumnConversion(expression="{old}"), stamp)
