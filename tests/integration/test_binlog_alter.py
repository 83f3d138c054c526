"""Random ALTERs on a real server: the columns and keys that the capture knows behind them are the server's."""

from __future__ import annotations

from random import Random
from typing import TypeVar

import pymysql
import pytest

from tests.integration.binlog_stream import captured, followed, run_drawn
from tests.support.mariadb_server import Server
from ticdc_spark.capture.base import CapturedDdl, follow
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.ddl import apply_ddl, computed_columns, fold
from ticdc_spark.model import Index, Table, TableName

_TYPES = (
    "INT",
    "BIGINT UNSIGNED",
    "VARCHAR(30)",
    "VARCHAR(300) CHARACTER SET latin1",
    "CHAR(5) COLLATE utf8mb4_bin",
    "DECIMAL(9,2)",
    "DATETIME(3)",
    "TIMESTAMP NULL",
    "DOUBLE",
    "FLOAT(7,3)",
    "TEXT",
    "TEXT(70000)",
    "TINYBLOB",
    "TIME(1)",
    "SMALLINT(4) ZEROFILL",
    "ENUM('a','b ')",
    "SET('x','y')",
    "BIT(3)",
    "YEAR",
    "DATE",
    "JSON",
    "BOOL",
    "NATIONAL VARCHAR(4)",
    "VARBINARY(9)",
    "BINARY(3)",
    "INTEGER SIGNED",
    "DOUBLE PRECISION",
    "MEDIUMINT",
    "LONG VARCHAR",
    "CHARACTER VARYING(8)",
    "NUMERIC(5)",
    "FIXED(5,1)",
    "DEC",
    "INT8",
    "MIDDLEINT",
    "REAL",
    "CHAR BYTE",
    "VARCHAR(9) ASCII",
    "CHAR(2) UNICODE",
    "MEDIUMTEXT BINARY",
    "FLOAT(30)",
)
_ATTRIBUTES = (
    "",
    "",
    "",
    "NOT NULL",
    "NULL",
    "UNIQUE",
    "UNIQUE KEY NOT NULL",
    "NOT NULL UNIQUE COMMENT 'it''s, a (x'",
    "DEFAULT NULL",
    "PRIMARY KEY",
    "INVISIBLE",
    "NOT NULL DEFAULT 1",
    "COMMENT 'a'",
    "REFERENCES parent (x)",
)
_OPTIONS = (
    "COMMENT 'z'",
    "ENGINE=InnoDB",
    "ROW_FORMAT=DYNAMIC",
    "FORCE",
    "ORDER BY a",
    "AUTO_INCREMENT 7",
    "ALGORITHM=COPY",
    "LOCK=SHARED",
    "ENABLE KEYS",
    "STATS_PERSISTENT=1",
    "DEFAULT CHARACTER SET latin1",
    "ENGINE=InnoDB DEFAULT CHARSET=latin1",
    "ROW_FORMAT=DYNAMIC COMMENT='x, y' CHARACTER SET utf8mb4",
    "ADD CHECK (1 = 1)",
    "CONVERT TO CHARACTER SET utf8mb4",
    "CONVERT TO CHARACTER SET utf8mb3 COLLATE utf8mb3_bin",
)
T = TypeVar("T")
_COLUMNS = ("a", "b", "c", "D", "`e f`", "g")
_KEYS = ("k1", "k2", "K3", "`k 4`")


class Statements:
    """Draws statements on the tables ``t`` and ``u``; most of them name something that is not there, and fail."""

    def __init__(self, random: Random, *, mariadb: bool) -> None:
        self._random, self._mariadb = random, mariadb

    def draw(self) -> str:
        drawn, table = self._random.random(), self._of("t", "u")
        if drawn < 0.08:
            columns = ", ".join(f"{name} {self._definition()}" for name in "abc")
            parts = [self._of("", f", {self._table_key()}") for _ in range(3)]
            key = self._of("", f", PRIMARY KEY ({self._parts()})", f", CONSTRAINT x UNIQUE KEY y ({self._parts()})")
            if self._random.random() < 0.5:
                return (
                    f"CREATE TABLE {table} (a INT {self._of('', 'UNIQUE')}{''.join(parts)}, b INT UNIQUE, c INT{key})"
                )
            replaces = self._of("", "OR REPLACE ") if self._mariadb else ""
            return f"CREATE {replaces}TABLE {table} ({columns}{key}) {self._of('', 'CHARSET latin1')}"
        if drawn < 0.11:
            return f"DROP TABLE {table}, missing"
        if drawn < 0.14:
            return f"CREATE TABLE {table} LIKE {'t' if table == 'u' else 'u'}"
        if drawn < 0.2:
            return f"CREATE {self._of('', 'UNIQUE ')}INDEX {self._if('NOT ')}{self._key()} ON {table} ({self._parts()})"
        if drawn < 0.24:
            return f"DROP INDEX {self._if()}{self._key()} ON {table}"
        parts = [part for _ in range(self._of(1, 1, 1, 2, 2, 3)) for part in self._alteration()]
        self._random.shuffle(parts)
        how = self._of("", "", "IGNORE ", "ONLINE ") if self._mariadb else ""
        return f"ALTER {how}TABLE {table} {', '.join(parts)}"

    def _alteration(self) -> tuple[str, ...]:
        """Parts that belong together: names are exchanged, dropped and added again."""
        one, two, three = (self._column() for _ in range(3))
        key, other, parts = self._key(), self._key(), self._parts()
        return self._of(
            (f"ADD {self._if('NOT ')}{one} {self._definition()} {self._position()}",),
            (f"ADD COLUMN {self._if('NOT ')}({one} {self._definition()}, {two} {self._of(*_TYPES)})",),
            (f"DROP COLUMN {self._if()}{one}",),
            (f"MODIFY {self._if()}{one} {self._definition()} {self._position()}",),
            (f"CHANGE {self._if()}{one} {two} {self._definition()} {self._position()}",),
            (f"RENAME COLUMN {self._if()}{one} TO {two}",),
            (f"RENAME COLUMN {one} TO {two}", f"RENAME COLUMN {two} TO {self._of(one, three)}"),
            (f"CHANGE {one} {two} {self._of(*_TYPES)}", f"CHANGE {two} {self._of(one, three)} {self._definition()}"),
            (f"DROP {one}", f"ADD {self._if('NOT ')}{one} {self._definition()} {self._position()}"),
            (f"RENAME COLUMN {one} TO {two}", f"ADD {one} {self._definition()} {self._position()}"),
            self._added_and_changed(one, two),
            (f"ADD {self._of('INDEX', 'UNIQUE', 'UNIQUE KEY')} {self._if('NOT ')}{key} ({parts})",),
            (f"ADD CONSTRAINT {self._of('', key)} {self._of('UNIQUE', 'PRIMARY KEY')} ({parts})",),
            (f"ADD UNIQUE ({parts})",),
            (f"ADD {self._table_key()}",),
            (f"ADD {self._table_key()}", f"ADD {self._table_key()}"),
            (f"ADD {self._foreign_key()}",),
            (f"DROP FOREIGN KEY {self._if()}{key}",),
            ("DROP PRIMARY KEY", f"ADD PRIMARY KEY ({parts})"),
            ("DROP PRIMARY KEY",),
            (f"DROP INDEX {self._if()}{self._of(key, one)}",),
            (f"DROP CONSTRAINT {self._if()}{self._of(key, one, '`PRIMARY`')}",),
            (f"DROP INDEX {key}", f"ADD {self._of('INDEX', 'UNIQUE')} {key} ({parts})"),
            (f"RENAME INDEX {self._of(key, one)} TO {other}",),
            (f"RENAME INDEX {key} TO {other}", f"RENAME INDEX {other} TO {key}"),
            (f"ALTER {one} {self._of('SET DEFAULT 1', 'DROP DEFAULT', 'SET DEFAULT NULL')}",),
            (f"ADD {one} INT AS (1) {self._of('VIRTUAL', 'STORED')} {self._of('', 'UNIQUE')}",),
            (self._of(*_OPTIONS),),
        )

    def _added_and_changed(self, one: str, two: str) -> tuple[str, ...]:
        """A column that MariaDB changes in the statement that adds it."""
        added = f"ADD {self._if('NOT ')}{one} {self._definition()} {self._position()}"
        changed = self._of(f"MODIFY {self._if()}{one}", f"CHANGE {self._if()}{self._of(one, two)} {one}")
        others = self._of((), (), (f"DROP {one}",), (f"ALTER {one} SET DEFAULT 1",))
        return (added, f"{changed} {self._definition()} {self._position()}", *others)

    def _of(self, *choices: T) -> T:
        return self._random.choice(choices)

    def _column(self) -> str:
        return self._of(*_COLUMNS)

    def _key(self) -> str:
        return self._of(*_KEYS)

    def _parts(self) -> str:
        names = self._random.sample(_COLUMNS, self._of(1, 1, 2))
        return ", ".join(f"{name}{self._of('', '', ' DESC', '(2)')}" for name in names)

    def _definition(self) -> str:
        return f"{self._of(*_TYPES)} {self._of(*_ATTRIBUTES)}"

    def _position(self) -> str:
        return self._of("", "", "FIRST", f"AFTER {self._column()}")

    def _table_key(self) -> str:
        name = self._of("", "", self._key(), self._column())
        return self._of(
            f"KEY {name} ({self._parts()})",
            f"UNIQUE {name} ({self._parts()})",
            f"UNIQUE ({self._parts()})",
            self._foreign_key(),
        )

    def _foreign_key(self) -> str:
        columns = ", ".join(self._random.sample(_COLUMNS, self._of(1, 1, 2)))
        named = self._of("", "", f"CONSTRAINT {self._of(self._key(), self._column())} ")
        others = "x" if ", " not in columns else "x, y"
        return f"{named}FOREIGN KEY {self._of('', '', self._key())} ({columns}) REFERENCES parent ({others})"

    def _if(self, negation: str = "") -> str:
        return self._of("", "", f"IF {negation}EXISTS ") if self._mariadb else ""


def shape(table: Table) -> tuple[list[object], list[object]]:
    """The columns in order and the keys; what the rows' table map settles, kinds and charsets of text, is left
    out.
    """
    columns: list[object] = []
    for column in table.columns:
        kind = column.type
        name = "text" if kind.name.endswith("text") else kind.name
        size = None if name in ("text", "enum", "set") else (kind.length, kind.decimal)
        members = [one.strip() for one in kind.elements]
        columns.append((column.name, name, size, kind.unsigned, members, column.nullable, column.virtual))
    keys = sorted(
        ("" if one.primary else one.name.lower(), one.unique, one.columns, _cut(one, table), one.nullable)
        for one in table.indexes
    )
    return columns, [*keys]


def _cut(index: Index, table: Table) -> list[str]:
    """The columns of which it has only a beginning. Of TEXT and BLOB it always has."""
    kinds = {column.name: column.type.name for column in table.columns}
    cut = [name for name, prefix in zip(index.columns, index.prefixes, strict=bool(index.prefixes)) if prefix]
    return [name for name in cut if not kinds[name].endswith(("text", "blob"))]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 4))])
def test_random_alters_are_followed(server: Server, seed: int) -> None:
    mariadb = "MariaDB" in str(server.execute("SELECT VERSION()")[0][0])
    random = Random(seed)
    statements = Statements(random, mariadb=mariadb)
    connection = pymysql.connect(
        host="127.0.0.1", port=server.port, user="root", charset="utf8mb4", autocommit=True, database="d"
    )
    with connection, connection.cursor() as cursor:
        for _ in range(25 if seed == 1 else 200):
            cursor.execute(f"SET sql_mode = '{random.choice(('', 'STRICT_ALL_TABLES'))}'")
            cursor.execute("SET foreign_key_checks = 0")
            cursor.execute("DROP TABLE IF EXISTS t, u")
            cursor.execute(
                "CREATE TABLE t (a INT, b INT NOT NULL, c VARCHAR(20) NOT NULL, g DATE, UNIQUE (b), UNIQUE k1 (c), "
                "KEY k2 (a, b))"
            )
            cursor.execute("CREATE TABLE u (a INT PRIMARY KEY, D INT NOT NULL UNIQUE, `e f` INT UNIQUE)")
            state = BinlogCapture(server.uri).begin()
            done = run_drawn(cursor, statements.draw, 4)
            state = followed(server, state)
            there = BinlogCapture(server.uri).begin()
            known = {(table.schema, table.name): shape(table) for table in state.tables}
            assert known == {(table.schema, table.name): shape(table) for table in there.tables}, done


KEYS = {
    "a key of a column before another": ("CREATE TABLE t (a INT UNIQUE, b INT, UNIQUE (a, b))", "DROP INDEX a_2 ON t"),
    "a key of a column behind another": ("CREATE TABLE t (UNIQUE (a, b), a INT UNIQUE, b INT)", "DROP INDEX a_2 ON t"),
    "keys that an ALTER adds": (
        "CREATE TABLE t (a INT, b INT)",
        "ALTER TABLE t ADD UNIQUE (a, b), ADD c INT UNIQUE, ADD UNIQUE (c, a), ADD UNIQUE (a)",
        "ALTER TABLE t DROP INDEX a, DROP INDEX c_2",
    ),
    "a foreign key takes a name": (
        "CREATE TABLE t (a INT, b INT, CONSTRAINT b FOREIGN KEY (a) REFERENCES p (x), UNIQUE (b))",
        "ALTER TABLE t DROP INDEX b_2, DROP FOREIGN KEY b",
    ),
    "a key takes the place of a foreign key's": (
        "CREATE TABLE t (a INT, b INT, FOREIGN KEY (a) REFERENCES p (x))",
        "ALTER TABLE t ADD UNIQUE (a, b), ADD UNIQUE (a)",
        "ALTER TABLE t DROP INDEX a",
    ),
    "a longer key takes the place of a named foreign key's": (
        "CREATE TABLE t (a INT, b INT, CONSTRAINT b FOREIGN KEY (a) REFERENCES p (x))",
        "ALTER TABLE t ADD UNIQUE (b), ADD UNIQUE (a, b)",
        "ALTER TABLE t ADD UNIQUE (b, a)",
        "ALTER TABLE t DROP INDEX b",
    ),
    "a foreign key and a unique key of one name": (
        "CREATE TABLE t (a INT, b INT, KEY k (a), UNIQUE x (b), CONSTRAINT x FOREIGN KEY (a) REFERENCES p (x))",
        "ALTER TABLE t DROP FOREIGN KEY x",
    ),
}


@pytest.mark.parametrize("case", KEYS)
def test_keys_have_the_names_of_the_server_also_for_readers(server: Server, case: str) -> None:
    """Readers of the messages follow the SQL as that of TiDB."""
    server.execute("DROP TABLE IF EXISTS d.t")
    state = BinlogCapture(server.uri).begin()
    server.execute("USE d", "SET foreign_key_checks = 0", *KEYS[case])
    readers: dict[TableName, Table] = {}
    for one in captured(server, state):
        state = follow(state, one)
        for change in one.changes if isinstance(one, CapturedDdl) else ():
            readers = fold(readers, apply_ddl(readers, change.schema, change.query))
    there = {table.full_name: table for table in BinlogCapture(server.uri).begin().tables}
    known = {table.full_name: table for table in state.tables}
    assert shape(known["d", "t"]) == shape(there["d", "t"])
    unique = [
        sorted((one.name, one.columns) for one in table["d", "t"].indexes if one.unique) for table in (readers, there)
    ]
    assert unique[0] == unique[1]


@pytest.mark.mariadb
def test_a_dropped_constraint_is_the_foreign_key_of_that_name(server: Server) -> None:
    server.execute(
        "DROP TABLE IF EXISTS d.t",
        "SET foreign_key_checks = 0",
        "CREATE TABLE d.t (a INT, b INT, KEY k (a), UNIQUE x (b), CONSTRAINT x FOREIGN KEY (a) REFERENCES d.p (x))",
    )
    state = BinlogCapture(server.uri).begin()
    server.execute("ALTER TABLE d.t DROP CONSTRAINT x")
    state = followed(server, state)
    (table,) = [one for one in state.tables if one.full_name == ("d", "t")]
    assert {index.name for index in table.indexes} == {"k", "x"}


@pytest.mark.parametrize("default", ["X'31'", "0x31", "X'2D35'", "b'110001'"])
def test_readers_know_a_hexadecimal_default_of_a_number(server: Server, default: str) -> None:
    """MariaDB takes X'31' for '1', and MySQL and TiDB take it for 49."""
    server.execute("DROP TABLE IF EXISTS d.t", "CREATE TABLE d.t (a INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    state = BinlogCapture(server.uri).begin()
    server.execute(f"ALTER TABLE d.t ADD b BIGINT DEFAULT {default}")
    (value,) = server.execute("SELECT b FROM d.t")[0]
    (ddl,) = [one for one in captured(server, state) if isinstance(one, CapturedDdl)]
    readers = {table.full_name: table for table in state.tables}
    (altered,) = apply_ddl(readers, "d", ddl.changes[0].query).altered
    assert altered.after.columns[-1].default == str(value)
    assert computed_columns(ddl.changes[0].query) == ()
