"""The sink in memory: the contract of ``sinks.base`` in plain Python, for simulation and for tests of a job."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tests.memory_sink.appends import appended_rows
from tests.memory_sink.changes import newest_of, read_changes
from tests.memory_sink.conditions import met_by
from tests.memory_sink.convert import convert_values
from tests.memory_sink.counts import read_counts, with_counts
from tests.memory_sink.lake import Field, Lake, LakeRow, MemoryTable
from tests.memory_sink.loads import MemoryLoads
from tests.memory_sink.newest import merged
from tests.memory_sink.reading import TypedRow
from tests.memory_sink.state import MemoryState
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended
from ticdc_spark.sinks.base import ColumnChanges, Fill, Stamp, TableFound
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.spark_types import LakeNames, SparkTypes
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.sinks.upkeep import FilePlace, UpkeepPolicy, UpkeepResult
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn, arrow_type, to_arrow

EVERYTHING = Capabilities()


class MemorySink(MemoryLoads):
    """See ``sinks.base.Sink``. The lake outlives it."""

    types = SparkTypes()
    names = LakeNames()

    def __init__(
        self, lake: Lake, fence: Callable[[], None] = lambda: None, capabilities: Capabilities = EVERYTHING
    ) -> None:
        """``fence``: called before each commit; raises where the job must not write any more."""
        super().__init__(lake, self._durable, capabilities)
        self.lake = lake
        self.fence = fence
        self.conflicts = Tally()

    def state(self, job: str) -> MemoryState:
        return self.lake.states.setdefault(job, MemoryState(job))

    def commit_with(self, states: StateStore) -> None:
        self.capabilities.need("atomic_tables", "the tables of a batch are to be one commit with the state")

    # ---- tables

    def find(self, table: TableName) -> TableFound | None:
        return self.lake.find(table)

    def list_tables(self, job: str) -> list[TableName]:
        found = {name: self.lake.find(name) for name in self.lake.tables}
        return [name for name, table in found.items() if table and table.stamp and table.stamp.job == job]

    def snapshot_id(self, table: TableName) -> int | None:
        return self.lake.table(table).current

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
        """See ``Upkeep``: there are no files. Other tools' compaction and expiry are the lake's own affair."""
        return UpkeepResult()

    def file_places(self) -> Sequence[FilePlace]:
        """See ``Upkeep``: there are no files."""
        return ()

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        """See ``Upkeep``: there are no files."""
        return 0

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        """See ``Tables``: of the layout, only the comment matters, as there are no files to lay out."""
        if table in self.lake.tables:
            raise SinkFault(f"table {table} exists already")
        new = MemoryTable(fields=tuple(Field(self.lake.next_id(), c.name, c.type, c.comment) for c in columns))
        new.comment = layout.comment

        def commit() -> None:
            self.lake.namespaces.add(table[0])
            self.lake.add_snapshot(new, (), "append", stamp)
            self.lake.set_stamp(new, stamp)
            self.lake.tables[table] = new

        self._durable(f"create {_plain(table)}", commit)

    def drop(self, table: TableName, ended: Stamp | None = None) -> None:
        self._durable(f"drop {_plain(table)}", lambda: _forget(self.lake, table))

    def rename(self, old: TableName, new: TableName) -> None:
        self.capabilities.need("rename", f"table {old} is to be renamed to {new}")
        if new in self.lake.tables:
            raise SinkFault(f"table {old} cannot be renamed to {new}: there is such a table")
        self.lake.table(old)

        def commit() -> None:
            self.lake.namespaces.add(new[0])
            self.lake.tables[new] = self.lake.tables.pop(old)

        self._durable(f"rename {_plain(old)} to {_plain(new)}", commit)

    def flush(self, table: TableName) -> None:
        """Nothing waits."""

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        held = self.lake.table(table)

        def commit() -> None:
            self.lake.add_snapshot(held, (), "delete", stamp)
            self.lake.set_stamp(held, stamp, emptied=True)

        self._durable(f"truncate {_plain(table)}", commit)

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        held = self.lake.table(table)
        self._durable(f"stamp {_plain(table)}", lambda: self._put(held, held.rows, "append", stamp))

    def create_database(self, schema: str) -> None:
        self._durable(f"create database {schema}", lambda: self.lake.namespaces.add(schema))

    def drop_database(self, schema: str) -> None:
        if not any(name[0] == schema for name in list(self.lake.tables)):
            self._durable(f"drop database {schema}", lambda: self.lake.namespaces.discard(schema))

    # ---- columns

    def columns(self, table: TableName) -> dict[str, str]:
        return {column.name: column.type.spark for column in self.lake.table(table).fields}

    def sql_name(self, table: TableName) -> str:
        return ".".join(map(quote, table))

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        held = self.lake.table(table)
        renames, promoted = dict(changes.rename), {column.name: column.type for column in changes.promote}
        fields = [
            replace(column, name=renames.get(column.name, column.name))
            for column in held.fields
            if column.name not in changes.drop
        ]
        fields = [replace(column, type=promoted.get(column.name, column.type)) for column in fields]
        fields += [Field(self.lake.next_id(), column.name, column.type, column.comment) for column in changes.add]
        comments = dict(changes.comments)
        if lacking := comments.keys() - {column.name for column in fields}:
            raise SinkFault(f"the comments of {table} cannot be changed: there is no column {min(lacking)}")
        fields = [replace(column, comment=comments.get(column.name, column.comment)) for column in fields]
        if changes.order:
            places = {name: at for at, name in enumerate(changes.order)}
            fields.sort(key=lambda column: places.get(column.name, len(places)))
        if len({column.name.casefold() for column in fields}) < len(fields):
            raise SinkFault(f"the columns of {table} cannot be changed: two have one name")

        before = held.fields

        def commit() -> None:
            if held.fields != before:
                raise SinkFault(f"the columns of {table} cannot be changed: another writer changed them meanwhile")
            held.fields = tuple(fields)
            if changes.comment is not None:
                held.comment = changes.comment
            self._put(held, held.rows, "append", stamp)

        self._durable(f"change columns of {_plain(table)}", commit)

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        array, bad, _ = to_arrow(column, fill.lake)([fill.value])
        if bad:
            raise DecisionNeeded(f"the default of the new column `{column.source}` cannot be read: {bad[0]}")
        values = [array[0].as_py()] * len(self.lake.table(table).rows)
        self._set(table, column.name, values, stamp)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        source = self._field(table, old)
        values = [row.get(source.id) for row in self.lake.table(table).rows]
        self._set(table, column.name, convert_values(conversion, source.type, column, values), stamp)

    def _set(self, table: TableName, column: str, values: Sequence[Any], stamp: Stamp) -> None:
        target, held = self._field(table, column), self.lake.table(table)
        before = held.rows
        rows = tuple({**row, target.id: value} for row, value in zip(before, values, strict=True))

        def commit() -> None:
            if held.rows is not before:
                raise SinkFault(f"column {column} of {table} cannot be set: another writer changed it meanwhile")
            self._put(held, rows, "overwrite", stamp)

        self._durable(f"set column {column} of {_plain(table)}", commit)

    def _field(self, table: TableName, name: str) -> Field:
        for column in self.lake.table(table).fields:
            if column.name == name:
                return column
        raise SinkFault(f"table {table} has no column {name}")

    # ---- rows

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        """See ``Changes``. New keys are appended without looking for old rows of theirs, in the one commit."""
        if changes.ordered_by is not None:
            self._upsert_ordered(table, changes, stamp)
            return
        typed = read_changes(changes)
        columns = changes.columns
        keys = [at for at, column in enumerate(columns) if column.key]
        names = [column.name for column in columns]
        by_key: dict[tuple[Any, ...], list[TypedRow]] = {}
        for row in sorted(typed, key=lambda row: (row.ts, row.op != "d", row.offset, row.seq)):
            by_key.setdefault(tuple([row.cells[at] for at in keys]), []).append(row)
        new = {key for key, rows in by_key.items() if changes.new_keys and rows[0].op in "iI"}
        net = {key: rows[-1] for key, rows in by_key.items()}
        seen = self.lake.table(table)
        touched = bool(self.lake.unseen(seen, stamp))
        at_start = seen.current

        def commit() -> None:
            held = self.lake.table(table)
            ids = self._ids(held, columns)
            # Where another writer committed meanwhile, nothing is appended without looking for old rows.
            unseen = new if held.current == at_start and not touched else set()
            key_ids = [ids[names[at]] for at in keys]
            old = [tuple([row.get(at) for at in key_ids]) for row in held.rows]
            kept: list[LakeRow] = [
                row for row, key in zip(held.rows, old, strict=True) if key in unseen or key not in net
            ]
            fields = [ids[name] for name in names]
            kept += [dict(zip(fields, row.cells, strict=True)) for row in net.values() if not row.is_gone]
            self._put(held, tuple(kept), "overwrite", stamp)

        self._ids(self.lake.table(table), columns)
        self._durable(f"apply rows of {_plain(table)}", commit)

    def _upsert_ordered(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        self.capabilities.need("ordered_upsert", f"changes of {table} come in no order")
        *columns, time = changes.columns
        keys, net = [column.name for column in columns if column.key], newest_of(changes)

        def commit() -> None:
            held = self.lake.table(table)
            ids = self._ids(held, changes.columns)
            rows = merged(held.rows, net, ids, keys, [column.name for column in columns], time.name)
            self._put(held, tuple(rows), "overwrite", stamp)

        self._ids(self.lake.table(table), changes.columns)
        self._durable(f"apply the newest rows of {_plain(table)}", commit)

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        self.capabilities.need("counts", f"table {table} has no key")
        copies = read_counts(changes)

        def commit() -> None:
            held = self.lake.table(table)
            self._put(held, with_counts(held.rows, copies, self._ids(held, changes.columns)), "overwrite", stamp)

        self._ids(self.lake.table(table), changes.columns)
        self._durable(f"apply rows of {_plain(table)}", commit)

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        held = self.lake.table(table)
        keys = [self._field(table, column.name).id for column in columns if column.key]
        new = self.moved(self.lake.table(source).rows, source, table, columns)
        replaced = set() if new_keys else {tuple(row[key] for key in keys) for row in new}
        kept = [row for row in held.rows if tuple(row.get(key) for key in keys) not in replaced]
        self._durable(f"take rows of {_plain(source)}", lambda: self._put(held, (*kept, *new), "overwrite", stamp))

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        goes = met_by(where, {field.name: field.id for field in self.lake.table(table).fields})

        def commit() -> None:
            held = self.lake.table(table)
            kept = tuple(row for row in held.rows if not goes(row))
            self._put(held, kept, "delete", stamp)

        self._durable(f"delete rows of {_plain(table)}", commit)

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        self.capabilities.need("history", f"table {beside} is to have a history")
        ids = {column.name: column.id for column in self.lake.table(table).fields}
        new = [{ids[name]: value for name, value in row.items()} for row in appended_rows(self.lake, table, what)]

        def commit() -> None:
            held = self.lake.table(table)
            self._put(held, (*held.rows, *new), "append", stamp)

        self._durable(f"append to {_plain(table)}", commit)

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        held = self.lake.table(table)
        if as_of is not None:
            self.capabilities.need("time_travel", f"table {table} is to be read as of {as_of}")
            if as_of not in held.snapshots:
                raise SinkFault(f"table {table} has no snapshot {as_of}")
        rows = held.rows if as_of is None else held.snapshots[as_of].rows
        fields = [self._field(table, name) for name in columns]
        arrays = [pa.array([row.get(one.id) for row in rows], arrow_type(one.type)) for one in fields]
        yield pa.record_batch(arrays, list(columns))

    def _ids(self, table: MemoryTable, columns: Sequence[LakeColumn]) -> dict[str, int]:
        ids = {column.name: column.id for column in table.fields}
        missing = [column.name for column in columns if column.name not in ids]
        if missing:
            raise SinkFault(f"there is no column {missing[0]}")
        return {column.name: ids[column.name] for column in columns}

    def _put(self, table: MemoryTable, rows: tuple[LakeRow, ...], operation: str, stamp: Stamp) -> None:
        self.lake.add_snapshot(table, rows, operation, stamp)
        self.lake.set_stamp(table, stamp)

    def _durable(self, what: str, action: Callable[[], None]) -> None:
        def fenced() -> None:
            self.fence()
            action()

        self.lake.durable(what, fenced)


def _forget(lake: Lake, table: TableName) -> None:
    lake.tables.pop(table, None)
    lake.lost.discard(table)


def _plain(table: TableName) -> str:
    return ".".join(table)
