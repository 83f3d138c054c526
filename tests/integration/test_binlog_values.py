"""Every type that MariaDB has, value by value as SELECT gives it."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from tests.integration.binlog_stream import captured
from tests.support.mariadb_server import Server
from ticdc_spark.capture.base import CapturedDdl, Transaction
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.model import Row, Table

# type, and SQL of the values that are put into a column of it
TYPES: dict[str, tuple[str, ...]] = {
    "TINYINT": ("-128", "127", "0"),
    "TINYINT UNSIGNED": ("255", "128"),
    "SMALLINT": ("-32768", "32767"),
    "SMALLINT UNSIGNED": ("65535",),
    "MEDIUMINT": ("-8388608", "8388607", "-1"),
    "MEDIUMINT UNSIGNED": ("16777215", "8388608"),
    "INT": ("-2147483648", "2147483647"),
    "INT UNSIGNED ZEROFILL": ("4294967295", "7"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807"),
    "BIGINT UNSIGNED": ("18446744073709551615", "9223372036854775808"),
    "BOOL": ("TRUE", "FALSE", "-7"),
    "DECIMAL(1,0)": ("-9", "0", "9"),
    "DECIMAL(9,9)": ("0.123456789", "-0.000000001"),
    "DECIMAL(10,9)": ("9.999999999", "-1"),
    "DECIMAL(18,9)": ("123456789.987654321", "-1.5", "-0.0"),
    "DECIMAL(20,5)": ("-123456789012345.00001", "5"),
    "DECIMAL(65,30)": ("-" + "9" * 35 + "." + "9" * 30, "1e-30"),
    "DECIMAL(65,0) UNSIGNED": ("9" * 65, "0"),
    "FLOAT": ("0.1", "-3.4028235e38", "1e-45", "16777217", "1.17549435e-38"),
    "FLOAT(7,3) UNSIGNED": ("1234.567",),
    "DOUBLE": ("0.1", "-1.7976931348623157e308", "5e-324", "1e15", "-0e0", "123456789012345678"),
    "DOUBLE UNSIGNED": ("2.5",),
    "BIT(1)": ("b'1'", "b'0'"),
    "BIT(10)": ("b'1000000001'",),
    "BIT(64)": ("18446744073709551615", "1"),
    "YEAR": ("0", "1901", "2155"),
    "DATE": ("'0000-00-00'", "'2024-02-30'", "'9999-12-31'", "'2024-00-05'", "'0001-01-01'"),
    "DATETIME": ("'0000-00-00'", "'2024-02-30 23:59:59'", "'9999-12-31 23:59:59'", "'0000-01-01 00:00:01'"),
    "DATETIME(1)": ("'2024-05-06 07:08:09.9'", "'0000-00-00 00:00:00.5'"),
    "DATETIME(3)": ("'2024-05-06 07:08:09.987'", "'1000-01-01'"),
    "DATETIME(4)": ("'2024-05-06 07:08:09.0001'",),
    "DATETIME(6)": ("'2024-05-06 07:08:09.000001'", "'9999-12-31 23:59:59.999999'"),
    "TIMESTAMP NULL": ("0", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'2023-11-05 06:30:00'"),
    "TIMESTAMP(2) NULL": ("0", "'1970-01-01 00:00:01.05'", "'2000-02-29 23:59:59.99'"),
    "TIMESTAMP(5) NULL": ("'2020-02-29 23:59:59.00001'",),
    "TIMESTAMP(6) NULL": ("0", "'2020-02-29 23:59:59.999999'"),
    "TIME": ("'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:01'", "'100:00:00'"),
    "TIME(1)": ("'-00:00:00.1'", "'-838:59:59.0'", "'23:00:00.9'"),
    "TIME(2)": ("'-00:00:01.25'", "'12:34:56.07'"),
    "TIME(3)": ("'-00:00:01.255'", "'-01:00:00.001'"),
    "TIME(6)": ("'-838:59:59.000000'", "'-00:00:00.000001'", "'838:59:58.999999'", "'-12:00:00.000000'"),
    "CHAR(10)": ("''", "'a '", "'é中😀'", "' '"),
    "CHAR(255)": ("REPEAT('😀', 255)", "REPEAT('x', 255)"),
    "CHAR(4) CHARACTER SET latin1": ("'é€'", "UNHEX('81')", "UNHEX('A0')"),
    "CHAR(5) CHARACTER SET ucs2": ("'é中'", "''"),
    "VARCHAR(20)": ("''", "'a '", "'\\'\\\"\\\\\\n\\0é中😀'"),
    "VARCHAR(255) CHARACTER SET latin1": ("REPEAT('é', 255)",),
    "VARCHAR(256) CHARACTER SET latin1": ("REPEAT('é', 256)", "'x'"),
    "VARCHAR(300)": ("REPEAT('中', 300)",),
    "VARCHAR(20) CHARACTER SET gbk": ("'中文'", "'a'"),
    "VARCHAR(20) CHARACTER SET big5": ("'中文'",),
    "VARCHAR(20) CHARACTER SET sjis": ("'日本語ｱ'",),
    "VARCHAR(20) CHARACTER SET ujis": ("'日本語'",),
    "VARCHAR(20) CHARACTER SET euckr": ("'한국어'",),
    "VARCHAR(20) CHARACTER SET koi8r": ("'Привет'",),
    "VARCHAR(20) CHARACTER SET cp1251": ("'Привет'",),
    "VARCHAR(20) CHARACTER SET armscii8": ("'Հայ'",),
    "VARCHAR(20) CHARACTER SET utf16": ("'😀é'",),
    "VARCHAR(20) CHARACTER SET utf16le": ("'😀é'",),
    "VARCHAR(20) CHARACTER SET utf32": ("'😀é'",),
    "VARCHAR(20) CHARACTER SET swe7": ("'Ångström'",),
    "TINYTEXT": ("REPEAT('x', 255)", "''"),
    "TEXT": ("REPEAT('é', 30000)",),
    "MEDIUMTEXT": ("REPEAT('é', 70000)",),
    "LONGTEXT CHARACTER SET latin2": ("'łódź'",),
    "BINARY(5)": ("''", "'ab'", "x'0000000000'", "x'61000000'", "x'2020'"),
    "VARBINARY(5)": ("''", "x'6100'", "x'ff20'"),
    "CHAR(5) CHARACTER SET binary": ("'ab'",),
    "TEXT CHARACTER SET binary": ("x'ff00'",),
    "TINYBLOB": ("x'00'",),
    "BLOB": ("x'00ff'", "''"),
    "MEDIUMBLOB": ("REPEAT(x'fe', 70000)",),
    "LONGBLOB": ("x'01'",),
    "ENUM('a','é','', 'it''s')": ("1", "2", "3", "4", "0"),
    "ENUM('x','y') CHARACTER SET latin1": ("'y'",),
    "ENUM(" + ",".join(f"'m{at}'" for at in range(300)) + ")": ("'m0'", "'m299'"),
    "SET('a','b','c')": ("''", "'a,c'", "7"),
    "SET(" + ",".join(f"'m{at}'" for at in range(20)) + ")": ("'m0,m19'",),
    "SET(" + ",".join(f"'m{at}'" for at in range(64)) + ")": ("18446744073709551615", "'m63'"),
    "JSON": ('\'{"a": [1, null, "é😀"]}\'', "' [1 ,2] '"),
}
if "TICDC_SPARK_MYSQL" in os.environ:
    TYPES["VECTOR(3)"] = ("STRING_TO_VECTOR('[1,0.1,-3e10]')", "STRING_TO_VECTOR('[0,-1.2e-38]')")
    TYPES["VECTOR"] = ("STRING_TO_VECTOR('[7]')",)
FOREIGN: dict[str, tuple[str, ...]] = {
    "UUID": ("'c20833da-e612-11f1-a569-02fc00000000'", "'00000000-0000-0000-0000-000000000000'"),
    "INET6": ("'::'", "'::1'", "'2001:db8::ff00:42:8329'", "'::ffff:1.2.3.4'", "'::1.2.3.4'", "'fe80::'", "'1::1'"),
    "INET4": ("'0.0.0.0'", "'255.255.255.0'"),
}


def _captured_rows(server: Server, *statements: str) -> tuple[Table, list[Row]]:
    state = BinlogCapture(server.uri).begin()
    server.execute("SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES', NAMES utf8mb4", *statements)
    table, rows = None, []
    for one in captured(server, state):
        if isinstance(one, CapturedDdl):
            table = one.changes[-1].table or table
        elif isinstance(one, Transaction):
            for change in one.changes:
                assert change.after is not None
                table = change.table
                rows.append(change.after)
    assert table is not None
    return table, rows


def test_every_type_in_one_table_is_read_as_select_reads_it(server: Server) -> None:
    columns = [f"c{at} {kind}" for at, kind in enumerate(TYPES)]
    longest = max(map(len, TYPES.values()))
    # a row of each value, every second one with some NULLs before and behind
    inserts = []
    for at in range(longest):
        chosen = [values[at % len(values)] for values in TYPES.values()]
        inserts.append(", ".join([str(2 * at), *chosen]))
        inserts.append(", ".join([str(2 * at + 1), *(v if n % (at + 2) else "NULL" for n, v in enumerate(chosen))]))
    table, rows = _captured_rows(
        server,
        f"CREATE TABLE d.every (id INT PRIMARY KEY, {', '.join(columns)}) ROW_FORMAT=DYNAMIC",
        *(f"INSERT INTO d.every VALUES ({values})" for values in inserts),
    )
    with Upstream(server.uri) as upstream:
        there = upstream.lookup(table, [{"id": str(at)} for at in range(2 * longest)], 0)
    for at, (found, row) in enumerate(zip(there, rows, strict=True)):
        assert found is not None
        for (kind, values), name in zip(TYPES.items(), list(row)[1:], strict=True):
            assert row[name] == found[name], (kind, values[at // 2 % len(values)])


@pytest.mark.mariadb
def test_types_of_mariadb_are_text(server: Server) -> None:
    for kind, values in FOREIGN.items():
        rows = ", ".join(f"({at}, {value})" for at, value in enumerate(values))
        table, found = _captured_rows(
            server, f"CREATE TABLE d.{kind} (id INT PRIMARY KEY, c {kind})", f"INSERT INTO d.{kind} VALUES {rows}"
        )
        with Upstream(server.uri) as upstream:
            assert upstream.lookup(table, [{"id": str(at)} for at in range(len(values))], 0) == found
        assert replace(table.columns[1].type, length=None).charset == "ascii"
