"""Messages that the driver holds in memory, while several threads read tables and let go of messages."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.changes.test_scan import CONFIG, ENCODERS
from tests.workload import dispatch, generate
from ticdc_spark.changes.opening import Opening
from ticdc_spark.changes.ranges import RowRange, RowScan
from ticdc_spark.changes.spark_topic import SparkTopicRows
from ticdc_spark.model import Envelope, Message, Offsets
from ticdc_spark.protocols import decoder
from ticdc_spark.spark.decode.raw import RawRows
from ticdc_spark.topics.json_lines import to_table

MESSAGES = list(dispatch(generate(CONFIG), CONFIG, ENCODERS["simple"]))
ENDS = {(one.topic, one.partition): one.offset + 1 for one in MESSAGES}


class InMemory:
    """A source whose messages this process has."""

    is_recorded = True

    def read_here(self, start: Offsets, end: Offsets) -> pa.Table:
        return to_table([one for one in MESSAGES if start.get(place(one), 0) <= one.offset < end.get(place(one), 0)])


def place(message: Message) -> tuple[str, int]:
    return message.topic, message.partition


def rows() -> Iterator[tuple[tuple[str, str], tuple[str, int], int, int]]:
    """(table, partition, offset, commit_ts) of every row."""
    for message in MESSAGES:
        for event in decoder("simple").open_message(message.key, message.value):
            if isinstance(event, Envelope):
                yield (event.schema, event.table), place(message), message.offset, event.commit_ts


ROWS = list(rows())
TABLES = sorted({table for table, *_ in ROWS})


def wanted(table: tuple[str, str], cut: int) -> RowScan:
    """All rows of a table, by ranges that end at multiples of ``cut``."""
    ranges = [
        RowRange(*at, first, min(first + cut, end), table)
        for at, end in ENDS.items()
        for first in range(0, end, cut)
        if any(one[:2] == (table, at) and first <= one[2] < first + cut for one in ROWS)
    ]
    return RowScan(table=table, ranges=tuple(ranges), above=0, upto=1 << 63)


def topic() -> SparkTopicRows:
    spark: Any = None  # what is small is read without it
    source: Any = InMemory()
    return SparkTopicRows(spark, source, Opening(protocol="simple"))


def stamps(batches: Iterable[RawRows]) -> list[int]:
    return sorted(ts for batch in batches for ts in batch.about.column("commit_ts").to_pylist())


def test_rows_stay_whole_while_other_tables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ticdc_spark.changes.held.MOST_HELD", 250)
    topics, (table, *others) = topic(), TABLES
    scan = wanted(table, 5)

    def others_first(batches: Iterable[RawRows]) -> Iterator[pa.RecordBatch]:
        for other in others:
            topics.held(wanted(other, 7))
        found = stamps(batches)
        yield pa.record_batch([pa.array([str(found).encode()])], ["found"])

    raw = topics.raw(scan)
    assert raw.is_here
    assert raw.run(others_first) == [str(sorted(ts for one, _, _, ts in ROWS if one == table)).encode()]


def test_threads_that_read_at_the_same_time_lose_no_row() -> None:
    for cut in range(3, 60):
        topics, begin = topic(), threading.Barrier(len(TABLES))

        def read(number: int, topics: SparkTopicRows = topics, begin: Any = begin, cut: int = cut) -> bool:
            scan = wanted(TABLES[number], cut + number)
            begin.wait()
            held = topics.held(scan)
            assert held is not None
            expected = sorted(ts for table, _, _, ts in ROWS if table == scan.table)
            return stamps(topics.rows(held, scan)) == expected

        with ThreadPoolExecutor(len(TABLES)) as pool:
            assert all(pool.map(read, range(len(TABLES))))
