"""Typed changes read in plain Python: the same that ``TypedChanges.write`` makes of rows in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

from tests.memory_sink.newest import Key, Newest, deletes, newest
from tests.memory_sink.raw import RawInMemory, RawRow
from tests.memory_sink.reading import TypedRow, read_raw
from ticdc_spark.changes.columns import ALWAYS, OP, TIES
from ticdc_spark.changes.given import GivenRows
from ticdc_spark.changes.raw import RawChanges
from ticdc_spark.changes.typed import Deletes, TypedChanges
from ticdc_spark.errors import MessageError
from ticdc_spark.spark.decode.rows import read_rows
from ticdc_spark.spark.tasks import ArrowTask, UnreadableRows, chain, first_cells
from ticdc_spark.spark.types import arrow_type


def read_changes(changes: TypedChanges, *, befores: bool = False) -> list[TypedRow]:
    """The readable rows. ``changes.write`` would give the same: this is quicker where they are few. ``befores``: with
    what updates replace, if that is wanted of the table."""
    plan, zeros, count = changes.begin()
    rows = _rows_of(changes.raw)
    try:
        read = read_raw(plan, rows)
    except MessageError as error:
        raise UnreadableRows(str(error)) from error
    if plan.partitioned is not None:  # Once more as the tasks do it, for what they say of partitions.
        changes.raw.run(chain(read_rows(plan, None, changes.collector), _nothing))
    zeros.add(read.zero_dates)
    count.add(len(rows))
    changes.stop_if_fewer(len(rows))
    return read.typed if befores else [row for row in read.typed if row.op != "b"]


def newest_of(changes: TypedChanges) -> dict[Key, Newest]:
    """The newest change of each key, without those that came before a delete."""
    places = [at for at, column in enumerate(changes.columns[:-1]) if column.key]
    net = newest(read_changes(changes), places)
    if changes.deletes is not None:
        gone = deletes(_deleted(changes.deletes), places)
        net = {key: row for key, row in net.items() if row.ts >= gone.get(key, 0)}
    return net


def write_newest(changes: TypedChanges, task: ArrowTask, _tasks: int, *, keep_first: bool) -> list[bytes]:
    """In place of ``TypedChanges._write_by_spark``: ordered changes for the task of a sink, without Spark."""
    assert not keep_first, "ordered changes have none"
    net = newest_of(changes).values()
    found = [("d" if one.row.is_gone else one.row.op, one.ties, one.always, *one.row.cells, one.ts) for one in net]
    own = [(OP, pa.string()), (TIES, pa.bool_()), (ALWAYS, pa.bool_())]
    schema = pa.schema([*own, *((column.name, arrow_type(column.type)) for column in changes.columns)])
    rows = [dict(zip(schema.names, row, strict=True)) for row in found]
    return list(first_cells(task([pa.RecordBatch.from_pylist(rows, schema=schema)])))


def _rows_of(raw: RawChanges) -> list[RawRow]:
    if isinstance(raw, GivenRows):
        return [RawRow(**row) for row in raw.rows.to_arrow().to_pylist()]
    assert isinstance(raw, RawInMemory), "rows are in memory, too"
    return raw.rows()


def _deleted(found: Deletes) -> list[TypedRow]:
    rows, plan = _rows_of(found.raw), found.plan
    if plan.schemas is None:  # keys are read by the table as it is now, whatever rows were made of
        rows = [msgspec.structs.replace(row, schema_key=next(iter(plan.tables))) for row in rows]
    return [row for row in read_raw(plan, rows).typed if row.is_gone]


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield from ()
