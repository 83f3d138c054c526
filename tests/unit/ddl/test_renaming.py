"""A statement under other names for its tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.ddl.renaming import named_in, with_table_names
from ticdc_spark.errors import MessageError
from ticdc_spark.model import TableName


def moved(name: TableName) -> TableName:
    """All tables of `shop` go to `archive`."""
    schema, table = name
    return ("archive", f"shop_{table}" if table else "") if schema == "shop" else name


def in_shop(_place: int, name: tuple[str | None, str]) -> TableName:
    return name[0] or "shop", name[1]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("CREATE TABLE t (id INT)", "CREATE TABLE `archive`.`shop_t` (id INT)"),
        ("create table if not exists `Shop`.t like shop.`u`", None),
        ("CREATE TABLE `a` LIKE other.b", "CREATE TABLE `archive`.`shop_a` LIKE `other`.`b`"),
        ("DROP TABLE IF EXISTS a, other.b CASCADE", "DROP TABLE IF EXISTS `archive`.`shop_a`, `other`.`b` CASCADE"),
        ("RENAME TABLE a TO other.a", "RENAME TABLE `archive`.`shop_a` TO `other`.`a`"),
        ("ALTER TABLE `a` RENAME AS b", "ALTER TABLE `archive`.`shop_a` RENAME AS `archive`.`shop_b`"),
        ("TRUNCATE /* all */ TABLE a;", "TRUNCATE /* all */ TABLE `archive`.`shop_a`;"),
        ("CREATE UNIQUE INDEX i ON a (b)", "CREATE UNIQUE INDEX i ON `archive`.`shop_a` (b)"),
        ("DROP INDEX i ON a", "DROP INDEX i ON `archive`.`shop_a`"),
        ("CREATE DATABASE shop CHARSET utf8", "CREATE DATABASE `archive` CHARSET utf8"),
        ("DROP DATABASE IF EXISTS `shop`", "DROP DATABASE IF EXISTS `archive`"),
        (
            "ALTER TABLE other.a ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES shop.p (id) ON DELETE CASCADE",
            (
                "ALTER TABLE `other`.`a` ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES `archive`.`shop_p` (id) "
                "ON DELETE CASCADE"
            ),
        ),
        (
            "CREATE TABLE a (b INT REFERENCES p(id), c TEXT COMMENT 'REFERENCES p', `references` INT)",
            (
                "CREATE TABLE `archive`.`shop_a` (b INT REFERENCES `archive`.`shop_p`(id), "
                "c TEXT COMMENT 'REFERENCES p', `references` INT)"
            ),
        ),
        (
            "ALTER TABLE a EXCHANGE PARTITION p0 WITH TABLE b",
            "ALTER TABLE `archive`.`shop_a` EXCHANGE PARTITION p0 WITH TABLE `archive`.`shop_b`",
        ),
        ("DROP TABLE other.a", "DROP TABLE other.a"),
    ],
)
def test_every_table_of_a_statement_gets_its_new_name_and_nothing_else_changes(sql: str, wanted: str | None) -> None:
    if wanted is None:
        wanted = "create table if not exists `Shop`.`t` like `archive`.`shop_u`"
    assert with_table_names(sql, in_shop, moved) == wanted


@pytest.mark.parametrize(
    "sql", ["CREATE VIEW v AS SELECT * FROM t", "DROP VIEW v", "CREATE TABLE a AS SELECT * FROM t"]
)
def test_a_statement_whose_tables_are_not_looked_for_is_an_error(sql: str) -> None:
    with pytest.raises(MessageError, match="does not look for the names of tables"):
        with_table_names(sql, in_shop, moved)


NAMES = st.text("ab`. é'\"(", min_size=1, max_size=6)


@given(NAMES, NAMES)
def test_any_name_can_be_the_new_one(schema: str, table: str) -> None:
    sql = with_table_names("RENAME TABLE a TO b", in_shop, lambda name: (schema, table + name[1]))
    assert [one.name for one in named_in(sql)] == [(schema, f"{table}a"), (schema, f"{table}b")]
