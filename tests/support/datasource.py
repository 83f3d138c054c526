"""The data source without Spark: its parts are planned and read as Spark does it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ticdc_spark.datasource.options import read_options
from ticdc_spark.datasource.parts import Part
from ticdc_spark.datasource.source import BatchReader, query_columns
from ticdc_spark.datasource.stream import StreamReader


def read(options: Mapping[str, Any]) -> pa.Table:
    """All rows of a batch."""
    checked = read_options({key: str(value) for key, value in options.items()})
    columns = query_columns(checked)
    return rows_of(BatchReader(checked, columns).partitions(), columns)


def rows_of(parts: list[Part], columns: Mapping[str, str]) -> pa.Table:
    """The rows of parts, each sent to its task and read there."""
    batches = [batch for part in parts for batch in pickle.loads(pickle.dumps(part)).rows()]
    if not batches:
        return pa.table({name: pa.array([], pa.string()) for name in columns})
    assert all(batch.schema.names == [*columns] for batch in batches)
    return pa.Table.from_batches(batches)


def stream(options: Mapping[str, Any]) -> StreamReader:
    """The reader of a query, as it is after each start of it."""
    checked = read_options({key: str(value) for key, value in options.items()})
    return StreamReader(checked, query_columns(checked))
