"""A topic in memory, as a source of any kind of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from ticdc_spark.model import Message, Offsets
from ticdc_spark.spark.sources.base import check_start
from ticdc_spark.spark.tasks import Parts
from ticdc_spark.topics.json_lines import to_table

PLACE = ("topic", 0)


class PlainTopic:
    """One partition. As of ``spark.sources.base.Source``, what rows are read by."""

    is_recorded = True

    def __init__(self, *, few: bool = True) -> None:
        """``few``: the driver reads; else tasks do."""
        self.sent: list[Message] = []
        self.few = few

    def beginning_offsets(self) -> Offsets:
        return {PLACE: 0}

    def end_offsets(self) -> Offsets:
        return {PLACE: len(self.sent)}

    def offsets_since(self, commit_ts: int) -> Offsets:
        return self.beginning_offsets()

    def read(self, start: Offsets, end: Offsets, session: object = None) -> list[Message]:
        first = check_start(start, end, self.beginning_offsets(), self.end_offsets())
        return self.sent[first[PLACE] : end[PLACE]] if PLACE in first else []

    def read_here(self, start: Offsets, end: Offsets) -> pa.Table | None:
        return to_table(self.read(start, end)) if self.few else None

    def read_parts(self, start: Offsets, end: Offsets) -> Parts:
        messages = to_table(self.read(start, end))
        size = max(1, -(-len(messages) // 3))
        cut = [messages.slice(at, size) for at in range(0, len(messages), size)]

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from cut[number].to_batches()

        return Parts(len(cut), read)
