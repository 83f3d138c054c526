"""The source for a storage sink: files that TiCDC writes to a folder or an object store."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.errors import SourceChanged, SourceFault
from ticdc_spark.model import Message, Offsets
from ticdc_spark.spark.sources.base import MESSAGES, KeyValue, OffsetRange, Stretch, check_start, fair_cut
from ticdc_spark.spark.tasks import Parts, is_small
from ticdc_spark.streams.storage_messages import Form
from ticdc_spark.streams.storage_topic import StorageTopic, entry_messages
from ticdc_spark.topics.json_lines import ARROW_SCHEMA, to_table
from ticdc_spark.topics.storage.files import Files
from ticdc_spark.topics.storage.ledger import PLACE, Entry

_TASK_BYTES = 64 << 20
_BATCH_ROWS = 10_000
_NOTHING = (0, 0)


class StorageSinkSource:
    """Reads the files of a storage sink as one partition. ``topics.storage.ledger`` defines its offsets."""

    is_recorded = False

    def __init__(
        self,
        spark: SparkSession | None,
        topic: StorageTopic,
        *,
        starting: Literal["earliest", "latest"] = "earliest",
    ) -> None:
        self._spark, self._topic, self._starting = spark, topic, starting

    @property
    def has_more(self) -> bool:
        return self._topic.has_more

    def starting(self) -> Offsets:
        return {PLACE: self._topic.skip_all() if self._starting == "latest" else 0}

    def beginning_offsets(self) -> Offsets:
        entries = self._topic.ledger.entries
        return {PLACE: entries[0].first if entries else self._topic.ledger.end}

    def end_offsets(self) -> Offsets:
        self._topic.look()
        return {PLACE: self._topic.ledger.end}

    def offsets_since(self, commit_ts: int) -> Offsets:
        return self.beginning_offsets()  # files are forgotten once their rows are applied

    def notes(self, read: Offsets) -> dict[tuple[str, str], str]:
        return {}  # a replaced folder is recognised by its files

    def recall(self, memory: str) -> None:
        self._topic.recall(memory)

    def memory(self, offsets: Offsets, needed: Iterable[Stretch]) -> str:
        return self._topic.memory(offsets, [(first, end) for place, first, end in needed if place == PLACE])

    def retention(self) -> dict[str, float]:
        return {}

    @property
    def unread(self) -> str:
        return self._topic.unread

    def publish(self, offsets: Offsets) -> None:
        return None

    def cap(self, start: Offsets, end: Offsets, max_rows: int, max_bytes: int) -> Offsets:
        """Cut a backlog by the sizes of its files."""
        first, last = start.get(PLACE, 0), end.get(PLACE, 0)
        ranges = (
            OffsetRange(entry.first, entry.end, entry.count, entry.size).clip(first, last)
            for entry in self._topic.entries(first, last)
        )
        return fair_cut({PLACE: [one for one in ranges if one is not None]}, end, max_rows, max_bytes)

    def read(self, start: Offsets, end: Offsets, session: SparkSession | None = None) -> DataFrame:
        """See ``Source``. Python tasks read the files."""
        spark = session or self._spark
        assert spark is not None, "a job has a session"
        parts = self.read_parts(start, end)
        if parts is None:
            return spark.createDataFrame([], MESSAGES)
        return spark.range(0, parts.number, 1, parts.number).mapInArrow(parts.read, MESSAGES)

    def read_parts(self, start: Offsets, end: Offsets) -> Parts | None:
        first, last = self._wanted(start, end)
        entries = self._topic.entries(first, last)
        if not entries:
            return None
        assert self._spark is not None, "a job has a session"
        tasks = _share_out(entries, self._spark.sparkContext.defaultParallelism)
        return Parts(len(tasks), _reader(self._topic.files, self._topic.form, tasks, (first, last)))

    def read_here(self, start: Offsets, end: Offsets) -> pa.Table | None:
        first, last = self._wanted(start, end)
        entries = self._topic.entries(first, last)
        messages = sum(min(one.end, last) - max(one.first, first) for one in entries)
        if not is_small(messages, sum(one.size for one in entries)):
            return None
        return to_table(list(self._topic.messages(first, last)))

    def messages(self, start: Offsets, end: Offsets) -> list[Message]:
        """The messages [start, end), in order."""
        return list(self._topic.messages(*self._wanted(start, end)))

    def first_messages(self, start: Offsets, end: Offsets, limit: int) -> list[KeyValue]:
        first, last = self._wanted(start, end)
        found = self._topic.messages(first, min(last, first + limit))
        return [(one.key, one.value) for one in found]

    def close(self) -> None:
        """See ``Source``: nothing stays open."""

    def _wanted(self, start: Offsets, end: Offsets) -> tuple[int, int]:
        ends = {PLACE: self._topic.ledger.end}
        # Between two files with waiting rows, other files may be gone: their rows are no longer needed.
        first = check_start(start, end, dict.fromkeys(ends, 0), ends)
        return (first[PLACE], end[PLACE]) if PLACE in first else _NOTHING


def _share_out(entries: Sequence[Entry], parallelism: int) -> list[list[Entry]]:
    """Group neighbouring files into tasks of about ``_TASK_BYTES``, or less if cores would be idle."""
    limit = min(_TASK_BYTES, max(1, sum(entry.size for entry in entries) // parallelism))
    tasks: list[list[Entry]] = [[]]
    filled = 0
    for entry in entries:
        if filled and filled + entry.size > limit:
            tasks.append([])
            filled = 0
        tasks[-1].append(entry)
        filled += entry.size
    return tasks


def _reader(
    files: Files, form: Form, tasks: list[list[Entry]], wanted: tuple[int, int]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for entry in tasks[task]:
                    yield from _batches(partial(entry_messages, files, form, entry, wanted))

    return read


def _batches(messages: Callable[[], Iterator[Message]]) -> Iterator[pa.RecordBatch]:
    try:
        held: list[Message] = []
        for message in messages():
            held.append(message)
            if len(held) == _BATCH_ROWS:
                yield from to_table(held).to_batches()
                held = []
        yield from to_table(held).to_batches() if held else ARROW_SCHEMA.empty_table().to_batches()
    except SourceChanged as error:
        raise SourceFault(str(error)) from error  # the driver only knows SourceFault from a task
