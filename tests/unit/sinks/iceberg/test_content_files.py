"""Bounds of columns in new files: none where Parquet knows those of some rows only."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.sinks.iceberg.files.test_live_rows import schema
from ticdc_spark.sinks.iceberg.rows.content_files import columns_without_bounds
from ticdc_spark.spark.storage import footer_of

COLUMNS = schema((1, "id", "int"), (2, "s", "string"), (3, "v", "double"))
LONG = "y" * 5000


@pytest.mark.parametrize(
    ("texts", "unknown"),
    [
        ([["a"], ["b"]], set()),
        ([["a"], [LONG]], {2}),
        ([[LONG], ["a"]], {2}),
        ([["a"], [None]], set()),
        ([["a", LONG]], set()),
    ],
)
def test_a_column_has_no_bounds_if_a_row_group_has_none(texts: list[list[str | None]], unknown: set[int]) -> None:
    sink = pa.BufferOutputStream()
    collected: list[pq.FileMetaData] = []
    with pq.ParquetWriter(sink, COLUMNS, metadata_collector=collected) as writer:
        for group in texts:
            rows = [{"id": number, "s": text, "v": 0.5} for number, text in enumerate(group)]
            writer.write_table(pa.Table.from_pylist(rows, COLUMNS))
    assert columns_without_bounds(footer_of(collected[0])) == unknown
