"""How fast a changefeed's rows are filtered, split and dispatched: rows a second on one core, without Spark or Kafka.

A table of 10 columns; transactions of 100 rows, of which 60 are inserts, 30 updates and 10 deletes. What is counted is
the processor's time of this process, and of several passes the fastest.

- partition: the partition of each change alone.
- whole: a transaction's net changes, each filtered and split, then its partition.
"""

from __future__ import annotations

import argparse
import platform

from tests.support.changefeed_tables import changefeed, dispatch_rule, event_filter, filters

from benchmarks.codecs import rate
from ticdc_spark.capture.base import Transaction
from ticdc_spark.changefeed.config.settings import ColumnSelector
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Row, RowChange, Table

ROWS = 20_000
PARTITIONS = 16
TABLE = """CREATE TABLE orders (id bigint primary key, customer int not null, status varchar(16), amount decimal(12,2),
weight double, note varchar(64), created datetime(3), changed timestamp, flags int, code char(8))"""

SUBJECTS: dict[str, dict[str, object]] = {
    "default": {},
    "index-value": {"dispatchers": (dispatch_rule(matcher=("*.*",), partition="index-value"),)},
    "index-value, raw": {
        "dispatchers": (dispatch_rule(matcher=("*.*",), partition="index-value"),),
        "output_raw_change_event": True,
    },
    "columns (4)": {
        "dispatchers": (
            dispatch_rule(matcher=("*.*",), partition="columns", columns=("customer", "weight", "changed", "code")),
        )
    },
    "ignore-event": {"filter": filters(event_filters=(event_filter(matcher=("*.*",), ignore_event=("delete",)),))},
    "value expression": {
        "filter": filters(
            event_filters=(
                event_filter(
                    matcher=("*.*",),
                    ignore_insert_value_expr="amount < 0.5 AND status = 'test'",
                    ignore_update_new_value_expr="amount < 0.5 AND status = 'test'",
                ),
            )
        )
    },
    "column selector": {"column_selectors": (ColumnSelector(matcher=("*.*",), columns=("*", "!note", "!weight")),)},
}


def transactions(table: Table) -> list[Transaction]:
    """Transactions over rows that are all different."""
    found = []
    for first in range(0, ROWS, 100):
        changes = []
        for number in range(first, first + 100):
            row = _row(number, "1.50")
            kind = number % 10
            if kind < 6:
                changes.append(RowChange(op="insert", table=table, commit_ts=first + 1, after=row))
            elif kind < 9:
                changes.append(
                    RowChange(op="update", table=table, commit_ts=first + 1, before=row, after=_row(number, "2.50"))
                )
            else:
                changes.append(RowChange(op="delete", table=table, commit_ts=first + 1, before=row))
        found.append(Transaction(commit_ts=first + 1, changes=tuple(changes), position=""))
    return found


def _row(number: int, amount: str) -> Row:
    return {
        "id": str(number), "customer": str(number % 977), "status": "paid", "amount": amount, "weight": "0.25",
        "note": "a note of some length", "created": "2024-02-29 12:30:00.500", "changed": "2024-02-29 12:30:00",
        "flags": "3", "code": "ABCDEFGH",
    }  # fmt: skip


def measure(name: str, seconds: float) -> tuple[float, float]:
    """Rows a second: the partition alone, and the whole."""
    router = Router(changefeed(**{"time_zone": "Asia/Shanghai", **SUBJECTS[name]}))
    table = parse_create(TABLE, "shop")
    work = transactions(table)
    changes = [change for one in work for change in one.changes]

    def partitions() -> None:
        of = router.route(table).partition
        for change in changes:
            of(change, PARTITIONS)

    def whole() -> None:
        for one in work:
            for route, change in router.rows(one):
                route.partition(change, PARTITIONS)

    return rate(ROWS, partitions, seconds), rate(ROWS, whole, seconds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    seconds = parser.parse_args().seconds
    print(f"Python {platform.python_version()}, {platform.machine()}; rows a second on one core")
    print(f"{'':20} {'partition':>12} {'whole':>12}")
    for name in SUBJECTS:
        partition, whole = measure(name, seconds)
        print(f"{name:20} {partition:12,.0f} {whole:12,.0f}")


if __name__ == "__main__":
    main()
