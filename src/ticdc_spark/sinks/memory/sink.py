"""The sink in memory: the contract of ``sinks.base`` in plain Python, for simulation and for tests of a job."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ticdc_spark.errors import DecisionNeeded, MessageError, SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import (
    Applied,
    ColumnChanges,
    ColumnConversion,
    FilePlace,
    Fill,
    NetChanges,
    NewestChanges,
    Stamp,
    TableFound,
    UnreadableRows,
    UpkeepPolicy,
)
from ticdc_spark.sinks.memory.changelog import MemoryChangeLog
from ticdc_spark.sinks.memory.convert import convert_values
from ticdc_spark.sinks.memory.lake import Field, Lake, LakeRow, MemoryTable
from ticdc_spark.sinks.memory.loads import MemoryLoads
from ticdc_spark.sinks.memory.newest import deletes, merged, newest
from ticdc_spark.sinks.memory.reading import TypedRow, read_logged
from ticdc_spark.sinks.memory.state import MemoryState
from ticdc_spark.spark.decode.log_files import LogScan
from ticdc_spark.spark.decode.plain_landing import LoggedRow
from ticdc_spark.spark.decode.rows import BadRow
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.types import LakeColumn, to_arrow


class MemorySink(MemoryLoads):
    """See ``sinks.base.Sink``. The lake outlives it."""

    def __init__(self, lake: Lake, fence: Callable[[], None] = lambda: None) -> None:
        """``fence``: called before each commit; raises where the job must not write any more."""
        super().__init__(lake, self._durable)
        self.lake = lake
        self.fence = fence
        self._log: MemoryChangeLog | None = None

    def state(self, job: str) -> MemoryState:
        return self.lake.states.setdefault(job, MemoryState(job))

    def changelog(self, job: str) -> MemoryChangeLog:
        self._log = MemoryChangeLog(self.lake, job, self._durable)
        return self._log

    # ---- tables

    def find(self, table: TableName) -> TableFound | None:
        return self.lake.find(table)

    def list_tables(self, job: str) -> list[TableName]:
        found = {name: self.lake.find(name) for name in self.lake.tables}
        return [name for name, table in found.items() if table and table.stamp and table.stamp.job == job]

    def snapshot_id(self, table: TableName) -> int | None:
        return self.lake.table(table).current

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> list[str]:
        """See ``Upkeep``: there are no files. Other tools' compaction and expiry are the lake's own affair."""
        return []

    def file_places(self) -> Sequence[FilePlace]:
        """See ``Upkeep``: there are no files."""
        return ()

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        """See ``Upkeep``: there are no files."""
        return 0

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp) -> None:
        if table in self.lake.tables:
            raise SinkFault(f"table {table} exists already")
        new = MemoryTable(fields=tuple(Field(self.lake.next_id(), c.name, c.type) for c in columns))

        def commit() -> None:
            self.lake.namespaces.add(table[0])
            self.lake.add_snapshot(new, (), "append", stamp)
            self.lake.set_stamp(new, stamp)
            self.lake.tables[table] = new

        self._durable(f"create {_plain(table)}", commit)

    def drop(self, table: TableName) -> None:
        self._durable(f"drop {_plain(table)}", lambda: _forget(self.lake, table))

    def rename(self, old: TableName, new: TableName) -> None:
        if new in self.lake.tables:
            raise SinkFault(f"table {old} cannot be renamed to {new}: there is such a table")
        self.lake.table(old)

        def commit() -> None:
            self.lake.namespaces.add(new[0])
            self.lake.tables[new] = self.lake.tables.pop(old)

        self._durable(f"rename {_plain(old)} to {_plain(new)}", commit)

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
        if not any(name[0] == schema for name in self.lake.tables):
            self._durable(f"drop database {schema}", lambda: self.lake.namespaces.discard(schema))

    # ---- columns

    def columns(self, table: TableName) -> dict[str, str]:
        return {column.name: column.type.spark for column in self.lake.table(table).fields}

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        held = self.lake.table(table)
        renames, promoted = dict(changes.rename), {column.name: column.type for column in changes.promote}
        fields = [
            Field(column.id, renames.get(column.name, column.name), column.type)
            for column in held.fields
            if column.name not in changes.drop
        ]
        fields = [Field(column.id, column.name, promoted.get(column.name, column.type)) for column in fields]
        fields += [Field(self.lake.next_id(), column.name, column.type) for column in changes.add]
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

    def apply_net_changes(self, changes: NetChanges) -> Applied:
        """See ``Changes``. New keys are appended without looking for old rows of theirs."""
        typed, zeros, count = self._read(changes.scan, changes.plan, leave_out=changes.leave_out_unreadable)
        keys = [at for at, column in enumerate(changes.plan.columns) if column.key]
        names = [column.name for column in changes.plan.columns]
        by_key: dict[tuple[Any, ...], list[TypedRow]] = {}
        for row in sorted(typed, key=lambda row: (row.ts, row.op != "d", row.offset, row.seq)):
            by_key.setdefault(tuple([row.cells[at] for at in keys]), []).append(row)
        new = {key for key, rows in by_key.items() if changes.new_keys and rows[0].op == "i"}
        net = {key: rows[-1] for key, rows in by_key.items()}
        seen = self.lake.table(changes.table)
        touched = bool(self.lake.unseen(seen, changes.stamp))
        at_start = seen.current

        def commit() -> None:
            held = self.lake.table(changes.table)
            ids = self._ids(held, changes.plan.columns)
            # Where another writer committed meanwhile, nothing is appended without looking for old rows.
            unseen = new if held.current == at_start and not touched else set()
            key_ids = [ids[names[at]] for at in keys]
            old = [tuple([row.get(at) for at in key_ids]) for row in held.rows]
            kept: list[LakeRow] = [
                row for row, key in zip(held.rows, old, strict=True) if key in unseen or key not in net
            ]
            fields = [ids[name] for name in names]
            kept += [dict(zip(fields, row.cells, strict=True)) for row in net.values() if row.op != "d"]
            self._put(held, tuple(kept), "overwrite", changes.stamp)

        self._ids(self.lake.table(changes.table), changes.plan.columns)
        self._durable(f"apply rows of {_plain(changes.table)}", commit)
        return Applied(zero_dates=zeros, rows=count)

    def apply_newest(self, changes: NewestChanges) -> Applied:
        typed, zeros, _ = self._read(changes.scan, changes.plan, leave_out=changes.leave_out_unreadable)
        keys = [column.name for column in changes.plan.columns if column.key]
        places = [at for at, column in enumerate(changes.plan.columns) if column.key]
        net = newest(typed, places)
        if changes.deletes is not None:
            gone = deletes(self._deleted(changes.scan, changes.deletes), places)
            net = {key: row for key, row in net.items() if row.ts >= gone.get(key, 0)}

        def commit() -> None:
            held = self.lake.table(changes.table)
            ids = self._ids(held, changes.columns)
            names = [column.name for column in changes.plan.columns]
            rows = merged(held.rows, net, ids, keys, names, changes.columns[-1].name)
            self._put(held, tuple(rows), "overwrite", changes.stamp)

        self._ids(self.lake.table(changes.table), changes.columns)
        self._durable(f"apply the newest rows of {_plain(changes.table)}", commit)
        return Applied(zero_dates=zeros)

    def _deleted(self, scan: LogScan, plan: ReadPlan) -> list[TypedRow]:
        """The deletes, moves of keys among them, that the whole log has in the range of a scan."""
        assert self._log is not None, "the change log is opened before rows of it are applied"
        found = self._log.scan(msgspec.structs.replace(scan, batches=None, keys=None))
        rows = [row for row in found if row.op in {"delete", "update"}]
        if plan.schemas is None:  # keys are read by the table as it is now, whatever rows were made of
            rows = [msgspec.structs.replace(row, schema_key=next(iter(plan.tables))) for row in rows]
        rows = [row for row in rows if row.schema_key in plan.tables]
        return [row for row in read_logged(plan, rows).typed if row.op == "d"]

    def unreadable_rows(self, scan: LogScan, plan: ReadPlan, limit: int) -> list[BadRow]:
        bad = read_logged(plan, self._rows(scan)).bad[:limit]
        return list({(row.topic, row.partition, row.offset, row.seq): row for row in bad}.values())

    def _read(self, scan: LogScan, plan: ReadPlan, *, leave_out: bool) -> tuple[list[TypedRow], int, int]:
        """The readable rows, how many zero dates are in them, and how many changes the scan has."""
        rows = self._rows(scan)
        try:
            read = read_logged(msgspec.structs.replace(plan, strict=not leave_out), rows)
        except MessageError as error:
            raise UnreadableRows(str(error)) from error
        return read.typed, read.zero_dates, len(rows)

    def _rows(self, scan: LogScan) -> list[LoggedRow]:
        assert self._log is not None, "the change log is opened before rows of it are applied"
        return self._log.scan(scan)

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


def _plain(table: TableName) -> str:
    return ".".join(table)
