"""What the way from a database to a lake consists of: the commands as processes, and both ends compared."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.mariadb_server import Server
from tests.workload import Truth
from tests.workload.compare import differences, expected
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.mysql import handle_key
from ticdc_spark.names import unescape
from ticdc_spark.sinks.iceberg.lake import list_tables, open_lake, read_table

COMMAND = (sys.executable, "-c", "from ticdc_spark.cli import main; main()")


@contextmanager
def process(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command; killed with the context, unless it has ended."""
    with log.open("ab") as out, subprocess.Popen([*COMMAND, *arguments], stdout=out, stderr=out) as started:
        try:
            yield started
        finally:
            started.kill()


def database(server: Server, schema: str) -> Truth:
    """The tables and rows of the server."""
    truth: Truth = {}
    with Upstream(server.uri) as upstream:
        for table in BinlogCapture(server.uri).begin().tables:
            if table.schema in (schema, f"{schema}_more"):
                names = handle_key(table)
                found = server.execute(f"SELECT {', '.join(names)} FROM `{table.schema}`.`{table.name}`")
                keys = [{name: str(value) for name, value in zip(names, key, strict=True)} for key in found]
                virtual = {column.name for column in table.columns if column.virtual}
                rows = {}
                for row in upstream.lookup(table, keys, 0) if keys else []:
                    assert row is not None
                    sent = {name: value for name, value in row.items() if name not in virtual}
                    rows[tuple(sent[name] for name in names)] = sent
                truth[table.schema, table.name] = table, rows
    return truth


def wrong(job_file: Path, truth: Truth, *, grown: bool) -> dict[tuple[str, str], list[str]]:
    """Where the lake differs. ``grown``: its tables were made from rows, so that types may be wider, a table without
    rows is not there, and a column that no row had yet neither."""
    session = open_lake(job_file)
    found = {(unescape(schema), unescape(name)) for schema, name in list_tables(session)}
    unequal = {name: ["should not be there"] for name in found - truth.keys()}
    for name, (table, rows) in truth.items():
        if name not in found:
            if rows or not grown:
                unequal[name] = [f"is missing, with {len(rows)} rows"]
            continue
        there, sent = read_table(session, name), list(rows.values())
        if grown:
            times = [column.name for column in table.columns if column.type.name == "time"]
            sent = [{**row, **{at: _shortest(row[at]) for at in times if at in row}} for row in sent]
            there = _as(there, expected(table, sent).schema)
            for at in times:
                if (place := there.schema.get_field_index(at)) >= 0:
                    there = there.set_column(place, at, pa.array(map(_shortest, there[at].to_pylist()), pa.string()))
        if lines := differences(there, table, sent):
            unequal[name] = lines
    return unequal


def _shortest(time: Any) -> Any:
    """A TIME without zeros at its end: messages of some protocols have it with all six digits."""
    return time.rstrip("0").rstrip(".") if isinstance(time, str) and "." in time else time


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns in their true types. One that is not there must be NULL in all rows."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
