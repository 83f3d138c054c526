"""Values of every type go through a job into a MariaDB, and are there what the same SQL makes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.integration.mysql_jobs import job_of
from tests.spark.deaths import delete, update
from tests.spark.lake import replicate
from tests.spark.simple_topic import INT, KEY, ddl, insert, table, topic
from tests.support.mariadb_server import Server
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Change, Column, ColumnType, Row, Table, Value, Watermark
from ticdc_spark.mysql import parse_type

EVERY_BYTE = bytes(range(256))
TEXT = "é 中 😀 '\"`\\ %s \0\n\r\t\x1a \\N"
CASES: list[tuple[str, Value, str]] = [
    ("tinyint", "-128", "-128"),
    ("tinyint(1)", "1", "1"),
    ("tinyint unsigned", "255", "255"),
    ("smallint unsigned", "65535", "65535"),
    ("mediumint", "-8388608", "-8388608"),
    ("int", "-2147483648", "-2147483648"),
    ("int(7) unsigned zerofill", "42", "42"),
    ("int unsigned", "4294967295", "4294967295"),
    ("bigint", "-9223372036854775808", "-9223372036854775808"),
    ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
    ("bit(1)", "1", "b'1'"),
    ("bit(12)", "2049", "b'100000000001'"),
    ("bit(64)", "18446744073709551615", "18446744073709551615"),
    ("bit(64)", "49", "49"),
    ("float", "0.1", "0.1"),
    ("float", "-3.4028235e+38", "-3.402823466e38"),
    ("float(7,3)", "1.125", "1.125"),
    ("double", "0.1", "0.1e0"),
    ("double", "1.7976931348623157e+308", "1.7976931348623157e308"),
    ("double", "5e-324", "5e-324"),
    ("double(9,2)", "-1.5", "-1.5"),
    ("decimal(10,2)", "-1.50", "-1.50"),
    ("decimal(38,0)", "9" * 38, "9" * 38),
    ("decimal(38,30)", "0.000000000000000000000000000001", "0.000000000000000000000000000001"),
    ("decimal(65,30)", f"-{'9' * 35}.{'9' * 30}", f"-{'9' * 35}.{'9' * 30}"),
    ("year", "2155", "2155"),
    ("date", "0001-01-01", "'0001-01-01'"),
    ("date", "9999-12-31", "'9999-12-31'"),
    ("time", "838:59:59", "'838:59:59'"),
    ("time(6)", "-00:00:00.000001", "'-00:00:00.000001'"),
    ("datetime", "2024-02-29 23:59:59", "'2024-02-29 23:59:59'"),
    ("datetime(6)", "9999-12-31 23:59:59.999999", "'9999-12-31 23:59:59.999999'"),
    ("timestamp", "1970-01-01 00:00:01", "'1970-01-01 00:00:01'"),
    # It is in the hour that a zone with summer time has twice or not at all.
    ("timestamp(3)", "2026-03-29 01:30:00.500", "'2026-03-29 01:30:00.500'"),
    ("timestamp(6)", "2026-10-25 00:30:00.000001", "'2026-10-25 00:30:00.000001'"),
    ("char(5)", "é<", "'é<'"),
    ("varchar(200)", TEXT, f"CONVERT(x'{TEXT.encode().hex()}' USING utf8mb4)"),
    ("varchar(9)", "", "''"),
    ("varchar(9)", " a  ", "' a  '"),
    ("varchar(9) charset latin1 collate latin1_bin", "é", "'é'"),
    ("varchar(9) charset gbk collate gbk_bin", "中", "'中'"),
    ("tinytext", "é", "'é'"),
    ("longtext", TEXT * 2000, f"REPEAT(CONVERT(x'{TEXT.encode().hex()}' USING utf8mb4), 2000)"),
    ("binary(4)", b"a\xff", "x'61ff'"),
    ("varbinary(300)", EVERY_BYTE, f"x'{EVERY_BYTE.hex()}'"),
    ("tinyblob", b"", "''"),
    ("mediumblob", EVERY_BYTE * 5000, f"REPEAT(x'{EVERY_BYTE.hex()}', 5000)"),
    (r"enum('a','c,d','it''s','b\s','é😀')", "4", r"'b\\s'"),
    (r"enum('a','c,d','it''s','b\s','é😀')", "5", "'é😀'"),
    ("set('x','y','é')", "5", "'x,é'"),
    ("set('x','y')", "0", "''"),
    ("json", '{"a": [1, "é\\n"], "b": null}', """'{"a": [1, "é\\\\n"], "b": null}'"""),
]
"""A type, a value in its normal form, and SQL that makes it."""


def kind_of(text: str) -> ColumnType:
    found = parse_type(text)
    if found.charset is None:
        found = msgspec.structs.replace(found, charset="utf8mb4", collate="utf8mb4_bin")
    return found


COLUMNS = tuple(Column(name=f"c{at}", type=kind_of(kind)) for at, (kind, _, _) in enumerate(CASES))
NAMES = [column.name for column in COLUMNS]


def read(target: Server, of: str, kinds: str) -> tuple[list[Any], list[Any]]:
    rows = target.execute("SET time_zone = '+00:00'", f"SELECT * FROM {of} ORDER BY id")
    schema, name = of.split(".")
    types = target.execute(
        f"SELECT column_name, {kinds}, collation_name FROM information_schema.columns "
        f"WHERE table_schema = '{schema}' AND table_name = '{name}' ORDER BY ordinal_position"
    )
    return [*rows], [*types]


def test_a_value_of_every_type_is_what_the_same_sql_makes_it(
    spark: SparkSession, tmp_path: Path, target: Server
) -> None:
    of = table(10, *COLUMNS)
    full: Row = {"id": "1"} | {name: value for name, (_, value, _) in zip(NAMES, CASES, strict=True)}
    empty: Row = {"id": "2"} | dict.fromkeys(NAMES)
    updated = empty | {"id": "3"}
    events: list[Change] = [
        ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY)", of),
        *(insert(of, 20, **one) for one in (full, empty, updated)),
        Watermark(30),
        update(of, 40, updated, **{name: full[name] for name in NAMES}),
        Watermark(50),
    ]
    replicate(job_of(tmp_path, target, events))
    made = ", ".join(
        f"c{at} {kind} NULL" + ("" if "collate" in kind else " COLLATE utf8mb4_bin" if _is_text(kind, target) else "")
        for at, (kind, _, _) in enumerate(CASES)
    ).replace("b\\s", "b\\\\s")
    values = ", ".join(sql for _, _, sql in CASES)
    target.execute(
        "DROP DATABASE IF EXISTS j",
        "CREATE DATABASE j CHARACTER SET utf8mb4",
        f"CREATE TABLE j.t (id INT PRIMARY KEY, {made})",
        "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'",
        f"INSERT INTO j.t VALUES (1, {values}), (2, {', '.join(['NULL'] * len(CASES))}), (3, {values})",
    )
    (rows, types), (wanted, kinds) = (read(target, of, "column_type") for of in ("s.t", "j.t"))
    for at, name in enumerate(["id", *NAMES]):
        assert [row[at] for row in rows] == [row[at] for row in wanted], (name, kinds[at])
    # Simple does not have the scale of FLOAT(M,D) and DOUBLE(M,D).
    without = re.compile(r"^(float|double)\(.*\)")
    assert types == [(name, without.sub(r"\1", kind), collation) for name, kind, collation in kinds]


def _is_text(kind: str, target: Server) -> bool:
    also = ("json",) if target.is_mariadb else ()
    return kind.startswith(("char", "varchar", "tinytext", "longtext", "enum", "set", *also))


KEYS = {
    kind_of(kind).name: (at, (kind, value))
    for at, (kind, value, _) in enumerate(CASES)
    if not kind_of(kind).name.endswith(("text", "blob", "json")) and value not in ("", b"")
}
"""One case of each type that can be a key, by its name."""


def test_a_key_of_every_type_finds_its_row(spark: SparkSession, tmp_path: Path, target: Server) -> None:
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
    job_file = job_of(tmp_path, target, events)
    replicate(job_file)
    found = {of.name: target.execute(f"SELECT v FROM s.{of.name}") for of, _ in tables}
    assert {name: tuple(rows) for name, rows in found.items()} == {of.name: ((2,),) for of, _ in tables}
    events += [delete(of, 60, **row | {"v": "2"}) for of, row in tables]
    events.append(Watermark(70))
    topic(tmp_path, events)
    replicate(job_file)
    left = {of.name: target.execute(f"SELECT COUNT(*) FROM s.{of.name}")[0][0] for of, _ in tables}
    assert left == dict.fromkeys(left, 0)


def test_keys_that_a_collation_takes_for_equal_are_replaced(
    spark: SparkSession, tmp_path: Path, target: Server
) -> None:
    kind = ColumnType(name="varchar", length=9, charset="utf8mb4", collate="utf8mb4_general_ci")
    of = Table(
        schema="s",
        name="t",
        columns=(Column(name="id", type=kind, nullable=False), Column(name="v", type=INT)),
        indexes=(KEY,),
        table_id=1,
        version=10,
    )
    events: list[Change] = [
        ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY)", of),
        *(insert(of, 20, id=key, v="1") for key in ("a", "b", "c ")),
        Watermark(30),
        update(of, 40, {"id": "a", "v": "1"}, id="A", v="2"),
        delete(of, 41, id="b", v="1"),
        insert(of, 42, id="B", v="3"),
        update(of, 43, {"id": "c ", "v": "1"}, id="c"),
        Watermark(50),
    ]
    replicate(job_of(tmp_path, target, events))
    assert sorted(target.execute("SELECT id, v FROM s.t")) == [("A", 2), ("B", 3), ("c", 1)]


def test_a_copy_follows_the_key_of_its_source(spark: SparkSession, tmp_path: Path, target: Server) -> None:
    before, two = table(10, Column(name="v", type=INT)), msgspec.structs.replace(KEY, columns=("v", "w"))
    third = Column(name="w", type=INT, nullable=False)
    columns = (Column(name="id", type=INT), Column(name="v", type=INT, nullable=False), third)
    after = Table(schema="s", name="t", columns=columns, indexes=(two,), table_id=1, version=40)
    last = Table(
        schema="s",
        name="t",
        columns=(columns[0], third),
        indexes=(msgspec.structs.replace(KEY, columns=("w",)),),
        table_id=1,
        version=60,
    )
    events: list[Change] = [
        ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", before),
        *(insert(before, 20, id=str(at), v=str(10 * at)) for at in (1, 2)),
        Watermark(30),
        ddl("ALTER", 40, "ALTER TABLE t ADD w INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (v, w)", after, before),
        insert(after, 41, id="1", v="10", w="3"),
        update(after, 42, {"id": "2", "v": "20", "w": "0"}, id=None),
        Watermark(50),
    ]
    job_file = job_of(tmp_path, target, events)
    replicate(job_file)
    assert sorted(target.execute("SELECT v, w, id FROM s.t")) == [(10, 0, 1), (10, 3, 1), (20, 0, None)]
    events += [
        delete(after, 51, id="1", v="10", w="0"),
        ddl("ALTER", 60, "ALTER TABLE t DROP PRIMARY KEY, DROP COLUMN v, ADD PRIMARY KEY (w)", last, after),
        update(last, 61, {"id": "1", "w": "3"}, id="7"),
        delete(last, 62, id=None, w="0"),
        insert(last, 63, id="7", w="5"),
        Watermark(70),
    ]
    topic(tmp_path, events)
    replicate(job_file)
    assert sorted(target.execute("SELECT w, id FROM s.t")) == [(3, 7), (5, 7)]
    assert [row[4] for row in target.execute("SHOW KEYS IN s.t")] == ["w"]


def test_an_enum_with_the_error_value_stops_the_job(spark: SparkSession, tmp_path: Path, target: Server) -> None:
    of = table(10, Column(name="v", type=kind_of("enum('a','b')")))
    events: list[Change] = [
        ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY)", of),
        insert(of, 20, id="1", v="0"),
        Watermark(30),
    ]
    job_file = job_of(tmp_path, target, events)
    with pytest.raises(DecisionNeeded, match="Data truncated for column 'v'"):
        replicate(job_file)
    assert target.execute("SELECT COUNT(*) FROM s.t")[0][0] == 0


def test_zero_dates_become_null(spark: SparkSession, tmp_path: Path, target: Server) -> None:
    kinds = ("date", "datetime", "timestamp")
    of = table(10, *(Column(name=f"{kind}_", type=kind_of(kind)) for kind in kinds))
    events: list[Change] = [
        ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY)", of),
        insert(of, 20, id="1", date_="0000-00-00", datetime_="2024-02-00 00:00:00", timestamp_="0000-00-00 00:00:00"),
        Watermark(30),
    ]
    replicate(job_of(tmp_path, target, events))
    assert [*target.execute("SELECT * FROM s.t")] == [(1, None, None, None)]
