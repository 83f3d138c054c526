"""Which rows of a table a job is asked to read again. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table
from ticdc_spark.protocols import image_writer
from ticdc_spark.spark.encode.typed_images import from_arrow
from ticdc_spark.spark.types import arrow_type, is_exact_key
from ticdc_spark.verify.cells import Key
from ticdc_spark.verify.columns import TablePlan
from ticdc_spark.verify.compare import Difference
from ticdc_spark.verify.report import TableReport

MOST_ROWS = 10_000
"""Most rows of a table that are read again singly. They wait in the state of the job."""
_MOST_BYTES = 1 << 20
"""Most bytes of their keys."""
_WHOLE = ("duplicate", "unreadable")
"""Differences for which the whole table is read: a merge may leave a duplicate, and a value that cannot be read cannot
be written."""


def with_keys(report: TableReport, plan: TablePlan, found: Sequence[Difference]) -> TableReport:
    """A report with the keys of more rows that differ; none if it cannot have all."""
    if not found:
        return report
    more = () if any(one.kind in _WHOLE for one in found) else key_images(plan, [one.key for one in found])
    keys = (*report.keys, *more)
    is_whole = len(more) == len(found) and len(keys) <= MOST_ROWS and sum(map(len, keys)) <= _MOST_BYTES
    return msgspec.structs.replace(report, keys=keys if is_whole else ())


def key_images(plan: TablePlan, keys: Sequence[Key]) -> tuple[str, ...]:
    """Keys for ``replicate.state.requests.Repair``; none if some cannot name a row. These are masked keys, NULL, values
    that are not of the column's type, and keys by which a database does not find rows (``is_exact_key``)."""
    columns = [pair.target for pair in plan.key]
    if any(pair.masked for pair in plan.key) or any(None in key for key in keys):
        return ()
    if not all(map(is_exact_key, columns)):
        return ()
    try:
        write = image_writer(Table(schema="", name="", columns=tuple(one.column for one in columns)))
        cells = []
        for at, column in enumerate(columns):
            values, bad = from_arrow(column)(pa.array([key[at] for key in keys], arrow_type(column.type)))
            if bad:
                return ()
            cells.append(values)
        names = [one.column.name for one in columns]
        return tuple(bytes(write(dict(zip(names, row, strict=True)))).decode() for row in zip(*cells, strict=True))
    except (MessageError, pa.ArrowException, UnicodeDecodeError):
        return ()


def rows_to_repair(report: TableReport) -> tuple[str, ...]:
    """The rows of a table that are read again; none: the whole table must be read."""
    is_known = report.result == "different" and not (report.at_least or report.undecided)
    return report.keys if is_known and len(report.keys) == report.differences else ()
