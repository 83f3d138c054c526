"""The net change of each key in Spark: for a sink that merges with Spark SQL, and for changes ordered by a column."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from ticdc_spark.changes.columns import ALWAYS, FIRST, OP, TIES
from ticdc_spark.spark.decode.rows import BAD, ORDER, SEQ, TS, UNKEPT
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn

GONE = "_ticdc_gone"
"""Column of ``last_deletes``: the commit_ts of a key's last delete."""
_NUMBER = "_ticdc_number"
_LOGICAL = (1 << 18) - 1
"""Bits of a TSO below its milliseconds: 0 in a timestamp that is a time and not a TSO."""


def readable(typed: DataFrame) -> DataFrame:
    """The readable rows."""
    return typed.where(sf.col(BAD).isNull())


def net_changes(typed: DataFrame, columns: Sequence[LakeColumn]) -> DataFrame:
    """One row per key: its last event, with the op of its first event in ``FIRST``.

    Events are ordered by commit_ts; at one commit_ts a delete comes before the insert that follows it.
    """
    keys = [quote(column.name) for column in columns if column.key]
    order = [sf.col(TS), sf.when(sf.col(OP) == "d", 0).otherwise(1), sf.col(ORDER), sf.col(SEQ)]
    window = Window.partitionBy(*keys).orderBy(*order)
    return (
        typed.withColumn(FIRST, sf.lower(sf.first(OP).over(window)))
        .withColumn(BAD, sf.lead(sf.lit(1)).over(window).cast("string"))
        .where(sf.col(BAD).isNull())
        .select(_as_delete().alias(OP), FIRST, *(quote(column.name) for column in columns))
    )


def newest_changes(typed: DataFrame, columns: Sequence[LakeColumn]) -> DataFrame:
    """One row per key: its newest change, with the commit_ts in ``TS``. It also has whether it overwrites a row of the
    table with the same commit_ts (``TIES``), or with any commit_ts (``ALWAYS``).

    At one commit_ts, a delete comes before the insert that follows it; otherwise offsets decide the order. If only the
    millisecond is known, offsets decide within it, also for deletes. But the delete of the old key of a key change
    comes first even then: one statement may give that key to another row. A delete without commit_ts gets the commit_ts
    of the change before it.
    """
    keys = [quote(column.name) for column in columns if column.key]
    hidden = (sf.col(OP) == "d") & (sf.col(TS) == 0)
    before = Window.partitionBy(*keys).orderBy(ORDER, SEQ).rowsBetween(Window.unboundedPreceding, 0)
    exact = sf.col(TS).bitwiseAND(_LOGICAL) != 0
    first = (sf.col(OP) == "d") & (exact | (sf.col(SEQ) < 0)) & ~sf.col(ALWAYS)
    order = [sf.col(TS), sf.when(first, 0).otherwise(1), sf.col(ORDER), sf.col(SEQ)]
    last = Window.partitionBy(*keys).orderBy(*(column.desc() for column in order))
    return (
        typed.withColumn(ALWAYS, hidden)
        .withColumn(TS, sf.when(hidden, sf.max(TS).over(before)).otherwise(sf.col(TS)))
        .withColumn(TIES, ~first)
        .withColumn(_NUMBER, sf.row_number().over(last))
        .where(sf.col(_NUMBER) == 1)
        .withColumn(ALWAYS, sf.col(ALWAYS) & (sf.col(TS) == 0))
        .select(_as_delete().alias(OP), TS, TIES, ALWAYS, *(quote(column.name) for column in columns))
    )


def _as_delete() -> Column:
    """See ``rows.as_deletes``."""
    return sf.when(sf.col(OP).isin(*UNKEPT), "d").otherwise(sf.col(OP))


def last_deletes(typed: DataFrame, columns: Sequence[LakeColumn]) -> DataFrame:
    """For each key with deletes among typed rows, the commit_ts of the last delete, in ``GONE``."""
    keys = [quote(column.name) for column in columns if column.key]
    deleted = typed.where((_as_delete() == "d") & sf.col(BAD).isNull())
    return deleted.groupBy(*keys).agg(sf.max(TS).alias(GONE))


def not_deleted_since(newest: DataFrame, deletes: DataFrame, columns: Sequence[LakeColumn]) -> DataFrame:
    """The newest changes, without changes that are older than a delete of their key that was read earlier."""
    keys = [column.name for column in columns if column.key]
    joined = newest.join(deletes, keys, "left")
    return joined.where(sf.col(GONE).isNull() | (sf.col(TS) >= sf.col(GONE))).select(*newest.columns)
