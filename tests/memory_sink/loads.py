"""Full reads into tables in memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from tests.memory_sink.conditions import met_by
from tests.memory_sink.lake import Gathered, Lake, LakeRow
from ticdc_spark.changes.given import Counted
from ticdc_spark.changes.net import rows_left
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.errors import MessageError, SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.spark.tasks import MOVED, ReadParts, SourceMoved, UnreadableRows, chain
from ticdc_spark.spark.types import LakeColumn


class MemoryLoads:
    """Full reads into the lake in memory."""

    def __init__(
        self, lake: Lake, durable: Callable[[str, Callable[[], None]], None], capabilities: Capabilities
    ) -> None:
        """``durable``: carries out a durable action, behind the fence."""
        self._lake, self._do = lake, durable
        self.capabilities = capabilities

    def load_note(self, table: TableName) -> LoadNote | None:
        gathered = self._lake.table(table).gathered
        return None if gathered is None else gathered.note

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        self.capabilities.need("full_reads", f"table {table} is to be read in full")
        held = self._lake.table(table)
        self._do(f"begin to load {'.'.join(table)}", lambda: setattr(held, "gathered", Gathered(note)))

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        zeros = Counted()
        numbers = pa.RecordBatch.from_pydict({"id": pa.array(range(parts), pa.int64())})
        try:
            rows = self._rows(table, columns, read(zeros)([numbers]))
        except MessageError as error:
            if str(error).startswith(MOVED):
                raise SourceMoved(str(error).removeprefix(f"{MOVED}: ")) from error
            raise UnreadableRows(str(error)) from error
        return self._gather(table, rows, note(len(rows), zeros.value))

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        left: list[LakeRow] = []

        def take(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            left.extend(self._rows(table, changes.columns, batches))
            yield pa.record_batch([pa.array([b""])], ["taken"])

        changes.write(chain(rows_left([column.name for column in changes.columns]), take))
        return self._gather(table, left, note(len(left), changes.counts.zero_dates))

    def load_rows(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        source: TableName,
        where: Sequence[Sequence[Condition]],
        note: LoadNote,
    ) -> None:
        test = met_by(where, {field.name: field.id for field in self._lake.table(source).fields})
        rows = [row for row in self._lake.table(source).rows if test(row)]
        self._gather(table, self.moved(rows, source, table, columns), note)

    def moved(
        self, rows: Iterable[LakeRow], source: TableName, table: TableName, columns: Sequence[LakeColumn]
    ) -> list[LakeRow]:
        """Rows of one table as another one has them."""
        old, new = ({field.name: field.id for field in self._lake.table(one).fields} for one in (source, table))
        return [{new[column.name]: row.get(old[column.name]) for column in columns} for row in rows]

    def _gather(self, table: TableName, rows: Sequence[LakeRow], new: LoadNote) -> LoadNote:
        held = self._lake.table(table)
        before = held.gathered
        if before is None:
            raise SinkFault(f"no load of {'.'.join(table)} is under way: another process has ended it")
        gathered = Gathered(new, (*before.rows, *rows))
        self._do(f"load rows of {'.'.join(table)}", lambda: setattr(held, "gathered", gathered))
        return new

    def _rows(
        self, table: TableName, columns: Sequence[LakeColumn], batches: Iterable[pa.RecordBatch]
    ) -> list[LakeRow]:
        ids = {field.name: field.id for field in self._lake.table(table).fields}
        places = [ids[column.name] for column in columns]
        found: list[LakeRow] = []
        for batch in batches:
            cells = [column.to_pylist() for column in batch.columns]
            found += [dict(zip(places, row, strict=True)) for row in zip(*cells, strict=True)]
        return found

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        held = self._lake.table(table)

        def commit() -> None:
            assert held.gathered is not None, "it was begun"
            self._lake.add_snapshot(held, held.gathered.rows, "overwrite", stamp)
            self._lake.set_stamp(held, stamp, emptied=True)
            held.gathered = None

        self._do(f"finish to load {'.'.join(table)}", commit)
