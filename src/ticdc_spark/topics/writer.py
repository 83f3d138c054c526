"""Writes a recorded topic in segments. A segment appears completely or not at all."""

import fcntl
import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, get_args

import msgspec
import pyarrow.parquet as pq

from ticdc_spark.errors import EnvironmentFault, UsageError
from ticdc_spark.model import Message
from ticdc_spark.topics.json_lines import ARROW_SCHEMA, to_table

Format: TypeAlias = Literal["jsonl", "jsonl.gz", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)

_FLUSH_ROWS = 20_000
_FLUSH_BYTES = 8 << 20


class _Body(Protocol):
    def write(self, messages: list[Message]) -> None: ...
    def close(self) -> None: ...


class RecordWriter:
    """Appends messages to segments, one open segment a partition.

    A segment is written under a name that starts with a dot, and renamed when it is full or at ``finish``. So after a
    kill the folder has only whole segments, and messages that are not in them must be fetched again.
    """

    def __init__(self, folder: Path, kind: Format, segment_rows: int, segment_bytes: int) -> None:
        self._folder = folder
        self._kind: Format = kind
        self._rows = segment_rows
        self._bytes = segment_bytes
        self._open: dict[tuple[str, int], _Segment] = {}
        self.files = 0
        """How many segments are finished."""

    def write(self, message: Message) -> None:
        """Add a message. Messages of one partition must be in the order of offsets.

        Raises: EnvironmentFault if the folder cannot be written.
        """
        partition = (message.topic, message.partition)
        segment = self._open.get(partition)
        if segment is None:
            segment = self._open[partition] = _Segment(self._folder, self._kind, message)
        segment.add(message)
        if segment.rows >= self._rows or segment.bytes >= self._bytes:
            del self._open[partition]
            self._finish(segment)

    def finish(self) -> None:
        """Finish every open segment."""
        for partition in list(self._open):
            self._finish(self._open.pop(partition))

    def _finish(self, segment: "_Segment") -> None:
        segment.finish()
        self.files += 1


@contextmanager
def recording(folder: Path) -> Iterator[None]:
    """Create the folder, lock it against other recorders, and delete unfinished files of a killed one.

    Raises: UsageError if another recorder uses it, or the path is a file.
    """
    if folder.is_file():
        raise UsageError(f"{folder} is a file; a recording goes to a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("ab")
    except OSError as error:
        raise EnvironmentFault(f"{folder}: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"another recorder writes to {folder}") from error
        for left in folder.glob(".messages-*.tmp"):
            left.unlink()
        yield


class _Segment:
    def __init__(self, folder: Path, kind: Format, first: Message) -> None:
        self._path = folder / f"messages-{first.topic}-{first.partition}-{first.offset:020d}.{kind}"
        self._partial = folder / f".{self._path.name}.tmp"
        self._body: _Body | None = None
        self._kind = kind
        self._waiting: list[Message] = []
        self._waiting_bytes = 0
        self.rows = 0
        self.bytes = 0

    def add(self, message: Message) -> None:
        size = len(message.key or b"") + len(message.value or b"")
        self._waiting.append(message)
        self._waiting_bytes += size
        self.rows += 1
        self.bytes += size
        if len(self._waiting) >= _FLUSH_ROWS or self._waiting_bytes >= _FLUSH_BYTES:
            self._flush()

    def finish(self) -> None:
        try:
            self._flush()
            assert self._body is not None
            self._body.close()
            # On disk before the rename, or a power cut could leave a named file with holes.
            with self._partial.open("rb") as file:
                os.fsync(file.fileno())
            self._partial.rename(self._path)
        except OSError as error:
            raise EnvironmentFault(f"{self._path}: {error.strerror or error}") from error

    def _flush(self) -> None:
        try:
            if self._body is None:
                self._body = _BODIES[self._kind](self._partial)
            if self._waiting:
                self._body.write(self._waiting)
        except OSError as error:
            raise EnvironmentFault(f"{self._path}: {error.strerror or error}") from error
        self._waiting = []
        self._waiting_bytes = 0


class _JsonBody:
    def __init__(self, file: BufferedWriter | gzip.GzipFile) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder()

    def write(self, messages: list[Message]) -> None:
        self._file.write(self._encoder.encode_lines(messages))

    def close(self) -> None:
        self._file.close()


class _ParquetBody:
    """One row group for each flush. It has one partition, so the footer shows its offsets."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetWriter(path, ARROW_SCHEMA, compression="zstd", use_dictionary=["topic"])

    def write(self, messages: list[Message]) -> None:
        self._file.write_table(to_table(messages))

    def close(self) -> None:
        self._file.close()


_BODIES: dict[Format, Callable[[Path], _Body]] = {
    "jsonl": lambda path: _JsonBody(path.open("wb")),
    "jsonl.gz": lambda path: _JsonBody(gzip.open(path, "wb", compresslevel=3)),  # noqa: SIM115 – closed by its segment
    "parquet": _ParquetBody,
}
