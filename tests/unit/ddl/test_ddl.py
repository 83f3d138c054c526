"""What SQL does to tables, beyond what the golden cases hold."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark import mysql
from ticdc_spark.ddl import (
    Comments,
    DdlEffect,
    apply_ddl,
    classify,
    column_renames,
    computed_columns,
    ddl_tables,
    fold,
    parse_create,
    written_comments,
)
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import AlterTable, MoveRows
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table, TableName


def tables_after(*statements: str) -> dict[TableName, Table]:
    tables: dict[TableName, Table] = {}
    for sql in statements:
        effect = apply_ddl(tables, "d", sql)
        assert effect.unsupported == ""
        tables = fold(tables, effect)
    return tables


def columns_of(table: Table) -> list[str]:
    return [f"{c.name} {mysql.format_type(c.type)}{'' if c.nullable else ' not null'}" for c in table.columns]


BASE = "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9) CHARACTER SET latin1, c DECIMAL(5) UNSIGNED, UNIQUE (b))"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("BOOL", "tinyint(1)"),
        ("INTEGER UNSIGNED", "int(10) unsigned"),
        ("DOUBLE PRECISION", "double"),
        ("FLOAT(25)", "double"),
        ("NUMERIC(7)", "decimal(7,0)"),
        ("NATIONAL CHAR VARYING(5)", "varchar(5)"),
        ("NATIONAL VARCHAR(5)", "varchar(5)"),
        ("NCHAR VARYING(5)", "varchar(5)"),
        ("NCHAR VARCHAR(5)", "varchar(5)"),
        ("LONG CHAR VARYING", "mediumtext"),
        ("CHAR(3) CHARACTER SET binary", "binary(3)"),
        ("TEXT CHARACTER SET binary", "blob"),
        ("TEXT(200)", "tinytext"),
        ("BLOB(70000)", "mediumblob"),
        ("LONG VARBINARY", "mediumblob"),
        ("TIME(0)", "time"),
        ("DATETIME(3) ON UPDATE CURRENT_TIMESTAMP(3)", "datetime(3)"),
        ("ENUM('a,b', 'c)', 'it''s', 'back\\slash')", "enum('a,b','c)','it''s','back\\slash')"),
        ("SET('x') CHARACTER SET utf8", "set('x')"),
        ("INT(6) ZEROFILL", "int(6) unsigned zerofill"),
    ],
)
def test_types_as_tidb_has_them(written: str, meant: str) -> None:
    table = parse_create(f"CREATE TABLE t (c {written} COMMENT 'x, y INT', d INT)", "d")
    assert [mysql.format_type(column.type) for column in table.columns] == [meant, "int(11)"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("VARCHAR(9) DEFAULT 'it''s \\\\ \\n'", "it's \\ \n"),
        ("VARCHAR(9) DEFAULT _UTF8MB4'x'", "x"),
        ("INT DEFAULT -7", "-7"),
        ("INT DEFAULT '007'", "7"),
        ("BIT(4) DEFAULT b'101'", 5),
        ("VARBINARY(4) DEFAULT x'6162'", "ab"),
        ("BINARY(3) DEFAULT 'a'", "a\0\0"),
        ("DATETIME(3) DEFAULT NOW(3)", "CURRENT_TIMESTAMP"),
        ("JSON DEFAULT (JSON_OBJECT('a', 1))", "JSON_OBJECT('a', 1)"),
        ("BOOL DEFAULT TRUE", "1"),
        ("INT DEFAULT NULL", None),
    ],
)
def test_defaults(written: str, meant: object) -> None:
    assert parse_create(f"CREATE TABLE t (c {written})", "d").columns[0].default == meant


@pytest.mark.parametrize(
    "default",
    [
        "CASE WHEN a THEN 2 ELSE NULL END",
        "(CASE WHEN a THEN 2 ELSE NULL END)",
        "CASE a WHEN 1 THEN CASE WHEN 1 THEN '2,)' END ELSE 3 END",
    ],
)
def test_words_of_a_case_are_no_options_of_its_column(default: str) -> None:
    for column in (f"NOT NULL DEFAULT {default}", f"DEFAULT {default} NOT NULL"):
        made, other = parse_create(f"CREATE TABLE t (c INT {column}, d INT)", "d").columns
        assert (made.default, made.nullable, other.nullable) == (
            default.removeprefix("(").removesuffix(")"),
            False,
            True,
        )


@pytest.mark.parametrize("name", ["columnar", "vector"])
def test_a_column_may_have_the_first_word_of_an_index(name: str) -> None:
    created = tables_after(f"CREATE TABLE t (a INT, {name} INT, {name} INDEX i ((a + 1)))")["d", "t"]
    added = tables_after("CREATE TABLE t (a INT)", f"ALTER TABLE t ADD {name} INT")["d", "t"]
    assert columns_of(created) == columns_of(added) == ["a int(11)", f"{name} int(11)"]
    assert [index.name for index in created.indexes] == ["i"]


@pytest.mark.parametrize("members", ['"yes","no"', "'yes', -- the first\n 'no'", "N'yes',n'no'", "0x796573, 'no'"])
def test_members_of_an_enum_are_read_however_they_are_written(members: str) -> None:
    (column,) = parse_create(f"CREATE TABLE t (c ENUM({members}))", "d", "escape").columns
    assert column.type.elements == ("yes", "no")


def test_members_of_sql_that_people_typed_have_escapes() -> None:
    (column,) = parse_create("CREATE TABLE t (c ENUM('a\\\\b', 'it\\'s'))", "d", "escape").columns
    assert column.type.elements == ("a\\b", "it's")


def test_alter_changes_columns_and_keys() -> None:
    after = tables_after(
        BASE,
        "ALTER TABLE T ADD d TEXT AFTER A, DROP c, CHANGE B bb VARCHAR(20) NOT NULL FIRST, ADD KEY k (d(5), (a + 1))",
        "CREATE UNIQUE INDEX u ON t (bb, d)",
    )["d", "t"]
    assert columns_of(after) == ["bb varchar(20) not null", "a int(11) not null", "d text"]
    assert [(i.name, i.columns, i.nullable) for i in after.indexes] == [
        ("b", ("bb",), False),
        ("primary", ("a",), False),
        ("k", ("d", "(a + 1)"), True),
        ("u", ("bb", "d"), True),
    ]
    assert [c.type.charset for c in after.columns] == ["utf8mb4", "binary", "utf8mb4"]


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE t (id INT AUTO_INCREMENT UNIQUE, v INT)",),
        ("CREATE TABLE t (id INT AUTO_INCREMENT NULL, v INT, UNIQUE KEY uk (id))",),
        ("CREATE TABLE t (id INT NOT NULL UNIQUE AUTO_INCREMENT)", "ALTER TABLE t MODIFY id BIGINT AUTO_INCREMENT"),
        (
            "CREATE TABLE t (id INT NOT NULL UNIQUE)",
            "ALTER TABLE t ADD w INT DEFAULT 0 PARTITION BY KEY (id) PARTITIONS 2",
        ),
        ("CREATE TABLE t (id INT NOT NULL UNIQUE REFERENCES p (id) MATCH FULL ON DELETE SET NULL ON UPDATE CASCADE)",),
        ("CREATE TABLE t (id INT COLUMN_FORMAT DEFAULT NOT NULL STORAGE DEFAULT UNIQUE)",),
        (
            "CREATE TABLE t (v INT)",
            "ALTER TABLE t ADD (id INT NOT NULL, CONSTRAINT c UNIQUE (id), CONSTRAINT CHECK (v > 0))",
        ),
    ],
)
def test_the_key_that_a_server_sees(statements: tuple[str, ...]) -> None:
    """Compared with MariaDB 11.4."""
    after = tables_after(*statements)["d", "t"]
    assert mysql.handle_key(after) == ("id",)
    assert {column.name for column in after.columns} <= {"id", "v", "w"}


@pytest.mark.parametrize("part", ["ENGINE=InnoDB", "COMMENT = 'x'", "ADD v INT", "MODIFY id BIGINT", "ADD KEY k (id)"])
def test_partitioning_may_follow_another_part_without_a_comma(part: str) -> None:
    by = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (9))"
    for end in (by, "REMOVE PARTITIONING"):
        statement = parse(f"ALTER TABLE t {part} {end}")
        assert isinstance(statement, AlterTable)
        (*others, last) = statement.parts
        assert len(others) == 1 and isinstance(last, MoveRows) and last.what == end


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("CREATE TABLE t (a INT COMMENT 'c') ENGINE=InnoDB COMMENT='it''s' CHARSET=latin1", "it's"),
        ("CREATE TABLE t (a INT COMMENT 'c') COMMENT 'x' PARTITION BY HASH (a)", "x"),
        ("CREATE TABLE t (comment INT, a INT COMMENT 'c')", None),
        ("ALTER TABLE t MODIFY a INT COMMENT 'c', COMMENT = 'x, y'", "x, y"),
        ("ALTER TABLE t ADD INDEX i (a) COMMENT 'of a key', ADD a INT COMMENT 'c'", None),
        ("ALTER TABLE t ENGINE=InnoDB COMMENT='x', ADD a INT COMMENT 'c', COMMENT ''", ""),
        ("ALTER TABLE t ORDER BY id, comment DESC, charset, MODIFY a INT COMMENT 'c'", None),
    ],
)
def test_a_statement_shows_the_comments_that_it_writes(sql: str, table: str | None) -> None:
    assert written_comments(parse(sql)) == Comments({"a": "c"}, table)


def test_renames_are_returned() -> None:
    tables = tables_after(BASE)
    effect = apply_ddl(tables, "d", "ALTER TABLE t RENAME COLUMN A TO z, RENAME TO e.u")
    assert [dict(altered.renames) for altered in effect.altered] == [{"a": "z"}]
    assert effect.renamed == ((("d", "t"), ("e", "u")),)
    (name,) = fold(tables, effect)
    assert name == ("e", "u")


def test_a_change_of_an_added_column_renames_none() -> None:
    sql = "ALTER TABLE t DROP a, ADD x INT, CHANGE a x INT DEFAULT (RAND()), ALTER x SET DEFAULT 1"
    assert column_renames(sql) == {}
    assert computed_columns(sql) == ("x",)
    after = tables_after(BASE, sql.replace("(RAND())", "7"))["d", "t"].columns[-1]
    assert (after.name, after.default) == ("x", "7")


def test_rename_works_from_left_to_right() -> None:
    tables = tables_after("CREATE TABLE a (x INT)", "CREATE TABLE b (y INT)")
    swapped = fold(tables, apply_ddl(tables, "d", "RENAME TABLE a TO tmp, b TO a, tmp TO b"))
    assert {name[1]: table.columns[0].name for name, table in swapped.items()} == {"a": "y", "b": "x"}


def test_a_rename_into_another_database_finds_its_table() -> None:
    """Open has the new database only (tiflow ddl_all, a_moved)."""
    tables = tables_after(BASE)
    sql = "RENAME TABLE `t` TO `other`.`u`"
    assert apply_ddl(tables, "other", sql).renamed == ((("d", "t"), ("other", "u")),)
    two = {**tables, ("e", "t"): tables["d", "t"]}
    assert "`other`.`t` is not known" in apply_ddl(two, "other", sql).unsupported


def test_convert_to_binary_makes_bytes() -> None:
    after = tables_after("CREATE TABLE t (a CHAR(3), b TEXT, c INT)", "ALTER TABLE t CONVERT TO CHARACTER SET binary")
    assert columns_of(after["d", "t"]) == ["a binary(3)", "b blob", "c int(11)"]


ALTERED = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, c DATE, KEY ka (a), UNIQUE kb (b(3)))"


@pytest.mark.parametrize(
    ("parts", "columns", "keys"),
    [
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "id int, b int, a text, c date", "PRIMARY(id) ka(b) kb(a)"),
        (
            "CHANGE a b INT, CHANGE b c TEXT, CHANGE c a DATE",
            "id int, b int, c text, a date",
            "PRIMARY(id) ka(b) kb(c)",
        ),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO x", "id int, b int, x text, c date", "PRIMARY(id) ka(b) kb(x)"),
        ("RENAME COLUMN a TO b, DROP b", "id int, b int, c date", "PRIMARY(id) ka(b)"),
        ("ADD a TEXT FIRST, DROP a", "a text, id int, b text, c date", "PRIMARY(id) ka(a) kb(b)"),
        ("RENAME COLUMN a TO x, ADD a DATE", "id int, x int, b text, c date, a date", "PRIMARY(id) ka(x) kb(b)"),
        ("ADD a DATE FIRST, RENAME COLUMN a TO x", "a date, id int, x int, b text, c date", "PRIMARY(id) ka(a) kb(b)"),
        ("ADD x INT AFTER z, RENAME COLUMN a TO z", "id int, z int, x int, b text, c date", "PRIMARY(id) ka(z) kb(b)"),
        ("RENAME INDEX ka TO kb, RENAME INDEX kb TO ka", "id int, a int, b text, c date", "PRIMARY(id) ka(b) kb(a)"),
        ("ADD INDEX ka (c), DROP INDEX ka", "id int, a int, b text, c date", "PRIMARY(id) ka(c) kb(b)"),
        ("ADD PRIMARY KEY (c), DROP PRIMARY KEY", "id int, a int, b text, c date", "PRIMARY(c) ka(a) kb(b)"),
        ("ADD UNIQUE (x), ADD x INT", "id int, a int, b text, c date, x int", "PRIMARY(id) ka(a) kb(b) x(x)"),
        ("DROP a, ADD IF NOT EXISTS a INT", "id int, b text, c date", "PRIMARY(id) kb(b)"),
        ("ADD IF NOT EXISTS c INT UNIQUE", "id int, a int, b text, c date", "PRIMARY(id) c(c) ka(a) kb(b)"),
        # MariaDB lets a change take the place of an added column
        ("ADD x INT FIRST, MODIFY x DATE", "id int, a int, b text, c date, x date", "PRIMARY(id) ka(a) kb(b)"),
        ("ADD x INT, MODIFY x DATE FIRST", "x date, id int, a int, b text, c date", "PRIMARY(id) ka(a) kb(b)"),
        ("ADD x INT, MODIFY IF EXISTS x DATE", "id int, a int, b text, c date, x int", "PRIMARY(id) ka(a) kb(b)"),
        ("ADD x INT, CHANGE z x DATE", "id int, a int, b text, c date, x date", "PRIMARY(id) ka(a) kb(b)"),
        ("DROP c, ADD c INT, MODIFY c TEXT", "id int, a int, b text, c text", "PRIMARY(id) ka(a) kb(b)"),
        ("DROP a, ADD x INT UNIQUE, CHANGE a x DATE", "id int, b text, c date, x date", "PRIMARY(id) ka(x) kb(b) x(x)"),
        ("ADD IF NOT EXISTS c INT, MODIFY c TEXT", "id int, a int, b text, c text", "PRIMARY(id) ka(a) kb(b)"),
    ],
)
def test_parts_of_an_alter_name_what_was_there_before_it(parts: str, columns: str, keys: str) -> None:
    table = tables_after(ALTERED, f"ALTER TABLE t {parts}")["d", "t"]
    assert ", ".join(f"{c.name} {c.type.name}" for c in table.columns) == columns
    names = ["PRIMARY" if index.primary else index.name for index in table.indexes]
    found = zip(names, table.indexes, strict=True)
    assert " ".join(sorted(f"{name}({','.join(index.columns)})" for name, index in found)) == keys


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("CREATE TABLE p (id BIGINT UNSIGNED PRIMARY KEY)", "primary"),
        ("CREATE TABLE p (id INT, PRIMARY KEY (id) USING BTREE)", "primary"),
        ("CREATE TABLE p (id INT, CONSTRAINT c PRIMARY KEY (id) /*T![clustered_index] CLUSTERED */)", "primary"),
        ("CREATE TABLE p (id INT, PRIMARY KEY (id) /*T![clustered_index] NONCLUSTERED */)", "PRIMARY"),
        ("CREATE TABLE p (id INT PRIMARY KEY NONCLUSTERED)", "PRIMARY"),
        ("CREATE TABLE p (id VARCHAR(9) PRIMARY KEY)", "PRIMARY"),
        ("CREATE TABLE p (id INT, v INT, PRIMARY KEY (id, v))", "PRIMARY"),
    ],
)
def test_only_an_integer_key_that_orders_the_rows_is_named_in_lower_case(sql: str, name: str) -> None:
    (index,) = tables_after(sql)["d", "p"].indexes
    assert (index.name, index.primary) == (name, True)


def test_a_primary_key_that_is_added_does_not_order_the_rows() -> None:
    (index,) = tables_after("CREATE TABLE p (id INT NOT NULL)", "ALTER TABLE p ADD PRIMARY KEY (id)")["d", "p"].indexes
    assert index.name == "PRIMARY"


@pytest.mark.parametrize(
    ("sql", "attributes"),
    [
        ("ALTER TABLE t COMMENT = 'x'", {}),
        ("ALTER TABLE `t` /*T![ttl] TTL = `a` + INTERVAL 2 DAY */ /*T![ttl] TTL_ENABLE = 'OFF' */", {}),
        ("ALTER TABLE `t`", {}),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p(a) ON DELETE CASCADE", {}),
        ("ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))", {}),
        ("CREATE VIEW v AS SELECT 1", {}),
        ("CREATE TABLE IF NOT EXISTS t (z INT)", {}),
        ("TRUNCATE t", {"truncated": (("d", "t"),)}),
        ("DROP TABLE IF EXISTS t, x.y", {"dropped": (("d", "t"), ("x", "y"))}),
        ("DROP DATABASE d", {"dropped": (("d", "t"),), "database": "d"}),
    ],
)
def test_effects(sql: str, attributes: dict[str, Any]) -> None:
    effect = apply_ddl(tables_after(BASE), "d", sql)
    assert effect == DdlEffect(kind=classify(sql), **attributes)


@pytest.mark.parametrize(
    ("sql", "lossless"),
    [
        ("ALTER TABLE t DROP PARTITION `p1`, `p2`", False),
        ("ALTER TABLE t TRUNCATE PARTITION p", False),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE t WITHOUT VALIDATION", False),
        ("ALTER TABLE t REORGANIZE PARTITION a, b INTO (PARTITION c VALUES LESS THAN (5))", True),
        ("ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 3", True),
        ("ALTER TABLE t REMOVE PARTITIONING", True),
    ],
)
def test_rows_that_move_are_returned(sql: str, lossless: bool) -> None:
    effect = apply_ddl(tables_after(BASE), "d", sql)
    assert {(moved.table, moved.lossless) for moved in effect.moved} == {(("d", "t"), lossless)}
    assert effect.altered == () and effect.unsupported == ""


def test_a_dropped_table_comes_back_with_its_rows() -> None:
    dropped = tables_after(BASE)
    effect = apply_ddl({}, "d", "FLASHBACK TABLE t TO u", dropped=dropped)
    assert columns_of(effect.created[0]) == columns_of(dropped["d", "t"]) and effect.created[0].name == "u"
    assert effect.moved[0].table == ("d", "u") and not effect.moved[0].lossless
    assert "not known" in apply_ddl({}, "d", "RECOVER TABLE t").unsupported


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("ALTER TABLE nowhere ADD x INT", "`d`.`nowhere` is not known"),
        ("ALTER TABLE t DROP COLUMN nothing", "no column `nothing`"),
        ("ALTER TABLE t ADD a INT", "there already"),
        ("ALTER TABLE t ADD x INT, CHANGE x y INT", "no column `x`"),
        ("ALTER TABLE t MODIFY x INT, ADD x INT", "no column `x`"),
        ("ALTER TABLE t CHANGE x a INT", "no column `x`"),
        ("ALTER TABLE t MODIFY a", "column type|expected"),
        ("CREATE TABLE u LIKE nowhere", "not known"),
        ("CREATE TABLE u AS SELECT 1", "SELECT"),
        ("CREATE TABLE u (a INT) SELECT 1", "SELECT"),
        ("FLASHBACK CLUSTER TO TIMESTAMP '2024-01-01'", "FLASHBACK"),
        ("CREATE TABLE u (a INT", "expected"),
        ("CREATE TABLE u (a ENUM())", "members"),
    ],
)
def test_what_is_not_followed_has_a_reason(sql: str, reason: str) -> None:
    effect = apply_ddl(tables_after(BASE), "d", sql)
    assert re.search(reason, effect.unsupported)
    assert effect == DdlEffect(kind=classify(sql), unsupported=effect.unsupported)


WORDS = st.sampled_from(
    [
        "ALTER",
        "TABLE",
        "t",
        "ADD",
        "DROP",
        "COLUMN",
        "CHANGE",
        "RENAME",
        "TO",
        "PARTITION",
        "INDEX",
        "(",
        ")",
        ",",
        ";",
        "`",
        "'",
        '"',
        "a",
        "b",
        "INT",
        "ENUM",
        "'x'",
        "1.5",
        "/*T!",
        "*/",
        "--",
        "!",
        "\\",
        "DEFAULT",
        "FIRST",
        "AFTER",
        "CREATE",
        "LIKE",
        "AS",
        "CHARACTER",
        "SET",
        "PRIMARY",
        "KEY",
    ]
)


@given(st.lists(WORDS, max_size=25))
def test_any_words_give_an_effect_or_a_reason(words: list[str]) -> None:
    sql = " ".join(words)
    assert isinstance(apply_ddl(tables_after(BASE), "d", sql), DdlEffect)
    with contextlib.suppress(MessageError):
        ddl_tables(sql, "d")
    with contextlib.suppress(MessageError):
        column_renames(sql)
