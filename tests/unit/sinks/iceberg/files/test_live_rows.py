"""The live rows of a data file, without Spark."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ticdc_spark.sinks.iceberg.files import live_rows
from ticdc_spark.sinks.iceberg.files.live_rows import Misread, row_groups, schema_of
from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.java import NestedField
from ticdc_spark.spark.storage import LOCAL, write_row_groups

LIST = {"type": "list", "element-id": 9, "element": "float", "element-required": False}


def schema(*fields: tuple[int, str, Any], required: Sequence[str] = ()) -> pa.Schema:
    made = schema_of([NestedField(number, name, kind, name in required) for number, name, kind in fields])
    assert isinstance(made, pa.Schema)
    return made


def file_of(folder: Path, of: pa.Schema, *rows: dict[str, Any]) -> pq.ParquetFile:
    pq.write_table(pa.Table.from_pylist(list(rows), of), folder / "x.parquet", row_group_size=2, store_schema=False)
    return pq.ParquetFile(folder / "x.parquet")


def read(file: pq.ParquetFile, of: pa.Schema, *gone: int, always: Sequence[str] = ()) -> list[dict[str, Any]]:
    found = list(live_rows.live_rows(file, of, np.array(gone, np.int64), always))
    assert all(batch.schema.equals(of, check_metadata=True) for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


OLD = schema((1, "id", "int"), (2, "a", "decimal(5, 2)"), (3, "b", "string"), (4, "v", LIST))


@pytest.mark.parametrize("gone", [(), (0,), (4,), (0, 1, 2, 3, 4), (1, 2)])
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_deleted_rows_are_left_out(tmp_path: Path, gone: tuple[int, ...], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_rows, "_READ_ROWS", at_once)
        patch.setattr(live_rows, "_BATCH_ROWS", at_once)
        file = file_of(tmp_path, OLD, *({"id": number} for number in range(5)))
        assert [row["id"] for row in read(file, OLD, *gone)] == [one for one in range(5) if one not in gone]


def test_columns_are_those_of_now(tmp_path: Path) -> None:
    file = file_of(tmp_path, OLD, {"id": 1, "a": 1, "b": "ä", "v": [0.5, None]}, {"id": None})
    now = schema((7, "a", "int"), (4, "w", LIST), (1, "b", "long"), (3, "id", "string"), (2, "c", "decimal(38, 2)"))
    first, second = read(file, now)
    assert {name: str(value) for name, value in first.items()} == {
        "a": "None",
        "w": "[0.5, None]",
        "b": "1",
        "id": "ä",
        "c": "1.00",
    }
    assert set(second.values()) == {None}


@pytest.mark.parametrize(
    ("now", "always", "why"),
    [
        (schema((1, "id", "string")), (), "its column id has the type int32"),
        (schema((2, "a", "decimal(6, 3)")), (), "its column a has the type"),
        (schema((2, "a", "decimal(4, 2)")), (), "its column a has the type"),
        (schema((4, "v", LIST | {"element": "int"})), (), "its column v has the type"),
        (schema((1, "id", "int"), (8, "p", "int")), ("p",), "it does not have column p"),
        (schema((1, "id", "int"), (8, "p", "int"), required=("p",)), (), "it does not have column p"),
        (schema((8, "p", "int")), (), "it has none of the table's columns"),
    ],
)
def test_what_iceberg_reads_in_another_way_is_not_read(
    tmp_path: Path, now: pa.Schema, always: tuple[str, ...], why: str
) -> None:
    with pytest.raises(Misread, match=why):
        read(file_of(tmp_path, OLD, {"id": 1}), now, always=always)


def test_large_types_of_other_writers_are_read(tmp_path: Path) -> None:
    now = schema((1, "s", "string"), (2, "b", "binary"), (4, "v", LIST))
    kinds = (pa.large_string(), pa.large_binary(), pa.large_list(pa.float32()))
    held = pa.schema([pa.field(one.name, kind, metadata=one.metadata) for one, kind in zip(now, kinds, strict=True)])
    row = {"s": "ä", "b": b"\0", "v": [1.5, None]}
    pq.write_table(pa.Table.from_pylist([row], held), tmp_path / "x.parquet")
    file = pq.ParquetFile(tmp_path / "x.parquet")
    assert pa.types.is_large_string(file.schema_arrow.field("s").type)
    assert read(file, now) == [row]


def test_a_file_without_ids_is_not_read(tmp_path: Path) -> None:
    file = file_of(tmp_path, pa.schema([pa.field("id", pa.int32())]), {"id": 1})
    with pytest.raises(Misread, match="its columns have no ids"):
        read(file, schema((1, "id", "int")))


@pytest.mark.parametrize("kind", ["uuid", "time", "fixed[3]", "timestamp_ns", {"type": "struct", "fields": []}])
def test_other_types_are_left_to_iceberg(kind: Any) -> None:
    for one in (kind, LIST | {"element": kind}):
        assert isinstance(schema_of([NestedField(1, "x", one)]), Closed)
    assert isinstance(schema_of([]), Closed)


def test_a_missing_value_in_a_required_column_is_refused(tmp_path: Path) -> None:
    now = schema((1, "id", "int"), required=("id",))
    file = file_of(tmp_path, OLD, {"id": None})
    groups = row_groups(live_rows.live_rows(file, now, np.empty(0, np.int64)), now)
    with pytest.raises(pa.ArrowException, match="non-nullable"):
        write_row_groups(LOCAL, str(tmp_path / "new.parquet"), now, groups)


def test_few_rows_are_held_at_once_where_a_file_hides_long_texts(tmp_path: Path) -> None:
    rows = [{"id": number, "b": "x" * 20_000} for number in range(3000)]
    file = file_of(tmp_path, OLD, *rows)
    assert file.metadata.row_group(0).total_byte_size < 200_000  # the text is there once
    sizes = [len(batch) for batch in live_rows.live_rows(file, OLD, np.empty(0, np.int64))]
    assert sum(sizes) == 3000 and max(sizes) <= 1024
