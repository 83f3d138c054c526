"""Net changes of a table: as a row delta where one task can do it, else by Spark, as an append and a MERGE.

A key whose first event is an insert is new where the table is known to equal the source, so it may be appended without
looking for it. Everything else is merged. A table that is appended to and merged in one go takes two commits, each
with its mark.
"""

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from ticdc_spark import failpoints
from ticdc_spark.sinks.base import Applied, NetChanges
from ticdc_spark.sinks.iceberg.changelog import IcebergChangeLog
from ticdc_spark.sinks.iceberg.faults import quote
from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.rows.direct import apply_directly
from ticdc_spark.sinks.iceberg.rows.spark_writer import SparkWriter
from ticdc_spark.sinks.iceberg.unreadable import readable
from ticdc_spark.spark.decode.combine import combine
from ticdc_spark.spark.decode.rows import BAD, OP, ORDER, SEQ, TS, read_rows, rows_ddl
from ticdc_spark.spark.tasks import chain, counted
from ticdc_spark.spark.types import LakeColumn

MIN_APPEND_ROWS = 50_000
"""Inserts in a scan with other changes from which on they are appended by a commit of their own."""
FIRST = "_ticdc_first"
"""Op of a key's first event in the scan."""


def apply_net_changes(tables: SparkWriter, log: IcebergChangeLog, changes: NetChanges) -> Applied:
    """Apply one net change a key. See ``Sink.apply_net_changes``."""
    plan = msgspec.structs.replace(changes.plan, strict=not changes.leave_out_unreadable)
    columns = plan.columns
    with tables.session() as session:
        zeros, rows = session.sparkContext.accumulator(0), session.sparkContext.accumulator(0)
        read = read_rows(plan, zeros)
        way = _why_not(changes) or apply_directly(tables, log, session, changes, chain(counted(rows), read))
        before = 0
        if isinstance(way, Closed) and way != log.closed:
            tables.note_way(changes.table, way.reason)
        if way != "done":
            before = zeros.value
            only_inserts = not changes.others
            appends = way != "touched" and _is_worth_appending(changes)
            keys = [column.name for column in columns if column.key]
            one_a_key = combine(keys, keep_first=appends and not only_inserts)
            typed = log.map_rows(session, changes.scan, chain(read, one_a_key), rows_ddl(columns))
            if changes.leave_out_unreadable:
                typed = readable(typed)
            _write(tables, net_changes(typed, columns), changes, appends=appends, only_inserts=only_inserts)
        # Spark may read rows more than once for a MERGE.
        return Applied(zero_dates=zeros.value - before, rows=rows.value if way == "done" else None)


def _why_not(changes: NetChanges) -> Closed | None:
    """Why tasks should not write these, whatever their table is."""
    return Closed("rows that cannot be read are left out") if changes.leave_out_unreadable else None


def _is_worth_appending(changes: NetChanges) -> bool:
    """Two commits and a cache cost more than they save where there is little to append."""
    if not changes.new_keys:
        return False
    many = changes.inserts >= max(MIN_APPEND_ROWS, changes.others)
    return not changes.others or (many and changes.appended is not None)


def net_changes(typed: DataFrame, columns: tuple[LakeColumn, ...]) -> DataFrame:
    """One row a key: its last event, with the op of its first one in ``FIRST``.

    Events are ordered by commit_ts; at one commit_ts a delete comes before the insert that follows it.
    """
    keys = [quote(column.name) for column in columns if column.key]
    order = [sf.col(TS), sf.when(sf.col(OP) == "d", 0).otherwise(1), sf.col(ORDER), sf.col(SEQ)]
    window = Window.partitionBy(*keys).orderBy(*order)
    return (
        typed.withColumn(FIRST, sf.first(OP).over(window))
        .withColumn(BAD, sf.lead(sf.lit(1)).over(window).cast("string"))
        .where(sf.col(BAD).isNull())
        .select(OP, FIRST, *(quote(column.name) for column in columns))
    )


def _write(tables: SparkWriter, net: DataFrame, changes: NetChanges, *, appends: bool, only_inserts: bool) -> None:
    name, columns = changes.table, changes.plan.columns
    if not appends:
        tables.merge(name, net, columns, changes.stamp)
    elif only_inserts:
        if not tables.append(name, net, columns, changes.stamp):
            tables.merge(name, net, columns, changes.stamp)
        failpoints.point("append")
    else:
        assert changes.appended is not None, "that is why rows are appended"
        first = msgspec.structs.replace(changes.appended, seen=changes.stamp.seen)
        whole = net.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            new = sf.col(FIRST) == "i"
            rest = whole
            if tables.append(name, whole.where(new & (sf.col(OP) != "d")), columns, first):
                failpoints.point("append")
                rest = whole.where(~new)
            tables.merge(name, rest, columns, changes.stamp)
        finally:
            whole.unpersist()
