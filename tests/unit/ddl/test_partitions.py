"""The partitions of a table, as its DDL spells them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.partitions import (
    change_partitions,
    is_truncate_of_all,
    parse_partitioning,
    partitions_named,
    partitions_of_sql,
)
from ticdc_spark.ddl.statements import AlterTable, CreateTable, MoveRows
from ticdc_spark.model import Partition, Partitioning


def of(sql: str) -> Partitioning | None:
    statement = parse(sql)
    assert isinstance(statement, CreateTable)
    return parse_partitioning(statement.partition_by) if statement.partition_by else None


def shown(found: Partitioning | None) -> Any:
    """(kind, function and columns, names and values) of a partitioning."""
    if found is None:
        return None
    by = f"{found.function}({', '.join(found.columns)})"
    return (
        found.kind,
        by,
        {one.name: [*one.values, *(["default"] if one.default else [])] for one in found.partitions},
    )


PRINTED = (
    "/*!50100 PARTITION BY RANGE (`t`.`id`) (PARTITION p0 VALUES LESS THAN (10) ENGINE = InnoDB COMMENT 'a,)', "
    "PARTITION p1 VALUES LESS THAN (20) /*T![placement] PLACEMENT POLICY=`x` */) */"
)
SUBPARTITIONED = (
    "RANGE (id) PARTITIONS 2 SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (10) "
    "(SUBPARTITION a, SUBPARTITION b), PARTITION p1 VALUES LESS THAN (20))"
)
RANGE = ("range", "(id)", {"p0": [(10,)], "p1": [(20,)]})


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))", RANGE),
        ("range(`id`)\n(partition `p0` values less than (10) ,partition `p1` values less than (+20));", RANGE),
        (PRINTED, RANGE),
        (SUBPARTITIONED, RANGE),
        ("RANGE (id) (PARTITION p VALUES LESS THAN MAXVALUE)", ("range", "(id)", {"p": [(None,)]})),
        ("RANGE (id) (PARTITION p VALUES LESS THAN (MAXVALUE))", ("range", "(id)", {"p": [(None,)]})),
        (
            "RANGE (id) (PARTITION `P_NULL` VALUES LESS THAN (-9223372036854775808))",
            ("range", "(id)", {"P_NULL": [(-(1 << 63),)]}),
        ),
        ("RANGE (YEAR(`d`)) (PARTITION p VALUES LESS THAN (2020))", ("range", "year(d)", {"p": [(2020,)]})),
        (
            "RANGE (to_days(d)) (PARTITION p VALUES LESS THAN (TO_DAYS('2020-01-01')))",
            ("range", "to_days(d)", {"p": [(737790,)]}),
        ),
        (
            "RANGE (unix_timestamp(`d`)) (PARTITION p VALUES LESS THAN (1262304000))",
            ("range", "unix_timestamp(d)", {"p": [(1262304000,)]}),
        ),
        ("RANGE (id DIV 10) (PARTITION p VALUES LESS THAN (1))", ("range", "()", {"p": [(1,)]})),
        ("RANGE (MONTH(d)) (PARTITION p VALUES LESS THAN (1))", ("range", "()", {"p": [(1,)]})),
        (
            "RANGE COLUMNS(a,`b`) (PARTITION p VALUES LESS THAN (1, 'x'), PARTITION q VALUES LESS THAN (1, MAXVALUE))",
            ("range", "(a, b)", {"p": [(1, "x")], "q": [(1, None)]}),
        ),
        (
            "LIST (id) (PARTITION p VALUES IN (1, NULL, -3), PARTITION q DEFAULT)",
            ("list", "(id)", {"p": [(1,), (None,), (-3,)], "q": ["default"]}),
        ),
        ("LIST (id) (PARTITION p VALUES IN (1, DEFAULT))", ("list", "(id)", {"p": [(1,), "default"]})),
        (
            "RANGE (TO_DAYS(`d`)) (PARTITION p VALUES LESS THAN (YEAR(_UTF8MB4'2024-01-01')))",  # as TiCDC prints it
            ("range", "to_days(d)", {"p": [(2024,)]}),
        ),
        (
            "LIST COLUMNS(`r`) (PARTITION `pa` VALUES IN (_UTF8MB4'a', 'it''s'), PARTITION pb VALUES IN ('\\'c'))",
            ("list", "(r)", {"pa": [("a",), ("it's",)], "pb": [("'c",)]}),
        ),
        (
            "LIST COLUMNS (a, b) (PARTITION p VALUES IN ((1, 'x'), (2, NULL)))",
            ("list", "(a, b)", {"p": [(1, "x"), (2, None)]}),
        ),
        ("HASH (`id`) PARTITIONS 2", ("hash", "(id)", {"p0": [], "p1": []})),
        ("HASH (id)", ("hash", "(id)", {"p0": []})),
        ("HASH (id) (PARTITION x, PARTITION y COMMENT 'a')", ("hash", "(id)", {"x": [], "y": []})),
        ("KEY ALGORITHM = 2 (id) PARTITIONS 2", ("key", "()", {"p0": [], "p1": []})),
        ("KEY () PARTITIONS 1", ("key", "()", {"p0": []})),
        ("LINEAR HASH (id) PARTITIONS 2", None),
        ("SYSTEM_TIME (PARTITION p0 HISTORY, PARTITION pn CURRENT)", None),
        ("RANGE (id) INTERVAL (10) FIRST PARTITION LESS THAN (0) LAST PARTITION LESS THAN (90)", None),
        ("RANGE (id) (PARTITION p VALUES LESS THAN (1.5))", None),
        ("RANGE (id) (PARTITION p VALUES LESS THAN (1 + 1))", None),
        ("RANGE (id) (PARTITION p VALUES LESS THAN (1), PARTITION P VALUES LESS THAN (2))", None),
        ("RANGE COLUMNS (a, b) (PARTITION p VALUES LESS THAN (1))", None),
        ("RANGE (UNIX_TIMESTAMP(d)) (PARTITION p VALUES LESS THAN (UNIX_TIMESTAMP('2020-01-01')))", None),
        ("LIST (id) (PARTITION p)", None),
    ],
)
def test_partition_by_is_read(by: str, expected: Any) -> None:
    by = by if " PARTITION BY" in by and "SUB" not in by else f"PARTITION BY {by}"
    assert shown(of(f"CREATE TABLE t (id INT PRIMARY KEY, d DATE) ENGINE=InnoDB COMMENT 'partition by x' {by}")) == (
        expected
    )


def test_a_table_without_partitions_has_none() -> None:
    assert of("CREATE TABLE t (id INT PRIMARY KEY) COMMENT='PARTITION BY HASH (id)'") is None


ONE = "RANGE (id) (PARTITION p0 VALUES LESS THAN (10))"


@pytest.mark.parametrize(
    ("zone", "moment", "bound"),
    [
        ("UTC", "2010-01-01 00:00:00", 1262304000),
        ("Asia/Shanghai", "2010-01-01", 1262304000 - 8 * 3600),
        ("Europe/Berlin", "2024-10-27 02:30:00", None),
        (None, "2010-01-01 00:00:00", None),
    ],
)
def test_a_moment_is_one_of_the_sessions_time_zone(zone: str | None, moment: str, bound: int | None) -> None:
    by = f"RANGE (UNIX_TIMESTAMP(d)) (PARTITION p VALUES LESS THAN (UNIX_TIMESTAMP('{moment}')))"
    found = parse_partitioning(by, zone)
    assert (found and found.partitions[0].values) == (None if bound is None else ((bound,),))


@pytest.mark.parametrize(
    ("create", "known"),
    [
        ("CREATE TABLE `t` (`a` int(11) NOT NULL, PRIMARY KEY (`a`)) ENGINE=InnoDB{}", True),
        ("CREATE TABLE `t` (`a` varchar(9) COLLATE utf8mb4_bin NOT NULL, PRIMARY KEY (`a`)) ENGINE=InnoDB{}", True),
        ("CREATE TABLE `t` (`a` varchar(9) NOT NULL) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin{}", True),
        ("CREATE TABLE `t` (`a` varchar(9) NOT NULL) DEFAULT CHARSET=utf8mb4{}", False),
        ("CREATE TABLE `t` (`a` varchar(9) CHARACTER SET latin1) CHARSET=utf8mb4 COLLATE=utf8mb4_bin{}", False),
    ],
)
def test_text_has_known_partitions_where_its_collation_is_written(create: str, known: bool) -> None:
    by = "\nPARTITION BY LIST COLUMNS(`a`)\n(PARTITION `p` VALUES IN ('a'))"
    assert (partitions_of_sql(create.format(by)) is not None) == known


THREE = (
    "RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), "
    "PARTITION pm VALUES LESS THAN MAXVALUE)"
)


def altered(by: str, *sql: str) -> Any:
    found = parse_partitioning(by)
    for one in sql:
        statement = parse(f"ALTER TABLE t {one}")
        assert isinstance(statement, AlterTable)
        found = change_partitions(found, statement.parts)
    return None if found is None else {one.name: [*one.values] for one in found.partitions}


@pytest.mark.parametrize(
    ("by", "sql", "expected"),
    [
        (THREE, "DROP PARTITION p0", {"p1": [(20,)], "pm": [(None,)]}),
        (THREE, "DROP PARTITION `P0`, p1", {"pm": [(None,)]}),
        (THREE, "DROP PARTITION IF EXISTS p9, p1", {"p0": [(10,)], "pm": [(None,)]}),
        (THREE, "DROP PARTITION p9", None),
        (THREE, "DROP PARTITION p0, p1, pm", None),
        (THREE, "TRUNCATE PARTITION p0", {"p0": [(10,)], "p1": [(20,)], "pm": [(None,)]}),
        (THREE, "ADD COLUMN v INT", {"p0": [(10,)], "p1": [(20,)], "pm": [(None,)]}),
        (
            THREE,
            "REORGANIZE PARTITION pm INTO (PARTITION p2 VALUES LESS THAN (30), PARTITION pm VALUES LESS THAN MAXVALUE)",
            {"p0": [(10,)], "p1": [(20,)], "p2": [(30,)], "pm": [(None,)]},
        ),
        (
            THREE,
            "REORGANIZE PARTITION p0, p1 INTO (PARTITION a VALUES LESS THAN (20))",
            {"a": [(20,)], "pm": [(None,)]},
        ),
        (THREE, "REORGANIZE PARTITION p0, pm INTO (PARTITION a VALUES LESS THAN (20))", None),
        (THREE, "REMOVE PARTITIONING", None),
        (THREE, "PARTITION BY HASH (id) PARTITIONS 2", {"p0": [], "p1": []}),
        (THREE, "EXCHANGE PARTITION p0 WITH TABLE o", {"p0": [(10,)], "p1": [(20,)], "pm": [(None,)]}),
        (THREE, "EXCHANGE PARTITION p0 WITH TABLE o WITH VALIDATION", {"p0": [(10,)], "p1": [(20,)], "pm": [(None,)]}),
        (THREE, "EXCHANGE PARTITION p0 WITH TABLE o WITHOUT VALIDATION", None),
        (THREE, "FIRST PARTITION LESS THAN (20)", {"p1": [(20,)], "pm": [(None,)]}),
        (THREE, "FIRST PARTITION LESS THAN (15)", None),
        (THREE, "LAST PARTITION LESS THAN (40)", None),
        (ONE, "ADD PARTITION (PARTITION p1 VALUES LESS THAN (20))", {"p0": [(10,)], "p1": [(20,)]}),
        (ONE, "ADD PARTITION (PARTITION p0 VALUES LESS THAN (20))", None),
        (ONE, "ADD PARTITION IF NOT EXISTS (PARTITION p1 VALUES LESS THAN (20))", {"p0": [(10,)], "p1": [(20,)]}),
        ("HASH (id) PARTITIONS 2", "ADD PARTITION PARTITIONS 2", {"p0": [], "p1": [], "p2": [], "p3": []}),
        ("HASH (id) PARTITIONS 4", "COALESCE PARTITION 3", {"p0": []}),
        ("HASH (id) PARTITIONS 2", "DROP PARTITION p0", None),
        ("HASH (id) PARTITIONS 2", "REORGANIZE PARTITION", {"p0": [], "p1": []}),
        (
            "LIST (id) (PARTITION p VALUES IN (1))",
            "ADD PARTITION (PARTITION q VALUES IN (2, 3))",
            {"p": [(1,)], "q": [(2,), (3,)]},
        ),
    ],
)
def test_a_ddl_changes_the_partitions_or_they_are_not_known(by: str, sql: str, expected: Any) -> None:
    assert altered(by, sql) == expected


def test_what_is_not_known_stays_so_until_partition_by_names_it_anew() -> None:
    assert altered(THREE, "DROP PARTITION p9", "ADD PARTITION (PARTITION p1 VALUES LESS THAN (20))") is None
    assert altered(THREE, "DROP PARTITION p9", "PARTITION BY HASH (id)") == {"p0": []}


def test_the_partition_column_goes_by_its_new_name() -> None:
    statement = parse("ALTER TABLE t CHANGE COLUMN ID k BIGINT")
    assert isinstance(statement, AlterTable)
    found = change_partitions(parse_partitioning(THREE), statement.parts)
    assert found is not None
    assert found.columns == ("k",)


@pytest.mark.parametrize(
    ("sql", "names", "everything"),
    [
        ("TRUNCATE PARTITION p1, `P0`", ("p1", "p0"), False),
        ("TRUNCATE PARTITION ALL", ("p0", "p1", "pm"), True),
        ("DROP PARTITION p1", ("p1",), False),
        ("DROP PARTITION IF EXISTS p9", (), False),
        ("TRUNCATE PARTITION p9", None, False),
        ("FIRST PARTITION LESS THAN (20)", ("p0",), False),
        ("FIRST PARTITION LESS THAN (10)", (), False),
        ("FIRST PARTITION LESS THAN (11)", None, False),
        ("EXCHANGE PARTITION P1 WITH TABLE o", ("p1",), False),
        ("EXCHANGE PARTITION p9 WITH TABLE o", None, False),
    ],
)
def test_the_partitions_that_lose_their_rows_are_known_by_name(
    sql: str, names: tuple[str, ...] | None, everything: bool
) -> None:
    statement, known = parse(f"ALTER TABLE t {sql}"), parse_partitioning(THREE)
    assert isinstance(statement, AlterTable)
    (part,) = statement.parts
    assert isinstance(part, MoveRows)
    assert known is not None
    assert partitions_named(part, known) == names
    assert is_truncate_of_all(part) == everything


def test_partitions_are_short_in_the_state() -> None:
    assert msgspec.json.encode(Partition("p0", ((10,),))) == b'["p0",[[10]],false]'
