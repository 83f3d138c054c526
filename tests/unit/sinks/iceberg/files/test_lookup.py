"""Which files may hold a key, without Spark. What is found in them: ``tests/spark/test_lookup.py``."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ticdc_spark.sinks.iceberg.files import lookup
from ticdc_spark.sinks.iceberg.files.deleted import read_deletes
from ticdc_spark.sinks.iceberg.files.manifests import LiveFile
from ticdc_spark.spark.storage import LOCAL


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([-719528, 10_000_000], pa.int32()).cast(pa.date32()),
        pa.array([-62167219200000000, 2**62], pa.int64()).cast(pa.timestamp("us")),
        pa.array([b"\xff\xfe"], pa.binary()),
    ],
    ids=["the year 0", "moments that Python does not have", "bytes"],
)
def test_values_that_python_does_not_have_are_no_trouble(keys: pa.Array) -> None:
    assert lookup._may_hold(pa.chunked_array([keys]))(None, None)


@pytest.mark.parametrize("values", [[-5, 3, 900], ["a", "kä", "z"]])
def test_only_bounds_with_a_key_between_them_may_hold_one(values: list[int] | list[str]) -> None:
    may_hold = lookup._may_hold(pa.chunked_array([pa.array(values)]))
    bounds = (
        [(-4, 2), (3, 3), (-9, -5), (901, 999)]
        if isinstance(values[0], int)
        else [(b"b", b"k"), ("kä".encode(), "kä".encode()), (b"A", b"a"), (b"zz", b"zzz")]
    )
    assert [may_hold(*pair) for pair in bounds] == [False, True, True, False]
    assert may_hold(None, bounds[0][1]), "a bound that is not known"


def deletes_at(path: Path) -> LiveFile:
    size = path.stat().st_size
    return LiveFile(location=f"file:{path}", path=str(path), size=size, sequence=1, lower=None, upper=None, rows=6)


def test_positions_of_deletes_by_file(tmp_path: Path) -> None:
    names = ["b", "a", "b", "c", "a", "b"]
    rows = pa.table({"file_path": names, "pos": [5, 1, 4, 0, 2, 9]})
    pq.write_table(rows, tmp_path / "d.parquet", row_group_size=2)
    found = read_deletes(LOCAL, deletes_at(tmp_path / "d.parquet"))
    assert {name: sorted(held.to_pylist()) for name, held in found.items()} == {"a": [1, 2], "b": [4, 5, 9], "c": [0]}
    pq.write_table(rows.slice(0, 0), tmp_path / "none.parquet")
    assert read_deletes(LOCAL, deletes_at(tmp_path / "none.parquet")) == {}
