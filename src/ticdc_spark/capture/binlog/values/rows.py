"""Rows of a table from the bytes of its row events.

NULL cells have no bytes, so they decide where the other cells are. For each pattern of NULLs in the data, a function is
compiled that reads such rows without branches. It unpacks runs of cells with fixed sizes at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from ticdc_spark.capture.binlog.values.cells import Cell, cell_of
from ticdc_spark.capture.binlog.values.charsets import Charsets
from ticdc_spark.capture.binlog.values.settle import hidden, is_hidden, settled
from ticdc_spark.capture.binlog.wire.table_map import TableMap
from ticdc_spark.clients.mysql_texts import or_bytes
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, RowChange, Table, Value

_Read = Callable[[bytes, int], tuple[dict[str, Value], int]]
_PATTERNS_KEPT = 512


class RowReader:
    """Reads the rows of one version of a table."""

    def __init__(self, table: Table, wire: TableMap, charsets: Charsets) -> None:
        """
        Raises: MessageError if the table map does not have the columns of ``table``.
        """
        if not wire.names:
            raise MessageError(
                f"binlog: the table map of `{wire.schema}`.`{wire.name}` has no names: binlog_row_metadata was not FULL"
            )
        self.table = settled(table, wire, charsets)
        self._cells = _cells(self.table, wire, charsets)
        self._null_size = (len(self._cells) + 7) // 8
        self._reads: dict[bytes, _Read] = {}
        self._lenient: dict[bytes, _Read] = {}

    def changes(self, op: str, rows: bytes, commit_ts: int) -> Iterator[RowChange]:
        """The changes of a row event.

        Raises: MessageError for bytes that are not rows of this table.
        """
        table, read, at, end = self.table, self._row, 0, len(rows)
        try:
            if op == "insert":
                while at < end:
                    after, at = read(rows, at)
                    yield RowChange(op="insert", table=table, commit_ts=commit_ts, after=after)
            elif op == "delete":
                while at < end:
                    before, at = read(rows, at)
                    yield RowChange(op="delete", table=table, commit_ts=commit_ts, before=before)
            else:
                while at < end:
                    before, at = read(rows, at)
                    after, at = read(rows, at)
                    yield RowChange(op="update", table=table, commit_ts=commit_ts, before=before, after=after)
        except (struct.error, IndexError) as error:
            raise MessageError(f"binlog: a row of `{table.schema}`.`{table.name}` cannot be read: {error}") from error
        if at != end:
            raise MessageError(f"binlog: the last row of `{table.schema}`.`{table.name}` ends {at - end} bytes late")

    def _row(self, rows: bytes, at: int) -> tuple[Row, int]:
        behind = at + self._null_size
        nulls = rows[at:behind]
        read = self._reads.get(nulls)
        if read is None:
            read = self._compiled(self._reads, nulls, lenient=False)
        try:
            return read(rows, behind)
        except UnicodeDecodeError:
            found = self._lenient.get(nulls) or self._compiled(self._lenient, nulls, lenient=True)
            return found(rows, behind)

    def _compiled(self, into: dict[bytes, _Read], nulls: bytes, *, lenient: bool) -> _Read:
        if len(into) >= _PATTERNS_KEPT:
            into.clear()
        into[nulls] = found = _compile(self._cells, int.from_bytes(nulls, "little"), lenient)
        return found


def _cells(table: Table, wire: TableMap, charsets: Charsets) -> list[tuple[str | None, Cell]]:
    """The cells with their names in the result; ``None``: a virtual column."""
    where = f"`{table.schema}`.`{table.name}`"
    columns = {column.name: column for column in table.columns}
    if tuple(name for name in wire.names if name in columns or not is_hidden(name)) != tuple(columns):
        raise MessageError(
            f"binlog: the table map of {where} has columns {wire.names}; its schema has {tuple(columns)}"
        )
    cells: list[tuple[str | None, Cell]] = []
    for name, one in zip(wire.names, wire.columns, strict=True):
        column = columns.get(name) or hidden(name)
        try:
            cell = cell_of(column.type, one, charsets)
        except MessageError as error:
            raise MessageError(f"binlog: column `{column.name}` of {where} does not fit its schema: {error}") from error
        cells.append((None if column.virtual else column.name, cell))
    return cells


def _compile(cells: list[tuple[str | None, Cell]], nulls: int, lenient: bool) -> _Read:
    """The function for one pattern of NULLs. Names and types are variables, never part of the source."""
    names: dict[str, Any] = {}
    lines: list[str] = []
    items: list[str] = []
    run: list[tuple[int, str]] = []

    def unpack_run() -> None:
        if run:
            form = struct.Struct("<" + "".join(form for _, form in run))
            name = f"u{run[0][0]}"
            names[name] = form.unpack_from
            lines.append(f"{', '.join(f'x{at}' for at, _ in run)}, = {name}(b, p); p += {form.size}")
            run.clear()

    for at, (name, cell) in enumerate(cells):
        names[f"n{at}"] = name
        if nulls >> at & 1:
            if name is not None:
                items.append(f"n{at}: None")
            continue
        expression = cell.expression.format(x=f"x{at}", f=f"f{at}")
        names[f"f{at}"] = cell.function
        if lenient and cell.lenient:
            names[f"f{at}"] = or_bytes(cell.function or bytes.decode)
            expression = f"f{at}(x{at})"
        if cell.format:
            run.append((at, cell.format))
        else:
            unpack_run()
            size = "b[p]" if cell.length == 1 else f'int.from_bytes(b[p:p + {cell.length}], "little")'
            lines.append(f"q = p + {cell.length} + {size}; x{at} = b[p + {cell.length}:q]; p = q")
        if name is not None:
            items.append(f"n{at}: {expression}")
    unpack_run()
    source = "def read(b, p):\n" + "".join(f"    {line}\n" for line in lines)
    exec(f"{source}    return {{{', '.join(items)}}}, p\n", names)
    found: _Read = names["read"]
    return found
