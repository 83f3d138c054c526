"""Which data files are rewritten. What becomes of them: ``tests/spark/test_rewrite.py``."""

import numpy as np
import pytest

from ticdc_spark.sinks.iceberg.files.live_rows import Positions
from ticdc_spark.sinks.iceberg.files.manifests import LiveFile
from ticdc_spark.sinks.iceberg.rewrite import choose

MB = 1 << 20


def file(name: str, size: int, partition: str = "") -> LiveFile:
    values = (partition,) if partition else ()
    return LiveFile(location=name, path=name, size=size, sequence=1, lower=None, upper=None, rows=10, partition=values)


def gone(**deleted: int) -> dict[str, Positions]:
    return {name: np.arange(number, dtype=np.int64) for name, number in deleted.items()}


@pytest.mark.parametrize(
    ("sizes", "deleted", "chosen"),
    [
        ([1] * 5, {}, "abcde"),
        ([1] * 4, {}, ""),
        ([1] * 4 + [32], {}, ""),
        ([1] * 5 + [32, 600], {}, "abcde"),
        ([1, 1, 40, 40], {"c": 3}, "abc"),
        ([1, 1, 40, 40], {"c": 2}, ""),
        ([1, 40], {"a": 10}, "a"),
        ([1, 1, 1025], {}, "abc"),
        ([40], {"elsewhere": 9}, ""),
    ],
)
def test_files_are_chosen_as_by_the_procedure(sizes: list[int], deleted: dict[str, int], chosen: str) -> None:
    files = [file(chr(ord("a") + number), size * MB) for number, size in enumerate(sizes)]
    found = choose(files, gone(**deleted))
    assert len(found) == bool(chosen)
    assert "".join(one.location for group in found for one in group) == chosen


def test_files_of_different_partitions_are_not_combined() -> None:
    files = [file(f"{partition}{number}", MB, partition) for number in range(4) for partition in "xy"]
    assert choose(files, {}) == []
    (group,) = choose([*files, file("x4", MB, "x")], {})
    assert [one.location for one in group] == ["x0", "x1", "x2", "x3", "x4"]
    (group,) = choose(files, gone(y1=3))
    assert {one.location[0] for one in group} == {"y"}
