"""How fast a binlog is read: rows a second on one core, from a MariaDB on this machine.

Rows have 10 columns. What is counted is the processor's time of this process, without the server's. Two shapes: rows of
one statement in one transaction each, and 1,000 rows a transaction.

- events: the stream is only cut into events.
- transactions: what ``BinlogCapture.read`` gives, every value canonical.
- python-mysql-replication: the same binlog, its rows as that library gives them, where it is installed.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.integration.binlog_stream import OPTIONS
from tests.support.mariadb_server import Server, running

from ticdc_spark.capture.base import CapturedDdl, CaptureState, Transaction
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.capture.binlog.dump import Dump
from ticdc_spark.capture.binlog.position import read_position
from ticdc_spark.capture.binlog.uri import parse_uri

TABLE = """CREATE TABLE bench.t (id BIGINT UNSIGNED PRIMARY KEY, customer INT, amount DECIMAL(12,2),
state ENUM('new','paid','sent'), note VARCHAR(100), created DATETIME, changed TIMESTAMP(3), weight DOUBLE,
flag TINYINT(1), day DATE)"""
ROWS = """INSERT INTO bench.t SELECT seq, seq % 5000, seq * 1.37, seq % 3 + 1, CONCAT('order number ', seq),
'2024-03-01 12:00:00' + INTERVAL seq SECOND, '2024-03-01 12:00:00.123' + INTERVAL seq SECOND, seq / 7, seq % 2,
'2024-03-01' + INTERVAL seq % 365 DAY FROM mysql.seq_{first}_to_{last}"""
END = "bench_end"


def fill(server: Server, rows: int, at_once: int) -> CaptureState:
    """Write the changes: half of the events are inserts, a third updates. Gives the state before them."""
    server.execute("DROP DATABASE IF EXISTS bench", "CREATE DATABASE bench CHARACTER SET utf8mb4", TABLE)
    state = BinlogCapture(server.uri).begin()
    statements = []
    for first in range(1, rows + 1, at_once):
        last = min(first + at_once - 1, rows)
        statements.append(ROWS.format(first=first, last=last))
        where = f"WHERE id BETWEEN {first} AND {last}"
        if first // at_once % 3:
            statements.append(f"UPDATE bench.t SET amount = amount + 1, changed = created {where}")
        else:
            statements.append(f"DELETE FROM bench.t {where}")
    server.execute(*statements, f"CREATE DATABASE {END}", f"DROP DATABASE {END}")
    return state


def events(server: Server, state: CaptureState) -> int:
    """Cut the stream into events; gives 0, as rows are not known."""
    dump = Dump(parse_uri(server.uri), read_position(state.position).place, 99, mariadb=True, heartbeat=1, wait=False)
    for _ in dump.events():
        pass
    dump.close()
    return 0


def transactions(server: Server, state: CaptureState) -> int:
    """Read transactions; gives the count of rows."""
    source, rows = BinlogCapture(server.uri), 0
    for one in source.read(state):
        if isinstance(one, Transaction):
            rows += len(one.changes)
        elif isinstance(one, CapturedDdl) and one.changes[0].schema == END:
            break
    source.close()
    return rows


def library(server: Server, state: CaptureState) -> int:
    """The same by python-mysql-replication."""
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    place = read_position(state.position).place
    stream = BinLogStreamReader(
        {"host": "127.0.0.1", "port": server.port, "user": "root"},
        98,
        log_file=place.file,
        log_pos=place.offset,
        resume_stream=True,
        only_events=[DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent],
        enable_logging=False,
    )
    rows = sum(len(event.rows) for event in stream)
    stream.close()
    return rows


def measure(read: Callable[[Server, CaptureState], int], server: Server, state: CaptureState) -> tuple[int, float]:
    """Rows and the seconds of this process, the better of two passes."""
    best, rows = float("inf"), 0
    for _ in range(2):
        began = time.process_time()
        rows = read(server, state)
        best = min(best, time.process_time() - began)
    return rows, best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {sys.platform}; rows a second, by the time of this process\n")
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), *OPTIONS) as server:
        for at_once in (1, 1000):
            state = fill(server, options.rows // (20 if at_once == 1 else 1), at_once)
            rows, seconds = measure(transactions, server, state)
            print(f"{at_once} rows a transaction ({rows:,} rows)")
            for name, read in (("events", events), ("python-mysql-replication", library)):
                try:
                    _, other = measure(read, server, state)
                except ImportError:
                    continue
                print(f"  {name:26} {rows / other:12,.0f}")
            print(f"  {'transactions':26} {rows / seconds:12,.0f}")


if __name__ == "__main__":
    main()
