"""A recorded topic: a folder of files, each with messages of one partition in order of offset."""

import gzip
from base64 import b64encode
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Literal, TypeAlias, cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ticdc_spark.model import Message

RecordFormat: TypeAlias = Literal["jsonl", "jsonl.gz", "parquet"]

PARQUET_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
"""Columns of a recorded topic in Parquet; ``timestamp`` is milliseconds since the epoch."""
_ROW_GROUP = 1 << 16
_LINES = 1 << 10

_Write: TypeAlias = Callable[[list[Message]], None]


def write_topic(messages: Iterable[Message], path: Path, format: RecordFormat = "jsonl") -> int:
    """Write messages into the folder ``path``, one file a partition, and return how many there were.

    JSON lines hold ``topic, partition, offset, timestamp, key, value``, key and value in base64 or null. Parquet has
    the same columns, key and value binary, zstd, row groups of 64 Ki rows.
    """
    path.mkdir(parents=True, exist_ok=True)
    size = _ROW_GROUP if format == "parquet" else _LINES
    count = 0
    with ExitStack() as files:
        writers: dict[tuple[str, int], _Write] = {}
        waiting: dict[tuple[str, int], list[Message]] = {}
        for count, message in enumerate(messages, 1):  # noqa: B007
            place = (message.topic, message.partition)
            held = waiting.setdefault(place, [])
            held.append(message)
            if len(held) >= size:
                _writer(writers, place, path, format, files)(held)
                held.clear()
        for place, held in waiting.items():
            _writer(writers, place, path, format, files)(held)
    return count


def _writer(
    writers: dict[tuple[str, int], _Write], place: tuple[str, int], path: Path, kind: RecordFormat, files: ExitStack
) -> _Write:
    if place not in writers:
        file = path / f"{place[0]}-{place[1]:05d}.{kind}"
        if kind == "parquet":
            writers[place] = _parquet(files.enter_context(pq.ParquetWriter(file, PARQUET_SCHEMA, compression="zstd")))
        else:
            plain = files.enter_context(file.open("wb"))
            packed = gzip.GzipFile(fileobj=plain, mode="wb", compresslevel=5, mtime=0) if kind == "jsonl.gz" else plain
            writers[place] = _lines(cast(IO[bytes], files.enter_context(packed)))
    return writers[place]


def _parquet(file: pq.ParquetWriter) -> _Write:
    def write(messages: list[Message]) -> None:
        columns = {
            field.name: pa.array([getattr(message, field.name) for message in messages], field.type)
            for field in PARQUET_SCHEMA
        }
        file.write_table(pa.table(columns, schema=PARQUET_SCHEMA), row_group_size=_ROW_GROUP)

    return write


def _lines(file: IO[bytes]) -> _Write:
    encode = msgspec.json.Encoder().encode

    def line(message: Message) -> bytes:
        key, value = message.key, message.value
        return encode(
            {
                "topic": message.topic,
                "partition": message.partition,
                "offset": message.offset,
                "timestamp": message.timestamp,
                "key": None if key is None else b64encode(key).decode(),
                "value": None if value is None else b64encode(value).decode(),
            }
        )

    def write(messages: list[Message]) -> None:
        file.write(b"\n".join(map(line, messages)) + b"\n")

    return write
