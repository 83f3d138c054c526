"""What is appended to a history in memory, as plain rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.memory_sink.changes import read_changes
from tests.memory_sink.conditions import met_by
from tests.memory_sink.lake import Lake
from ticdc_spark.changes.events import HISTORY
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended, Events, Marker, RowsOf

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def appended_rows(lake: Lake, table: TableName, what: Appended) -> list[dict[str, Any]]:
    """The rows by the names of their columns. Raises: UnreadableRows"""
    match what:
        case None:
            return []
        case Marker(op, commit_ts):
            return [_head(op, commit_ts)]
        case RowsOf():
            held = lake.table(what.source)
            ids = {column.name: column.id for column in held.fields}
            goes = (lambda _: True) if what.where is None else met_by(what.where, ids)
            assert held.gathered is not None or not what.gathered, "a full read was begun"
            every = held.gathered.rows if held.gathered is not None and what.gathered else held.rows
            rows = [row for row in every if goes(row)]
            told = [_head(what.marker, what.commit_ts)] if what.marker else []
            return told + [
                _head(what.op, what.commit_ts) | {name: row.get(ids[name]) for name in what.columns} for row in rows
            ]
        case Events():
            return _events(lake, table, what)


def _events(lake: Lake, table: TableName, what: Events) -> list[dict[str, Any]]:
    columns = what.changes.columns
    keys = [at for at, column in enumerate(columns) if column.key]
    once: dict[Any, Any] = {}
    rows = read_changes(what.changes, befores=True)
    for row in sorted(rows, key=lambda row: (row.ts, _rank(row.op), row.offset, row.seq)):
        if row.ts > what.above:
            once[(*(row.cells[at] for at in keys), row.ts, _rank(row.op))] = row
    names = [column.name for column in columns]
    op, ts, _ = HISTORY
    held = [column.name for column in columns if column.key]
    there = {
        (*(row[name] for name in held), row[ts], _rank(row[op].lower()))
        for row in (lake.table(table).named_rows() if what.unless_there else ())
    }
    found = [("D" if row.is_gone else row.op.upper(), row) for row in once.values() if row.op != "I"]
    return [
        _head(told, row.ts) | dict(zip(names, row.cells, strict=True))
        for told, row in found
        if (*(row.cells[at] for at in keys), row.ts, _rank(told.lower())) not in there
    ]


def _rank(op: str) -> int:
    """A delete is first, then what an update replaces, then the new row."""
    return {"d": 0, "b": 1}.get(op, 2)


def _head(op: str, commit_ts: int) -> dict[str, Any]:
    time = _EPOCH + timedelta(milliseconds=commit_ts >> 18) if commit_ts >> 18 >= 1000 else None
    return dict(zip(HISTORY, (op, commit_ts, time), strict=True))
