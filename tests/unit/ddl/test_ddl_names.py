"""Which tables a DDL names, and which columns it renames."""

import pytest

from ticdc_spark.ddl import column_renames, ddl_tables
from ticdc_spark.errors import MessageError


@pytest.mark.parametrize(
    ("sql", "before", "after"),
    [
        ("CREATE TABLE `t` (`id` INT PRIMARY KEY)", [], ["d.t"]),
        ("CREATE TABLE IF NOT EXISTS x.t LIKE y", [], ["x.t"]),
        ("DROP TABLE `d1`.`a`, b", ["d1.a", "d.b"], []),
        ("TRUNCATE `t`", ["d.t"], ["d.t"]),
        ("RENAME TABLE `a` TO `e`.`b`, c TO d;", ["d.a", "d.c"], ["e.b", "d.d"]),
        ("ALTER TABLE `ddl2`.`a` RENAME AS `ddl1`.`b`", ["ddl2.a"], ["ddl1.b"]),
        ("ALTER TABLE a ADD COLUMN c INT, RENAME TO b", ["d.a"], ["d.b"]),
        ("ALTER TABLE `p` EXCHANGE PARTITION `p0` WITH TABLE e.x WITHOUT VALIDATION", ["d.p", "e.x"], ["d.p", "e.x"]),
        ("RECOVER TABLE `t`", [], ["d.t"]),
        ("FLASHBACK TABLE `t` TO `u`", [], ["d.u"]),
        ("CREATE UNIQUE INDEX `i` ON `t` (`a`)", ["d.t"], ["d.t"]),
        ("DROP DATABASE x", [], []),
        ("CREATE OR REPLACE ALGORITHM = UNDEFINED VIEW `v` AS SELECT `id` FROM `a`", [], []),
    ],
)
def test_tables_before_and_after(sql: str, before: list[str], after: list[str]) -> None:
    olds, news = ddl_tables(sql, "d")
    assert [".".join(name) for name in olds] == before
    assert [".".join(name) for name in news] == after


@pytest.mark.parametrize(
    ("sql", "renames"),
    [
        ("ALTER TABLE `a` RENAME COLUMN `m2` TO `m3`, RENAME COLUMN x TO `y z`", {"m2": "m3", "x": "y z"}),
        ("ALTER TABLE `a` CHANGE COLUMN `m1` `m2` BIGINT NULL DEFAULT 6 AFTER `c`", {"m1": "m2"}),
        ("ALTER TABLE `a` CHANGE `m1` `m1` BIGINT", {}),
        ("ALTER TABLE `a` MODIFY `m1` ENUM('a,b','c\\') NOT NULL, CHANGE `x``y` `z` INT", {"x`y": "z"}),
        ("ALTER TABLE `a` DROP COLUMN `m1`, ADD COLUMN `m2` INT COMMENT 'RENAME COLUMN a TO b'", {}),
        ("RENAME TABLE a TO b", {}),
    ],
)
def test_column_renames(sql: str, renames: dict[str, str]) -> None:
    assert column_renames(sql) == renames


def test_broken_sql_is_a_message_error() -> None:
    with pytest.raises(MessageError, match="expected TO, found 'b'"):
        ddl_tables("RENAME TABLE a b", "d")
