"""Physical ids beside the partitions in which their rows lie, as Arrow computes them."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from tests.support.partitions import placed, table
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.decode.places import Placing
from ticdc_spark.spark.types import LakeOptions, lake_columns, to_arrow

LESS = "VALUES LESS THAN"


@pytest.mark.parametrize(
    ("columns", "by", "values"),
    [
        (
            "a INT PRIMARY KEY",
            f"RANGE (a) (PARTITION x {LESS} (0), PARTITION y {LESS} (5), PARTITION z {LESS} MAXVALUE)",
            [str(number) for number in range(-9, 9)],
        ),
        ("a BIGINT PRIMARY KEY", "HASH (a) PARTITIONS 3", [str(number) for number in (-(1 << 63), -4, -3, 0, 1, 7)]),
        ("a INT", "LIST (a) (PARTITION x VALUES IN (1, NULL), PARTITION y DEFAULT)", ["1", None, "2", "3"]),
        (
            "a BIGINT UNSIGNED PRIMARY KEY",
            f"RANGE (a) (PARTITION x {LESS} (9223372036854775808), PARTITION y {LESS} MAXVALUE)",
            ["9223372036854775807", "9223372036854775808", "18446744073709551615"],
        ),
        (
            "a VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY",
            "LIST COLUMNS (a) (PARTITION x VALUES IN ('a'), PARTITION y VALUES IN ('é', 'B'))",
            ["a", "a  ", "B", "é "],
        ),
        (
            "a DATETIME(3) PRIMARY KEY",
            f"RANGE (YEAR(a)) (PARTITION x {LESS} (2020), PARTITION y {LESS} MAXVALUE)",
            ["2019-12-31 23:59:59.999", "2020-01-01 00:00:00.000"],
        ),
        (
            "a TIMESTAMP PRIMARY KEY",
            f"RANGE (UNIX_TIMESTAMP(a)) (PARTITION x {LESS} (1577836800), PARTITION y {LESS} MAXVALUE)",
            ["2019-12-31 23:59:59", "2020-01-01 00:00:00"],
        ),
    ],
)
def test_arrow_finds_the_partition_that_the_conditions_mean(columns: str, by: str, values: list[str | None]) -> None:
    of, random = table(columns, by), Random(by)
    lake = lake_columns(of, handle_key(of), LakeOptions())
    ids = [random.choice([1, 2, None]) for _ in values]
    expected = {(one, placed(of, {"a": value})[0]) for one, value in zip(ids, values, strict=True) if one is not None}
    for times in (1, 100):  # few rows of an id are placed one by one, and many together
        array, bad, _ = to_arrow(lake[0], LakeOptions())(values * times)
        assert not bad
        assert Placing(of, lake, LakeOptions()).places(pa.array(ids * times, pa.int64()), [array]) == expected


def test_rows_of_a_partition_that_is_not_computed_tell_nothing() -> None:
    of = table("a INT PRIMARY KEY", "KEY (a) PARTITIONS 2")
    lake = lake_columns(of, ("a",), LakeOptions())
    assert Placing(of, lake, LakeOptions()).places(pa.array([1], pa.int64()), [pa.array([1], pa.int32())]) == set()
