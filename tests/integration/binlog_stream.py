"""Reading a source of a real server until a marked end, and folding what comes in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import reduce
from itertools import count

from pymysql.cursors import Cursor
from pymysql.err import MySQLError

from tests.support.mariadb_server import Server
from ticdc_spark.capture.base import Captured, CapturedDdl, CaptureState, Resolved, Transaction, follow
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.model import Row, Table, Value
from ticdc_spark.mysql import handle_key

OPTIONS = (
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--binlog-row-metadata=FULL",
    "--server-id=7",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
)
_ENDS = count(1)


def captured(server: Server, state: CaptureState, uri: str = "") -> list[Captured]:
    """Everything from ``state`` to now, without ``Resolved``."""
    return [one for one in captured_with_resolved(server, state, uri) if not isinstance(one, Resolved)]


def followed(server: Server, state: CaptureState) -> CaptureState:
    """The state after everything from ``state`` to now."""
    return reduce(follow, captured(server, state), state)


def run_drawn(cursor: Cursor, draw: Callable[[], str], number: int) -> list[str]:
    """Run drawn statements until the server has taken so many. Returns: these"""
    done: list[str] = []
    while len(done) < number:
        statement = draw()
        with suppress(MySQLError):
            cursor.execute(statement)
            done.append(statement)
    return done


def captured_with_resolved(server: Server, state: CaptureState, uri: str = "") -> Iterator[Captured]:
    """The same with it."""
    end = f"the_end_{next(_ENDS)}"
    server.execute(f"CREATE DATABASE {end}", f"DROP DATABASE {end}")
    source = BinlogCapture(uri or server.uri)
    try:
        for one in source.read(state):
            schemas = {change.schema for change in one.changes} if isinstance(one, CapturedDdl) else set()
            if not any(schema.startswith("the_end_") for schema in schemas):
                yield one
            elif isinstance(one, CapturedDdl) and end in schemas and one.changes[0].kind == "drop database":
                return
    finally:
        source.close()


def ops(elements: list[Captured]) -> list[list[str]]:
    """What came: the operations of each transaction with their keys, the kinds of each DDL with its tables."""
    found = []
    for one in elements:
        if isinstance(one, CapturedDdl):
            found.append([f"{change.kind} {change.name or change.schema}" for change in one.changes])
        elif isinstance(one, Transaction):
            found.append([f"{change.op} {(change.after or change.before or {})['id']}" for change in one.changes])
    return found


def after(server: Server, *statements: str, uri: str = "") -> list[Captured]:
    """What statements, run on one connection, give."""
    state = BinlogCapture(uri or server.uri).begin()
    server.execute(*statements)
    return captured(server, state, uri)


Rows = dict[tuple[str, str], dict[tuple[Value, ...], Row]]


def fold_rows(rows: Rows, one: Captured) -> None:
    """What an element does to the rows of tables with a primary key. A row that is not there is an error.

    Of the rows that were there before an ALTER, the columns that it changed are left out.
    """
    if isinstance(one, CapturedDdl):
        _fold_ddl(rows, one)
    elif isinstance(one, Transaction):
        for change in one.changes:
            there = rows.setdefault((change.table.schema, change.table.name), {})
            if change.before is not None:
                known = there.pop(_key(change.table, change.before))
                assert known.items() <= change.before.items()
            if change.after is not None:
                key = _key(change.table, change.after)
                assert key not in there
                there[key] = change.after


def _fold_ddl(rows: Rows, ddl: CapturedDdl) -> None:
    moved: Rows = {}
    for change in ddl.changes:
        before, after = change.pre_table, change.table
        if before is None and after is None:
            for name in [name for name in rows if name[0] == change.schema and change.kind == "drop database"]:
                del rows[name]
            continue
        old = {} if before is None else rows.pop((before.schema, before.name), {})
        if after is not None:
            same = {column.name for column in after.columns if before is not None and column in before.columns}
            kept = {key: {name: row[name] for name in row if name in same} for key, row in old.items()}
            moved[after.schema, after.name] = {} if change.kind == "truncate table" else kept
    rows.update(moved)


def _key(table: Table, row: Row) -> tuple[Value, ...]:
    return tuple(row[name] for name in handle_key(table))
