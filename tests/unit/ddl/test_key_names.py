"""The keys of a table and their names, where SQL does not say them. MariaDB's are those of a server (11.4)."""

from __future__ import annotations

import pytest

from ticdc_spark.ddl import Dialect, Server, apply_ddl, clarified, fold, parse_create
from ticdc_spark.model import Table, TableName

INLINE = "CREATE TABLE t (a INT UNIQUE, b INT, UNIQUE (a, b))"
FOREIGN = "FOREIGN KEY (a) REFERENCES p (x)"
PLAIN = "CREATE TABLE t (a INT, b INT)"
CASES: dict[str, tuple[Dialect, tuple[str, ...], tuple[str, ...]]] = {
    "TiDB names the keys of a table before those of its columns": ("tidb", (INLINE,), ("a a,b", "a_2 a")),
    "MariaDB names keys as written": ("mariadb", (INLINE,), ("a a", "a_2 a,b")),
    "MySQL names keys as written": ("mysql", (INLINE,), ("a a", "a_2 a,b")),
    "a written name is taken also before it is written": (
        "tidb",
        ("CREATE TABLE t (a INT, b INT, UNIQUE (a), UNIQUE a (b))",),
        ("a b", "a_2 a"),
    ),
    "the key that an ALTER drops is the server's": ("mariadb", (INLINE, "DROP INDEX a_2 ON t"), ("a a",)),
    "MariaDB has no unique key beside a primary one": (
        "mariadb",
        ("CREATE TABLE t (a INT UNIQUE PRIMARY KEY, b INT, UNIQUE (a, b))",),
        ("primary a", "a a,b"),
    ),
    "a foreign key has an index of its constraint's name": (
        "mariadb",
        (f"CREATE TABLE t (a INT, b INT, CONSTRAINT b {FOREIGN}, UNIQUE (b))",),
        ("b a", "b_2 b"),
    ),
    "TiDB makes it, too": ("tidb", (f"CREATE TABLE t (a INT, b INT, CONSTRAINT f {FOREIGN})",), ("f a",)),
    "a foreign key without a name has an index of its column's name": (
        "mysql",
        (f"CREATE TABLE t (a INT, b INT, UNIQUE a_2 (b), {FOREIGN})",),
        ("a_2 b", "a a"),
    ),
    "a foreign key of a column is ignored by MySQL": (
        "mysql",
        ("CREATE TABLE t (a INT CONSTRAINT r REFERENCES p (x), b INT)",),
        (),
    ),
    "a foreign key of a column has an index in MariaDB": (
        "mariadb",
        ("CREATE TABLE t (a INT CONSTRAINT r REFERENCES p (x), b INT)",),
        ("r a",),
    ),
    "a foreign key of a column has an index in MySQL 9": (
        "mysql 9",
        ("CREATE TABLE t (a INT UNIQUE, b INT REFERENCES p (x))",),
        ("a a", "b b"),
    ),
    "MySQL 9 has a unique key beside a primary one": (
        "mysql 9",
        ("CREATE TABLE t (a INT UNIQUE PRIMARY KEY, b INT)",),
        ("primary a", "a a"),
    ),
    "the beginning of a column does not serve a foreign key": (
        "mariadb",
        (f"CREATE TABLE t (a VARCHAR(9), {FOREIGN}, UNIQUE (a(5)))",),
        ("a a", "a_2 a"),
    ),
    "nor in MySQL": ("mysql", (f"CREATE TABLE t (a VARCHAR(9), UNIQUE (a(5)), {FOREIGN})",), ("a a", "a_2 a")),
    "nor in TiDB": (
        "tidb",
        (f"CREATE TABLE t (a VARCHAR(9), UNIQUE (a(5)), CONSTRAINT f {FOREIGN})",),
        ("a a", "f a"),
    ),
    "the beginning of another column does": (
        "mariadb",
        (f"CREATE TABLE t (a INT, b VARCHAR(9), {FOREIGN}, UNIQUE k (a, b(5)))",),
        ("k a,b",),
    ),
    "a beginning with the whole length does": (
        "mariadb",
        (f"CREATE TABLE t (a VARCHAR(9), {FOREIGN}, UNIQUE k (a(9)))",),
        ("k a",),
    ),
    "so does one of a column that got as short": (
        "mariadb",
        ("CREATE TABLE t (a VARCHAR(9), KEY k (a(5)))", f"ALTER TABLE t MODIFY a VARCHAR(4), ADD {FOREIGN}"),
        ("k a",),
    ),
    "a key has the beginning of a longer column that takes the place of its own": (
        "mariadb",
        (
            "CREATE TABLE t (a VARCHAR(9), KEY k (a))",
            "ALTER TABLE t DROP a, ADD a VARCHAR(20)",
            f"ALTER TABLE t ADD CONSTRAINT f {FOREIGN}",
        ),
        ("k a", "f a"),
    ),
    "a key that a column declares is there beside a primary key of another definition": (
        "mariadb",
        ("CREATE TABLE t (g INT)", "ALTER TABLE t CHANGE g d INT PRIMARY KEY, ADD IF NOT EXISTS d INT UNIQUE"),
        ("PRIMARY d", "d d"),
    ),
    "no index is made for columns with which another begins": (
        "mariadb",
        (f"CREATE TABLE t (a INT, b INT, {FOREIGN}, UNIQUE (a, b))",),
        ("a a,b",),
    ),
    "the index of a foreign key goes when another key begins with its columns": (
        "mariadb",
        (PLAIN, f"ALTER TABLE t ADD {FOREIGN}", "ALTER TABLE t DROP FOREIGN KEY x", "ALTER TABLE t ADD UNIQUE (a, b)"),
        ("a a,b",),
    ),
    "TiDB keeps it": (
        "tidb",
        (PLAIN, f"ALTER TABLE t ADD CONSTRAINT a {FOREIGN}", "ALTER TABLE t ADD UNIQUE (a, b)"),
        ("a a", "a_2 a,b"),
    ),
    "a constraint is the foreign key of that name": (
        "mariadb",
        (f"CREATE TABLE t (a INT, b INT, UNIQUE x (a), CONSTRAINT x {FOREIGN})", "ALTER TABLE t DROP CONSTRAINT x"),
        ("x a",),
    ),
    "then it is the unique key": (
        "mariadb",
        (
            f"CREATE TABLE t (a INT, b INT, KEY (a), UNIQUE x (b), CONSTRAINT x {FOREIGN})",
            "ALTER TABLE t DROP FOREIGN KEY x",
            "ALTER TABLE t DROP CONSTRAINT x",
        ),
        ("a a",),
    ),
    "a copy has no foreign keys": (
        "mariadb",
        (
            f"CREATE TABLE o (a INT, b INT, KEY (a), UNIQUE x (b), CONSTRAINT x {FOREIGN})",
            "CREATE TABLE t LIKE o",
            "ALTER TABLE t DROP CONSTRAINT x",
        ),
        ("a a",),
    ),
    "IF NOT EXISTS sees earlier keys of its statement": (
        "mariadb",
        (PLAIN, "ALTER TABLE t ADD UNIQUE u (a), ADD UNIQUE IF NOT EXISTS u (b)"),
        ("u a",),
    ),
    "IF NOT EXISTS of a key without a name goes by its first column": (
        "mariadb",
        (PLAIN, "ALTER TABLE t ADD UNIQUE (a), ADD UNIQUE IF NOT EXISTS (a, b)"),
        ("a a",),
    ),
}


def _after(statements: tuple[str, ...], dialect: Dialect) -> dict[TableName, Table]:
    tables: dict[TableName, Table] = {}
    for sql in statements:
        effect = apply_ddl(tables, "d", sql, Server(dialect))
        assert effect.unsupported == ""
        tables = fold(tables, effect)
    return tables


def _keys(table: Table) -> tuple[str, ...]:
    return tuple(f"{index.name} {','.join(index.columns)}" for index in table.indexes)


@pytest.mark.parametrize("case", CASES)
def test_the_keys_after(case: str) -> None:
    dialect, statements, keys = CASES[case]
    assert sorted(_keys(_after(statements, dialect)["d", "t"])) == sorted(keys)


SHOWN = (
    "CREATE TABLE `t` (`a` int, `b` int, `c` int, KEY `a` (`a`), CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`x`))"
)


@pytest.mark.parametrize("part", ["DROP INDEX a", "RENAME INDEX a TO z", "DROP INDEX a_2"])
def test_an_index_that_may_have_gone_is_an_error_where_its_name_counts(part: str) -> None:
    """SHOW CREATE TABLE does not say whether the index is the foreign key's, which another key replaces."""
    tables = {("d", "t"): parse_create(SHOWN, "d", "escape", "mariadb")}
    tables = fold(tables, apply_ddl(tables, "d", "ALTER TABLE t ADD UNIQUE (a, b)", Server("mariadb")))
    assert apply_ddl(tables, "d", f"ALTER TABLE t {part}", Server("mariadb")).unsupported == (
        f"which key of `d`.`t` has the name `{part.split()[2]}` is not known: "
        "the server may have made the index `a` for a foreign key, and dropped it since"
    )


def test_an_index_of_a_foreign_key_gives_its_name_to_a_key_of_that_name() -> None:
    tables = {("d", "t"): parse_create(SHOWN, "d", "escape", "mariadb")}
    effect = apply_ddl(tables, "d", "ALTER TABLE t ADD UNIQUE a (a, b)", Server("mariadb"))
    assert _keys(fold(tables, effect)["d", "t"]) == ("a a,b",)


def test_an_index_beside_one_that_begins_with_its_columns_was_written() -> None:
    sql = SHOWN.replace("KEY `a` (`a`)", "KEY `a` (`a`), UNIQUE KEY `a_2` (`a`, `b`)")
    tables = {("d", "t"): parse_create(sql, "d", "escape", "mariadb")}
    effect = apply_ddl(tables, "d", "DROP INDEX a ON t", Server("mariadb"))
    assert _keys(fold(tables, effect)["d", "t"]) == ("a_2 a,b",)


def test_an_index_of_a_beginning_is_no_index_of_a_foreign_key() -> None:
    sql = SHOWN.replace("`a` int", "`a` varchar(9)").replace("KEY `a` (`a`)", "KEY `a` (`a`(5))")
    tables = {("d", "t"): parse_create(sql, "d", "escape", "mariadb")}
    effect = apply_ddl(tables, "d", "ALTER TABLE t ADD UNIQUE (a, b)", Server("mariadb"))
    assert sorted(_keys(fold(tables, effect)["d", "t"])) == ["a a", "a_2 a,b"]


def test_a_table_that_is_shown_has_the_indexes_that_are_shown() -> None:
    """With foreign_key_checks off, the index of a foreign key can be dropped."""
    assert parse_create(SHOWN.replace("KEY `a` (`a`), ", ""), "d", "escape", "mariadb").indexes == ()


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        (INLINE, "CREATE TABLE t (a INT UNIQUE, b INT, UNIQUE `a_2` (a, b))"),
        (
            "CREATE TABLE t (a INT, UNIQUE(a), `b``c` INT, KEY USING BTREE (`b``c`), UNIQUE u (a))",
            "CREATE TABLE t (a INT, UNIQUE `a` (a), `b``c` INT, KEY `b``c` USING BTREE (`b``c`), UNIQUE u (a))",
        ),
    ],
)
def test_names_of_keys_are_written_into_sql(sql: str, named: str) -> None:
    effect = apply_ddl({}, "d", sql, Server("mariadb"))
    assert clarified(sql, effect.clarified) == named


def test_tidb_gives_the_written_names_too() -> None:
    """Keys of columns need no written name: TiDB gives them the first free name, as the server did."""
    sql = "CREATE TABLE t (UNIQUE (a, b), a INT UNIQUE, UNIQUE (a), b INT UNIQUE, UNIQUE (b, a))"
    effect = apply_ddl({}, "d", sql, Server("mysql"))
    (of_mysql,) = effect.created
    (of_tidb,) = apply_ddl({}, "d", clarified(sql, effect.clarified)).created
    assert sorted(_keys(of_tidb)) == sorted(_keys(of_mysql))
    assert sorted(_keys(of_mysql)) == ["a a,b", "a_2 a", "a_3 a", "b b", "b_2 b,a"]
