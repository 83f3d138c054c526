"""A recorded topic: a folder of files, each with messages of one partition in order of offset."""

from collections.abc import Iterable
from pathlib import Path

from ticdc_spark.model import Message
from ticdc_spark.topics.writer import Format, RecordWriter

_NO_LIMIT = 1 << 62


def write_topic(messages: Iterable[Message], path: Path, format: Format = "jsonl") -> int:
    """Write messages into the folder ``path``, one file a partition, and return how many there were."""
    path.mkdir(parents=True, exist_ok=True)
    writer, count = RecordWriter(path, format, _NO_LIMIT, _NO_LIMIT), 0
    for count, message in enumerate(messages, 1):  # noqa: B007
        writer.write(message)
    writer.finish()
    return count
