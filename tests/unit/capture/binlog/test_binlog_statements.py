"""Statements of the binlog: what the server executed of their text, and what of it is followed."""

from __future__ import annotations

import pytest

from ticdc_spark.capture.binlog.server import Facts
from ticdc_spark.capture.binlog.sql_text import executed, is_control, is_dml, plain_sql, words
from ticdc_spark.capture.binlog.statements import Step, Unfollowed, check_letters, follow_ddl
from ticdc_spark.capture.binlog.values.charsets import Charsets
from ticdc_spark.capture.binlog.wire.events import NO_BACKSLASH_ESCAPES, Query
from ticdc_spark.ddl import NameCase, computed_columns, parse_create
from ticdc_spark.model import Table, TableName

EXECUTED = {
    "SET STATEMENT": ("SET STATEMENT lock_wait_timeout=5 FOR TRUNCATE TABLE d.t", "TRUNCATE TABLE d.t"),
    "values": (
        "/* a */ set statement a='it''s for', b=\"\\\" for \", c=(SELECT 1 FOR UPDATE) /* for */ FOR DROP TABLE `for`",
        "DROP TABLE `for`",
    ),
    "two of them": ("SET STATEMENT a=1 FOR SET STATEMENT b=2 FOR ALTER TABLE t FORCE", "ALTER TABLE t FORCE"),
    "SET alone": ("SET statement_x = 'a FOR b'", "SET statement_x = 'a FOR b'"),
    "MariaDB's comment": ("/*M!100301 TRUNCATE TABLE d.t */", "TRUNCATE TABLE d.t"),
    "without a version": ("CREATE TABLE t (id INT /*M! , x INT */, y INT)", "CREATE TABLE t (id INT , x INT , y INT)"),
    "in a comment": ("/*M! SET STATEMENT a=1 FOR DROP TABLE t */", "DROP TABLE t"),
    "beside others": ("/*!40000 DROP */ /*M! TABLE */ t /* 'M! */", "/*!40000 DROP */ TABLE t /* 'M! */"),
    "in a text": (
        "ALTER TABLE t COMMENT '/*M! x */ \\'' /*M! , ADD x INT */",
        "ALTER TABLE t COMMENT '/*M! x */ \\'' , ADD x INT",
    ),
    "another comment": ("/* M! it's */ DROP TABLE t", "/* M! it's */ DROP TABLE t"),
}


@pytest.mark.parametrize("case", EXECUTED)
def test_what_mariadb_executed_of_a_statement(case: str) -> None:
    sql, wanted = EXECUTED[case]
    assert " ".join(executed(sql, 0, mariadb=True).split()) == wanted


def test_backslashes_and_other_servers_when_a_prefix_is_looked_for() -> None:
    sql = "SET STATEMENT a = 'x\\', b = 1 FOR DROP TABLE t"
    assert executed(sql, NO_BACKSLASH_ESCAPES, mariadb=True) == "DROP TABLE t"
    for mysql in ("/*M!100301 TRUNCATE TABLE d.t */", "SET STATEMENT a = 1 FOR DROP TABLE t"):
        assert executed(mysql, 0, mariadb=False) == mysql
    assert plain_sql('/*M! it\'s */ "a"', 0) == "/*M! it's */ 'a'"


def test_what_only_a_replica_of_mysql_understands_is_left_out() -> None:
    made = "CREATE TABLE `c` (\n  `id` int COMMENT 'a) START TRANSACTION'\n){} COMMENT='it''s ) START TRANSACTION'"
    for mode in (0, NO_BACKSLASH_ESCAPES):
        assert executed(made.format(" START TRANSACTION"), mode, mariadb=False) == made.format("")
    assert executed("CREATE TABLE `c` (`id` int) START TRANSACTION", 0, mariadb=False) == "CREATE TABLE `c` (`id` int)"
    procedure = "CREATE PROCEDURE p(a INT) START TRANSACTION"
    assert executed(procedure, 0, mariadb=False) == procedure


def test_a_statement_behind_a_prefix_is_known_for_what_it_is() -> None:
    update = executed("SET STATEMENT binlog_format = 'STATEMENT' FOR UPDATE t SET a = 1", 0, mariadb=True)
    assert is_dml(update) and not is_control(update)
    assert words(executed("SET STATEMENT x=1 FOR XA COMMIT 'a'", 0, mariadb=True)) == "xa commit 'a'"


TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, w INT, UNIQUE u (v), KEY k (w), CONSTRAINT c CHECK (w > 0))"
)
WHOLE = ("PRIMARY id", "k w", "u v")
KEYS = {
    "ALTER ONLINE TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v)": ("PRIMARY v", "k w", "u v"),
    "ALTER ONLINE IGNORE TABLE IF EXISTS t NOWAIT DROP INDEX u": ("PRIMARY id", "k w"),
    "ALTER TABLE t DROP CONSTRAINT u": ("PRIMARY id", "k w"),
    "ALTER TABLE t DROP CONSTRAINT IF EXISTS `PRIMARY`": ("k w", "u v"),
    "ALTER TABLE t DROP CONSTRAINT c": WHOLE,
    "ALTER TABLE t ORDER BY v, w, DROP INDEX u": ("PRIMARY id", "k w"),
    "ALTER TABLE t DROP CONSTRAINT k": WHOLE,
    "CREATE OR REPLACE UNIQUE INDEX u ON t (w)": ("PRIMARY id", "k w", "u w"),
    "CREATE UNIQUE INDEX IF NOT EXISTS u ON t (w)": WHOLE,
    "CREATE UNIQUE INDEX IF NOT EXISTS n ON t (w)": (*WHOLE[:1], "k w", "n w", "u v"),
    "ALTER TABLE t ADD UNIQUE IF NOT EXISTS u (w)": WHOLE,
    "ALTER TABLE t ADD CONSTRAINT IF NOT EXISTS u UNIQUE (w)": WHOLE,
    "ALTER TABLE t ADD PRIMARY KEY IF NOT EXISTS (v)": WHOLE,
    "ALTER TABLE t ADD s BIGINT SERIAL DEFAULT VALUE": ("PRIMARY id", "k w", "s s", "u v"),
    "ALTER TABLE t ADD `primary` INT, ADD UNIQUE (`primary`)": ("PRIMARY id", "k w", "primary_2 primary", "u v"),
    "ALTER TABLE t WAIT 5 RENAME INDEX IF EXISTS u TO z": ("PRIMARY id", "k w", "z v"),
    "ALTER TABLE t RENAME COLUMN IF EXISTS v TO x, ALTER COLUMN IF EXISTS no SET DEFAULT 5": (
        "PRIMARY id",
        "k w",
        "u x",
    ),
    "ALTER TABLE t ALTER COLUMN w SET INVISIBLE, ALTER INDEX k NOT IGNORED": WHOLE,
    "ALTER TABLE t ADD CONSTRAINT IF NOT EXISTS f FOREIGN KEY (w) REFERENCES p (id)": WHOLE,
}


def _known() -> dict[TableName, Table]:
    return {("d", name): parse_create(TABLE.replace("t (", f"{name} (", 1), "d") for name in ("t", "o")}


def _followed(sql: str, names: NameCase = "folded", session: str = "d") -> Step:
    query = Query(schema=session, sql=sql.encode(), sql_mode=0, charset=None, database_charset=None)
    facts = Facts(True, "11.4.5-MariaDB", "7", True, Charsets({}, lambda _: ""), names)
    return follow_ddl(1, _known(), query, sql, charsets={}, facts=facts)


@pytest.mark.parametrize("sql", KEYS)
def test_keys_after(sql: str) -> None:
    indexes = _followed(sql).tables["d", "t"].indexes
    names = ["PRIMARY" if index.primary else index.name for index in indexes]
    found = zip(names, indexes, strict=True)
    assert tuple(sorted(f"{name} {','.join(index.columns)}" for name, index in found)) == KEYS[sql]
    assert all(index.unique == (index.name != "k") for index in indexes)


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("RENAME TABLE IF EXISTS t WAIT 5 TO a, o NOWAIT TO b", {"a", "b"}),
        ("DROP TABLE IF EXISTS t WAIT 5", {"o"}),
        ("CREATE TABLE n (id INT PRIMARY KEY, s DATE, e DATE, PERIOD FOR p (s, e))", {"t", "o", "n"}),
    ],
)
def test_tables_after(sql: str, names: set[str]) -> None:
    assert {name for _, name in _followed(sql).tables} == names


def test_an_exchange_of_a_partition_is_one_change() -> None:
    """As TiCDC's Simple has it: the plain table before it, and the partitioned one after it."""
    (change,) = _followed("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE o").changes
    assert (change.name, change.table, change.pre_table) == ("t", _known()["d", "t"], _known()["d", "o"])


@pytest.mark.parametrize(
    ("sql", "database"),
    [
        ("ALTER TABLE d.t ADD x INT", "d"),
        ("DROP TABLE d.t", "d"),
        ("CREATE TABLE d.n (id INT PRIMARY KEY)", "d"),
        ("CREATE TABLE d.n LIKE d.t", "d"),
        ("ALTER TABLE d.t ADD FOREIGN KEY (w) REFERENCES p (id)", "other"),
        ("RENAME TABLE d.t TO u", "other"),
    ],
)
def test_a_ddl_has_the_database_of_its_table_unless_a_name_needs_that_of_the_session(sql: str, database: str) -> None:
    (change,) = _followed(sql, session="other").changes
    assert change.schema == database


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t CONVERT PARTITION p TO TABLE q",
        "ALTER TABLE t CONVERT TABLE q TO PARTITION p VALUES LESS THAN (5)",
        "ALTER TABLE t FROBNICATE COLUMN w",
        "ALTER TABLE t ADD SYSTEM VERSIONING",
        "ALTER TABLE t DROP SYSTEM VERSIONING",
        "FROBNICATE TABLE t",
        "CREATE WIDGET t",
    ],
)
def test_what_is_not_known_is_not_passed_over(sql: str) -> None:
    with pytest.raises(Unfollowed, match="does to tables is not known"):
        _followed(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "GRANT SELECT ON *.* TO u",
        "CREATE OR REPLACE ALGORITHM=MERGE VIEW w AS SELECT 1",
        "CREATE DEFINER=`root`@`%` TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET NEW.w = 1",
        "DROP PACKAGE BODY p",
        "RENAME USER a TO b",
        "ALTER SEQUENCE s RESTART 5",
        "ANALYZE TABLE t",
        "CREATE SPATIAL REFERENCE SYSTEM 4120 NAME 'x' DEFINITION 'y'",
        "ALTER TABLE t ENGINE=InnoDB, FORCE, COMMENT 'x', ORDER BY w, LOCK=NONE, DISABLE KEYS, STATS_PERSISTENT=1",
        "ALTER TABLE t ADD PERIOD FOR p (w, v)",
        "ALTER TABLE t ORDER BY v, w DESC",
        "ALTER TABLE t TABLE_TYPE='CSV', `FILE_NAME` = 'x'",
        "ALTER TABLE t REBUILD PARTITION p0, p1",
    ],
)
def test_what_changes_no_table_is_passed_over(sql: str) -> None:
    assert _followed(sql).tables == _known()


@pytest.mark.parametrize(
    ("sql", "exact", "lower", "folded"),
    [
        ("DROP TABLE IF EXISTS d.T", "o t", "o", "o"),
        ("DROP DATABASE D", "o t", "", ""),
        ("CREATE TABLE IF NOT EXISTS d.T (id INT PRIMARY KEY)", "T o t", "o t", "o t"),
        ("CREATE TABLE MyTab (id INT PRIMARY KEY)", "MyTab o t", "mytab o t", "MyTab o t"),
        ("RENAME TABLE t TO d.New", "New o", "new o", "New o"),
        ("ALTER TABLE t RENAME TO New", "New o", "new o", "New o"),
    ],
)
def test_names_compare_as_the_server_compares_them(sql: str, exact: str, lower: str, folded: str) -> None:
    def tables(names: NameCase) -> str:
        return " ".join(sorted(name for _, name in _followed(sql, names).tables))

    assert (tables("exact"), tables("lower"), tables("folded")) == (exact, lower, folded)


def test_an_alter_of_a_name_in_other_letters_is_of_another_table() -> None:
    with pytest.raises(Unfollowed, match=r"`d`\.`T` is not known"):
        _followed("ALTER TABLE T ADD x INT", "exact")
    assert _followed("ALTER TABLE T COMMENT 'x'", "lower").changes


def _everything(schema: str, name: str) -> bool:
    return True


@pytest.mark.parametrize("sql", ["DROP DATABASE D", "CREATE TABLE T (id INT PRIMARY KEY)", "RENAME TABLE o TO T"])
def test_names_that_readers_take_for_one_are_not_followed(sql: str) -> None:
    step = _followed(sql, "exact")
    with pytest.raises(Unfollowed, match=r"readers take `d`.`[ot]`, which is captured, for the same"):
        check_letters(step, _known(), _everything, "exact")
    check_letters(step, _known(), lambda schema, name: name == "T", "exact")
    check_letters(_followed("RENAME TABLE t TO T", "exact"), _known(), _everything, "exact")
    check_letters(_followed("DROP DATABASE d", "exact"), _known(), _everything, "exact")


@pytest.mark.parametrize(
    ("definition", "default", "computed"),
    [
        ("VARCHAR(36) DEFAULT uuid()", "uuid()", True),
        ("VARCHAR(36) DEFAULT (concat('a', 'b'))", "concat('a', 'b')", True),
        ("VARCHAR(99) DEFAULT CURRENT_USER", "CURRENT_USER", True),
        ("VARCHAR(9) DEFAULT 'uuid()'", "uuid()", False),
        ("VARCHAR(9) DEFAULT 'a' 'b'", "ab", False),
        ("INT DEFAULT TRUE", "1", False),
        ("DATETIME DEFAULT NOW()", "CURRENT_TIMESTAMP", False),
        ("DATE DEFAULT (CURRENT_DATE)", "CURRENT_DATE", False),
        ("TIMESTAMP NULL ON UPDATE CURRENT_TIMESTAMP", None, False),
    ],
)
def test_defaults_that_the_server_computes(definition: str, default: str | None, computed: bool) -> None:
    sql = f"ALTER TABLE t ADD x {definition}"
    assert _followed(sql).tables["d", "t"].columns[-1].default == default
    assert computed_columns(sql) == ("x",) * computed


def test_columns_whose_values_only_the_server_knows() -> None:
    assert computed_columns("ALTER TABLE t ADD a INT AUTO_INCREMENT UNIQUE, ADD b INT DEFAULT 5") == ("a",)
    assert computed_columns("ALTER TABLE t ADD a INT DEFAULT (1 + 1), ADD b SERIAL") == ("a", "b")
    assert computed_columns("CREATE TABLE t (a INT AUTO_INCREMENT KEY)") == computed_columns("nothing ( that is") == ()


def test_types_as_servers_take_them() -> None:
    members = "ENUM('a', -- first\n x'6263' /* second */, 'd')"
    table = parse_create(
        f"CREATE TABLE t (a DECIMAL(0), b NUMERIC(0,0), c {members}, d ENUM('a,', ')'))", "d", "escape"
    )
    kinds = [column.type for column in table.columns]
    assert [(kind.length, kind.decimal) for kind in kinds[:2]] == [(10, 0), (10, 0)]
    assert [kind.elements for kind in kinds[2:]] == [("a", "bc", "d"), ("a,", ")")]


@pytest.mark.parametrize(
    ("sql", "sent"),
    [
        (
            "CREATE TABLE n (a INT UNIQUE, b INT, UNIQUE (a, b))",
            "CREATE TABLE n (a INT UNIQUE, b INT, UNIQUE `a_2` (a, b))",
        ),
        ("ALTER TABLE t ADD x INT DEFAULT X'31', ADD KEY (v)", "ALTER TABLE t ADD x INT DEFAULT '1', ADD KEY `v` (v)"),
        ("ALTER TABLE t ADD KEY n (v)", "ALTER TABLE t ADD KEY n (v)"),
    ],
)
def test_sql_that_tidb_reads_otherwise_is_sent_as_the_server_read_it(sql: str, sent: str) -> None:
    (change,) = _followed(sql).changes
    assert change.query == sent
