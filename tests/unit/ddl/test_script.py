"""The tables that a file of SQL makes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.ddl.script import tables_of_script
from ticdc_spark.errors import MessageError

USE = "USE `shop`;\n"
T = "CREATE TABLE `t` (`id` int NOT NULL, PRIMARY KEY (`id`));\n"
U = "CREATE TABLE `u` (`id` int NOT NULL, v varchar(3) DEFAULT 'x', PRIMARY KEY (`id`));\n"
BOTH = {"shop.t": ("id",), "shop.u": ("id", "v")}


def made(text: str, schema: str = "") -> dict[str, tuple[str, ...]]:
    """The columns of each table."""
    found = tables_of_script(text, schema)
    return {".".join(name): tuple(one.name for one in table.columns) for name, table in found.items()}


@pytest.mark.parametrize("between", ["; ", ";", ";\n", ";\r\n", ";;\n\n", " ; -- it's the end\n"])
def test_each_statement_counts_wherever_its_line_ends(between: str) -> None:
    statements = ["USE shop", "CREATE TABLE a (id INT PRIMARY KEY)", "SET x = ';'", "CREATE TABLE b (`x;y` INT)"]
    assert made(between.join(statements)) == {"shop.a": ("id",), "shop.b": ("x;y",)}


@pytest.mark.parametrize(
    "before",
    [
        "-- the orders; see the wiki\n",
        "/*!40101 SET NAMES utf8mb4 */;\n# don't\n",
        "/* it's */ SELECT 1;\n",
        "\ufeff",
        "mysqldump: [Warning] Couldn't read keys\n;\n",
        "SET NAMES it's bad;\n",
        "INSERT INTO `x` VALUES ('a\\');\n",
        'INSERT INTO `x` VALUES (\'a;\n\', "b\\";\n");\n',
        "SET @a := 1; SET @b = 'x';",
        "/*!40000 DROP DATABASE IF EXISTS `shop`*/;\nLOCK TABLES `t` WRITE;\n",
    ],
)
def test_nothing_before_a_statement_hides_it(before: str) -> None:
    assert made(f"{before}{USE}{T}{before.removeprefix(chr(0xFEFF))}{U}") == BOTH


@pytest.mark.parametrize(
    "body",
    [
        "BEGIN\n--no space don't\nSELECT 1;\nEND",
        "BEGIN\nDROP TABLE u;\nCREATE TABLE u (id BIGINT PRIMARY KEY, old INT);\nEND",
        "BEGIN\nSELECT 1;\nCREATE DATABASE other;\nALTER TABLE t ADD COLUMN n INT;\nUSE other;\nEND",
    ],
)
def test_what_a_routine_would_do_is_not_done(body: str) -> None:
    routine = f"DELIMITER ;;\nCREATE PROCEDURE p()\n{body};;\nDELIMITER ;\n"
    assert made(USE + routine + T + routine + U + routine) == BOTH


@pytest.mark.parametrize(
    "before",
    [
        "CREATE TABLE x (id int PRIMARY KEY COMMENT 'it's', v int);",
        "CREATE TABLE x (id int PRIMARY KEY) COMMENT='it's';",
        "CREATE VIEW v AS SELECT 'it's';",
        "CREATE USER u IDENTIFIED BY 'p\\';",
        "CREATE PROCEDURE p() BEGIN\n TRUNCATE x;\n DROP TABLE IF EXISTS t, u;\nEND;",
        "DELIMITER // -- x\nCREATE PROCEDURE p() BEGIN DROP TABLE t; END//\nDELIMITER ;",
        "DELIMITER '//'\nSELECT 1//\nDELIMITER ;",
    ],
)
def test_quotes_that_do_not_match_hide_no_later_table(before: str) -> None:
    found = made(f"{USE}{before}\n{T}{U}")
    found.pop("shop.x", None)
    assert found == BOTH


def test_a_table_between_other_delimiters_counts() -> None:
    assert made(f"{USE}DELIMITER //\nCREATE TABLE t (id INT PRIMARY KEY)//\nDELIMITER ;\n{U}") == BOTH


@pytest.mark.parametrize(
    "use", ["USE my-shop;", 'USE "my-shop"', "use `my-shop` ;", "USE my-shop\n", "USE /* x */ my-shop;"]
)
def test_use_sets_the_database(use: str) -> None:
    assert made(f"{use}\n{T}") == {"my-shop.t": ("id",)}


def test_create_database_sets_the_database() -> None:
    one = "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `{0}` /*!40100 DEFAULT CHARACTER SET latin1 */;\n\nUSE `{0}`;\n"
    assert made(one.format("a") + T + one.format("b") + T) == {"a.t": ("id",), "b.t": ("id",)}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("ALTER TABLE t ADD COLUMN n INT;", {"shop.t": ("id", "n")}),
        ("ALTER TABLE T ADD COLUMN n INT;", {"shop.t": ("id", "n")}),
        ("RENAME TABLE t TO other.v;", {"other.v": ("id",)}),
        ("CREATE TABLE v LIKE t;", {"shop.t": ("id",), "shop.v": ("id",)}),
        ("DROP TABLE IF EXISTS t; ALTER TABLE v DROP COLUMN x; RENAME TABLE v TO w;", {"shop.t": ("id",)}),
        ("RENAME TABLE t TO t_old, t_new TO t;", {"shop.t_old": ("id",)}),
        ("CREATE TABLE u (id INT); RENAME TABLE t TO v, u TO t, v TO u;", {"shop.t": ("id",), "shop.u": ("id",)}),
        ("DROP INDEX ix; CREATE TEMPORARY TABLE t (x INT); DROP TEMPORARY TABLE t;", {"shop.t": ("id",)}),
        ("ALTER TABLE t ADD INDEX (id), COMMENT 'x'; CREATE INDEX i ON t (id);", {"shop.t": ("id",)}),
        ("/*!40000 ALTER TABLE `t` DISABLE KEYS */;", {"shop.t": ("id",)}),
        ("CREATE TABLE IF NOT EXISTS t (other INT);", {"shop.t": ("other",)}),
    ],
)
def test_later_statements_change_the_tables(change: str, found: dict[str, tuple[str, ...]]) -> None:
    assert made(USE + T + change) == found


def test_a_key_that_comes_later_counts() -> None:
    found = tables_of_script("CREATE TABLE s.t (id INT NOT NULL);\nALTER TABLE s.t\n  ADD PRIMARY KEY (id);")
    assert found["s", "t"].indexes[0].primary


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("CREATE TABLE s.t (id INT PRIMARY KEY", "expected"),
        (T, "no database; write `db`.`table`, or USE db before it: CREATE TABLE `t`"),
        ("CREATE TABLE s.t AS SELECT 1", "CREATE TABLE s.t AS"),
        ("CREATE TABLE s.t (id INT)\nCREATE TABLE s.u (id INT);", "';' before the next statement"),
        ("RENAME TABLE s.t TO s.v\nCREATE TABLE s.u (id INT);", "';' before the next"),
        ("CREATE DATABASE s\nCREATE TABLE s.u (id INT);", "';' before the next"),
        ("CREATE TABLE s.t (id INT) PARTITION BY HASH (id) PARTITIONS 4\nCREATE TABLE s.u (id INT);", "';' before"),
        (f"{USE}CREATE TABLE x (id int PRIMARY KEY, p text DEFAULT 'C:\\');\n{U}", "expected"),
        (f"{USE}{T}ALTER TABLE t DROP COLUMN nope;", "nope"),
        ("CREATE TABLE s.t (id INT); CREATE TABLE S.T (id INT);", "differ only in upper and lower case"),
        ("CREATE TABLE s.v LIKE s.t", "its model is not known"),
    ],
)
def test_what_cannot_be_followed_is_named(text: str, why: str) -> None:
    with pytest.raises(MessageError) as error:
        made(text)
    assert why in str(error.value)


@given(st.text(alphabet="abcreatetableuse dropdelimiter;'\"`\\-/*!()\n\r#", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(MessageError):
        made(text, "s")


def test_a_large_insert_is_passed_over() -> None:
    rows = ",".join(["(1,'it''s; a \\'text\\'')"] * 200_000)
    assert made(f"{USE}{T}INSERT INTO `t` VALUES {rows};\n{U}") == BOTH
