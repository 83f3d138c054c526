"""The default character set of a table, and what text columns get from it. Compared with MariaDB 11.4."""

from __future__ import annotations

import msgspec
import pytest

from ticdc_spark import mysql
from ticdc_spark.ddl import Charset, Charsets, Dialect, Server, apply_ddl, charsets_after, fold
from ticdc_spark.model import SchemaChange, Table, TableName

_OLD = b"""
{"schema": "d", "name": "t", "columns": [{"name": "a", "type": {"name": "text", "charset": "latin1"}}]}
"""
"""A table in the state of version 0.1.0."""


def after(
    *statements: str,
    tables: dict[TableName, Table] | None = None,
    charsets: Charsets | None = None,
    dialect: Dialect = "tidb",
) -> Table:
    """The table ``t``."""
    tables = tables or {}
    for sql in statements:
        effect = apply_ddl(tables, "d", sql, Server(dialect), charsets=charsets or {})
        assert effect.unsupported == ""
        tables = fold(tables, effect)
    return tables["d", "t"]


def texts(table: Table) -> dict[str, str | None]:
    """Text columns with their character set; other columns with their type."""
    return {
        column.name: column.type.charset if mysql.is_text(column.type) else mysql.format_type(column.type)
        for column in table.columns
    }


def test_text_columns_of_a_binary_table_are_bytes() -> None:
    table = after("CREATE TABLE t (a CHAR(3), b VARCHAR(9), c TEXT, d ENUM('x'), e JSON) DEFAULT CHARSET=binary")
    assert [mysql.format_type(column.type) for column in table.columns] == [
        "binary(3)",
        "varbinary(9)",
        "blob",
        "enum('x')",
        "json",
    ]
    assert {column.type.charset for column in table.columns} == {"binary"}
    assert (table.charset, table.collate) == ("binary", "binary")


@pytest.mark.parametrize("part", ["ADD b TEXT", "ADD (b TEXT)", "MODIFY b TEXT", "CHANGE a b TEXT"])
@pytest.mark.parametrize(("charset", "found"), [("binary", "blob"), ("latin1", "latin1"), ("utf8mb4", "utf8mb4")])
def test_a_column_without_a_character_set_gets_the_default_of_its_table(part: str, charset: str, found: str) -> None:
    columns = "a INT" if "ADD" in part else "b TEXT CHARACTER SET gbk" if "MODIFY" in part else "a TEXT COLLATE gbk_bin"
    assert texts(after(f"CREATE TABLE t ({columns}) CHARSET={charset}", f"ALTER TABLE t {part}"))["b"] == found


def test_columns_with_their_own_character_set_do_not_change_the_default() -> None:
    table = after("CREATE TABLE t (a TEXT CHARACTER SET latin1)", "ALTER TABLE t ADD b TEXT, ADD c TEXT CHARSET gbk")
    assert texts(table) == {"a": "latin1", "b": "utf8mb4", "c": "gbk"}


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("DEFAULT CHARACTER SET = binary", {"a": "utf8mb4", "b": "blob"}),
        ("CHARSET latin1", {"a": "utf8mb4", "b": "latin1"}),
        ("CHARACTER SET latin1 COLLATE latin1_german1_ci", {"a": "utf8mb4", "b": "latin1"}),
        ("COLLATE = latin1_german1_ci", {"a": "utf8mb4", "b": "latin1"}),
        ("ENGINE=InnoDB DEFAULT CHARSET=latin1", {"a": "utf8mb4", "b": "latin1"}),
        ("COMMENT 'a, b' ROW_FORMAT=DEFAULT COLLATE latin1_bin", {"a": "utf8mb4", "b": "latin1"}),
        ("CONVERT TO CHARACTER SET latin1", {"a": "latin1", "b": "latin1"}),
        ("CONVERT TO CHARACTER SET binary", {"a": "blob", "b": "blob"}),
    ],
)
def test_alter_table_changes_the_default(sql: str, found: dict[str, str]) -> None:
    create = "CREATE TABLE t (a TEXT)"
    assert texts(after(create, f"ALTER TABLE t {sql}", "ALTER TABLE t ADD b TEXT")) == found
    # a server applies the default first, wherever it is in the statement
    assert texts(after(create, f"ALTER TABLE t ADD b TEXT, {sql}")) == found


_BINARY: Charsets = {"d": Charset("binary", "binary", False)}


@pytest.mark.parametrize("option", ["CHARSET=DEFAULT", "COLLATE DEFAULT", "CHARACTER SET DEFAULT COLLATE DEFAULT"])
def test_default_means_that_of_the_database(option: str) -> None:
    table = after(f"CREATE TABLE t (a TEXT) {option}", "ALTER TABLE t ADD b TEXT", charsets=_BINARY)
    assert texts(table) == {"a": "blob", "b": "blob"}


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("CHARSET DEFAULT", {"a": "latin1", "b": "blob"}),
        ("CONVERT TO CHARACTER SET DEFAULT", {"a": "blob", "b": "blob"}),
        ("COLLATE DEFAULT", {"a": "latin1", "b": "latin1"}),
        ("CHARSET DEFAULT, CONVERT TO CHARACTER SET gbk", {"a": "gbk", "b": "blob"}),
        ("CONVERT TO CHARACTER SET gbk, CHARSET DEFAULT", {"a": "gbk", "b": "blob"}),
    ],
)
def test_alter_table_takes_the_default_of_the_database(sql: str, found: dict[str, str]) -> None:
    create = "CREATE TABLE t (a TEXT) CHARSET latin1"
    assert texts(after(create, f"ALTER TABLE t ADD b TEXT, {sql}", charsets=_BINARY, dialect="mariadb")) == found


@pytest.mark.parametrize(
    ("create", "found"),
    [
        ("CREATE TABLE t (a TEXT, b TEXT) COLLATE uca1400_as_ci", ["utf8mb4_uca1400_as_ci", "utf8mb4_uca1400_as_ci"]),
        ("CREATE TABLE t (a TEXT COLLATE uca1400_as_ci, b TEXT) CHARSET ucs2", ["ucs2_uca1400_as_ci", "ucs2_bin"]),
        (
            "CREATE TABLE t (a NCHAR COLLATE uca1400_as_ci, b TEXT COLLATE DEFAULT)",
            ["utf8mb3_uca1400_as_ci", "utf8mb4_bin"],
        ),
    ],
)
def test_a_collation_of_any_character_set_is_that_of_its_column(create: str, found: list[str]) -> None:
    assert [column.type.collate for column in after(create).columns] == found


def test_a_collation_of_any_character_set_leaves_that_of_the_table() -> None:
    table = after("CREATE TABLE t (a INT) CHARSET ucs2", "ALTER TABLE t COLLATE uca1400_as_ci, ADD b TEXT")
    assert (table.charset, table.collate) == ("ucs2", "ucs2_uca1400_as_ci")
    assert texts(table) == {"a": "int(11)", "b": "ucs2"}


@pytest.mark.parametrize(("dialect", "default"), [("mariadb", "utf8mb4"), ("mysql", "gbk"), ("tidb", "gbk")])
def test_a_default_before_convert_counts_only_in_mariadb(dialect: Dialect, default: str) -> None:
    table = after(
        "CREATE TABLE t (a TEXT)", "ALTER TABLE t CHARSET utf8mb4, CONVERT TO CHARACTER SET gbk", dialect=dialect
    )
    assert (texts(table), table.charset) == ({"a": "gbk"}, default)


@pytest.mark.parametrize(
    ("column", "found"),
    [
        ("TEXT", "gbk"),
        ("TEXT BINARY", "ucs2"),
        ("TEXT COLLATE DEFAULT", "ucs2"),
        ("TEXT COLLATE uca1400_as_ci", "ucs2"),
        ("TEXT CHARACTER SET ascii BINARY", "gbk"),
        ("NCHAR(3) COLLATE uca1400_as_ci", "gbk"),
    ],
)
def test_convert_leaves_the_default_to_a_column_with_a_collation_of_any_character_set(column: str, found: str) -> None:
    alter = f"ALTER TABLE t ADD b {column}, CONVERT TO CHARACTER SET gbk, CHARACTER SET ucs2"
    assert texts(after("CREATE TABLE t (a TEXT)", alter, dialect="mariadb")) == {"a": "gbk", "b": found}


@pytest.mark.parametrize(("dialect", "found"), [("mariadb", "gbk"), ("mysql", "latin1"), ("mysql 9", "latin1")])
def test_convert_to_the_default_means_the_session_in_mysql(dialect: Dialect, found: str) -> None:
    tables = fold({}, apply_ddl({}, "e", "CREATE TABLE t (a TEXT)"))
    charsets: Charsets = {"e": Charset("gbk", None, False), "d": Charset("latin1", None, False)}
    sql = "ALTER TABLE e.t CONVERT TO CHARACTER SET DEFAULT"
    (altered,) = apply_ddl(tables, "d", sql, Server(dialect), charsets=charsets).altered
    assert texts(altered.after) == {"a": found}


def test_a_binary_default_before_convert_is_not_followed_where_the_server_is_not_known() -> None:
    tables = fold({}, apply_ddl({}, "d", "CREATE TABLE t (a TEXT)"))
    effect = apply_ddl(tables, "d", "ALTER TABLE t CHARSET binary, CONVERT TO CHARACTER SET gbk")
    assert "servers read a default character set beside CONVERT in different ways" in effect.unsupported


@pytest.mark.parametrize(("charset", "found"), [("latin1", "latin1"), ("binary", "longblob")])
def test_convert_changes_json_of_mariadb_as_a_text(charset: str, found: str) -> None:
    create, alter = "CREATE TABLE t (a JSON)", f"ALTER TABLE t ADD b JSON, CONVERT TO CHARACTER SET {charset}"
    assert texts(after(create, dialect="mariadb")) == {"a": "utf8mb4"}
    assert texts(after(create, alter, dialect="mariadb")) == {"a": found, "b": found}
    assert texts(after(create, alter)) == {"a": "json", "b": "json"}


def test_convert_leaves_what_may_be_a_uuid_and_is_refused_where_that_is_not_known() -> None:
    table = after("CREATE TABLE t (a CHAR(36) COLLATE ascii_bin, b CHAR(36) CHARSET latin1)", dialect="mariadb")
    tables = {table.full_name: table}
    alter = "ALTER TABLE t CONVERT TO CHARACTER SET {}"
    assert texts(after(alter.format("gbk"), tables=tables, dialect="mariadb")) == {"a": "ascii", "b": "gbk"}
    effect = apply_ddl(tables, "d", alter.format("binary"), Server("mariadb"))
    assert effect.unsupported == "DDL: whether column `a` is a UUID or INET, which stays, is not known"


def test_the_default_keeps_its_collation() -> None:
    table = after("CREATE TABLE t (a INT) COLLATE latin1_german1_ci", "ALTER TABLE t ADD b TEXT")
    assert (table.charset, table.collate) == ("latin1", "latin1_german1_ci")
    assert table.columns[1].type.collate == "latin1_german1_ci"


def test_create_like_copies_the_default() -> None:
    table = after("CREATE TABLE u (a INT) CHARSET binary", "CREATE TABLE t LIKE u", "ALTER TABLE t ADD b VARCHAR(9)")
    assert texts(table) == {"a": "int(11)", "b": "varbinary(9)"}


def test_a_new_table_has_the_default_of_its_database() -> None:
    charsets: Charsets = {"d": Charset("binary", "binary", False), "e": Charset("latin1", None, False)}
    table = after("CREATE TABLE t (a TEXT)", charsets=charsets)
    assert texts(after("ALTER TABLE t ADD b TEXT", tables={("d", "t"): table})) == {"a": "blob", "b": "blob"}
    assert texts(after("CREATE TABLE t (a TEXT) CHARSET latin1", charsets=charsets)) == {"a": "latin1"}


@pytest.mark.parametrize(
    ("kind", "charset"),
    [
        ("NATIONAL VARCHAR(9)", "utf8mb3"),
        ("NCHAR(9)", "utf8mb3"),
        ("TEXT ASCII", "latin1"),
        ("CHAR(9) UNICODE", "ucs2"),
    ],
)
def test_types_that_mean_a_character_set_do_not_get_the_default(kind: str, charset: str) -> None:
    assert texts(after(f"CREATE TABLE t (a {kind}) CHARSET binary")) == {"a": charset}


def test_an_unknown_default_is_taken_from_the_text_columns() -> None:
    old = msgspec.json.decode(_OLD, type=Table)
    table = after("ALTER TABLE t ADD b TEXT, MODIFY a VARCHAR(9)", tables={("d", "t"): old})
    assert texts(table) == {"a": "latin1", "b": "latin1"}
    assert table.charset is None


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("CREATE DATABASE `e` DEFAULT CHARACTER SET = latin1 COLLATE = latin1_german1_ci", {"d": "gbk", "e": "latin1"}),
        ("CREATE SCHEMA IF NOT EXISTS e CHARSET 'binary' PLACEMENT POLICY = p", {"d": "gbk", "e": "binary"}),
        ("CREATE DATABASE e COLLATE ascii_bin", {"d": "gbk", "e": "ascii"}),
        ("ALTER DATABASE CHARACTER SET utf8mb4", {"d": "utf8mb4"}),
        ("ALTER DATABASE d PLACEMENT POLICY = p", {"d": "gbk"}),
        ("CREATE DATABASE d", {}),
        ("CREATE DATABASE IF NOT EXISTS d CHARSET binary", {"d": "gbk"}),
        ("DROP DATABASE d", {}),
        ("CREATE DATABASE e CHARSET DEFAULT", {"d": "gbk"}),
        ("ALTER DATABASE d CHARSET DEFAULT", {}),
        ("ALTER DATABASE d COLLATE DEFAULT", {"d": "gbk"}),
        ("CREATE DATABASE e CHARSET ucs2 COLLATE uca1400_ai_ci", {"d": "gbk", "e": "ucs2"}),
        ("DROP TABLE d", {"d": "gbk"}),
        ("SELECT (", {"d": "gbk"}),
    ],
)
def test_ddl_of_databases_changes_their_default(sql: str, found: dict[str, str]) -> None:
    change = SchemaChange(commit_ts=1, query=sql, kind="", schema="d")
    after = charsets_after({"d": Charset("gbk", None, False)}, [change])
    assert {name: one.name for name, one in after.items()} == found


def test_a_new_database_has_the_default_of_its_server() -> None:
    latin1 = Charset("latin1", None, False)
    change = SchemaChange(commit_ts=1, query="CREATE DATABASE d", kind="", schema="d")
    assert charsets_after({"": latin1}, [change]) == {"": latin1, "d": latin1}
    changed = SchemaChange(commit_ts=1, query="ALTER DATABASE d CHARSET DEFAULT", kind="", schema="d")
    assert charsets_after({"": latin1, "d": Charset("gbk", None, False)}, [changed])["d"].name == "latin1"
