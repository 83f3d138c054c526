"""Filters of Spark, as Spark 4.1 has them: what they let the source leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tests.support.datasource import rows_of
from tests.unit.cli.test_inspect import MS, SIMPLE, topic
from tests.unit.datasource.test_read import record
from ticdc_spark.datasource.bounds import Bounds, Span, bounds_of
from ticdc_spark.datasource.options import read_options
from ticdc_spark.datasource.source import BatchReader, FilteringReader, TicdcDataSource, query_columns
from ticdc_spark.model import Envelope, Op
from ticdc_spark.mysql import tso


class EqualTo(NamedTuple):
    attribute: tuple[str, ...]
    value: Any


class In(NamedTuple):
    attribute: tuple[str, ...]
    value: tuple[Any, ...]


class GreaterThan(NamedTuple):
    attribute: tuple[str, ...]
    value: Any


class LessThanOrEqual(NamedTuple):
    attribute: tuple[str, ...]
    value: Any


class Not(NamedTuple):
    child: Any


def test_filters_on_the_sources_columns_are_bounds() -> None:
    found = bounds_of(
        [
            EqualTo(("schema",), "shop"),
            In(("partition",), (0, 2)),
            EqualTo(("partition",), 2),
            GreaterThan(("offset",), 5),
            LessThanOrEqual(("offset",), 9),
            GreaterThan(("_commit_version",), 7),
        ],
        typed=False,
    )
    assert found == Bounds(
        {"schema": frozenset(["shop"]), "partition": frozenset([2])}, offsets=Span(6, 9), commits=Span(8)
    )


def test_filters_that_are_not_understood_exclude_nothing() -> None:
    others = [
        Not(EqualTo(("offset",), 1)),
        EqualTo(("after", "x"), 1),
        EqualTo(("reason",), "x"),
        EqualTo(("offset",), None),
    ]
    assert bounds_of(others, typed=False) == Bounds()
    # a column of the table may be called as one of the generic form
    assert bounds_of([EqualTo(("offset",), 1), EqualTo(("table",), "x")], typed=True) == Bounds()
    assert bounds_of([EqualTo(("_offset",), 1)], typed=True).offsets == Span(1, 1)


def test_a_change_type_excludes_other_changes_but_no_unreadable_ones() -> None:
    def wants(*types: str) -> set[str]:
        bounds = bounds_of([In(("_change_type",), types)], typed=True)
        ops: tuple[Op, ...] = ("insert", "update", "delete", "upsert")
        return {op for op in ops if bounds.wants_row(Envelope(op=op, schema="s", table="t", commit_ts=1))}

    assert wants("delete") == {"delete"}
    assert wants("update_preimage") == wants("update_postimage") == {"update"}
    assert wants("insert", "upsert") == {"insert", "upsert"}
    assert wants("delete", "unreadable") == {"insert", "update", "delete", "upsert"}


def test_what_filters_exclude_is_not_read(tmp_path: Path) -> None:
    given = {**record(tmp_path, topic(SIMPLE), topic(SIMPLE)), "filter-pushdown": "true", "on-reject": "stop"}
    for table, offset, partition in ((None, "offset", "partition"), ("shop.t", "_offset", "_partition")):
        options = read_options({**given, **({"table": table} if table else {})})
        columns = query_columns(options)
        reader = FilteringReader(options, columns)
        filters = [EqualTo((partition,), 1), GreaterThan((offset,), 1), GreaterThan(("_commit_version",), tso(MS + 2))]
        assert reader.pushFilters(filters) is filters
        (part,) = reader.partitions()
        assert (part.range.partition, part.range.first, part.range.end) == (1, 2, 5)
        assert rows_of([part], columns).column("_change_type").to_pylist() == ["delete"]


def test_a_reader_takes_filters_only_where_the_option_says_so(tmp_path: Path) -> None:
    """Spark 4.1 refuses a reader that takes filters as long as its own setting is off."""
    from pyspark.sql.types import StructType

    options = record(tmp_path, topic(SIMPLE))
    assert type(TicdcDataSource(options).reader(StructType())) is BatchReader
    assert type(TicdcDataSource({**options, "filter-pushdown": "true"}).reader(StructType())) is FilteringReader
