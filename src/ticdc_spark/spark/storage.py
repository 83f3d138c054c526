"""Files of the lake as Python reads and writes them, in tasks and on the driver: a disk, or a store with a URI.

A ``Storage`` goes to the tasks. A path is spelt as pyarrow's file systems have it: ``/lake/t/data/x.parquet`` on a
disk, ``bucket/lake/t/data/x.parquet`` in an object store.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "hdfs": "hdfs",
    "viewfs": "hdfs",
    "abfs": "abfs",
    "abfss": "abfs",
}
"""Schemes of locations, and which file system opens them."""
WHOLE = 8 << 20
"""Bytes up to which a file of a store is read in one request."""


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """A file system, and how to reach it. The default is the local disk."""

    kind: str = "file"
    """``file``, or one of ``SCHEMES``' file systems."""
    host: str = ""
    """The account of an ``abfs`` location, the name node of ``hdfs``."""
    options: tuple[tuple[str, str], ...] = ()
    """Arguments of pyarrow's file system; secrets among them."""

    @property
    def is_local(self) -> bool:
        """Whether it is this machine's disk."""
        return self.kind == "file"

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self.options)
        return f"Storage({self.kind}, {self.host!r}, options: {names})"


LOCAL = Storage()


def local_folder(location: str) -> Path | None:
    """The local path of a location; ``None`` when it is on another file system."""
    path = location.removeprefix("file:")
    path = path.removeprefix("//") if path.startswith("///") else path
    return Path(path) if path.startswith("/") and not path.startswith("//") else None


def path_in(storage: Storage, location: str) -> str | None:
    """The path of a location; ``None`` when it lies elsewhere."""
    if storage.is_local:
        folder = local_folder(location)
        return None if folder is None else str(folder)
    scheme, separator, rest = location.partition("://")
    if not separator or SCHEMES.get(scheme) != storage.kind:
        return None
    if storage.kind in ("s3", "gs"):
        return rest  # Iceberg takes the rest as the key, whatever is in it
    split = urlsplit(location)
    if storage.host != host_of(location):
        return None
    path = unquote(split.path)
    return path if storage.kind == "hdfs" else f"{split.username or ''}{path}"


def host_of(location: str) -> str:
    """``Storage.host`` of a location."""
    split = urlsplit(location)
    kind = SCHEMES.get(split.scheme)
    if kind == "hdfs":
        return f"{split.scheme}://{split.netloc}"
    return (split.hostname or "") if kind == "abfs" else ""


def name_of(storage: Storage, path: str) -> str:
    """A path for people."""
    return path if storage.is_local else f"{storage.kind}://{path.removeprefix('/')}"


@lru_cache(maxsize=16)
def file_system(storage: Storage) -> Any:
    """pyarrow's file system, opened once a process. Raises: OSError, ValueError for options that do not fit"""
    options: dict[str, Any] = dict(storage.options)
    if storage.kind == "s3":
        return _s3(options)
    if storage.kind == "gs":
        return pyarrow.fs.GcsFileSystem(**options)
    if storage.kind == "abfs":
        return pyarrow.fs.AzureFileSystem(storage.host.partition(".")[0], **options)
    if storage.kind == "hdfs":
        split = urlsplit(storage.host)
        host = storage.host if split.scheme == "viewfs" else split.hostname or "default"
        return pyarrow.fs.HadoopFileSystem(host, split.port or 0, **options)
    return pyarrow.fs.LocalFileSystem()


def _s3(options: dict[str, Any]) -> Any:
    """``force_virtual_addressing`` is text here."""
    make = pyarrow.fs.S3FileSystem
    if "force_virtual_addressing" in options:
        options["force_virtual_addressing"] = options["force_virtual_addressing"] == "true"
    try:
        return make(**options, allow_delayed_open=True)  # a small file is one request instead of three
    except TypeError:  # an older pyarrow
        return make(**options)


def open_new(storage: Storage, path: str) -> Any:
    """A new file to write to: a ``NativeFile``; folders are made. Raises: OSError"""
    if storage.is_local:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return pa.OSFile(path, "wb")
    return file_system(storage).open_output_stream(path, compression=None)


def write_parquet(storage: Storage, path: str, table: pa.Table, **options: Any) -> tuple[int, bytes]:
    """Write a new file; returns its size and its footer, the ``FileMetaData`` of Parquet. Raises: OSError"""
    try:
        return _write(storage, path, table, options)
    except OSError:
        _remove(storage, path)
        raise


def _write(storage: Storage, path: str, table: pa.Table, options: Mapping[str, Any]) -> tuple[int, bytes]:
    collected: list[pq.FileMetaData] = []
    with open_new(storage, path) as sink:
        try:
            pq.write_table(table, sink, metadata_collector=collected, store_schema=False, **options)
        except RuntimeError as error:
            # With a collector, a writer that failed has no footer to give, and that would hide why it failed.
            raise error.__context__ if isinstance(error.__context__, OSError) else error from None
        size: int = sink.tell()
    return size, footer_of(collected[0])


def write_bytes(storage: Storage, path: str, content: bytes) -> None:
    """Write a new file. Raises: OSError"""
    try:
        with open_new(storage, path) as sink:
            sink.write(content)
    except OSError:
        _remove(storage, path)
        raise


def _remove(storage: Storage, path: str) -> None:
    """Remove what is there of a file as well as it goes: else it stays, and belongs to no commit."""
    try:
        file_system(storage).delete_file(path)
    except OSError:
        return


def footer_of(metadata: pq.FileMetaData) -> bytes:
    """The bytes of a footer, without the file's magic numbers and the length."""
    whole = pa.BufferOutputStream()
    metadata.write_metadata_file(whole)
    found: bytes = whole.getvalue()[4:-8].to_pybytes()
    return found


def read_bytes(storage: Storage, path: str) -> bytes:
    """A whole file. Raises: OSError"""
    if storage.is_local:
        return Path(path).read_bytes()
    with file_system(storage).open_input_file(path) as file:
        found: bytes = file.read()
    return found


def read_range(storage: Storage, path: str, offset: int, size: int) -> bytes:
    """``size`` bytes of a file from ``offset`` on, or those that there are. Raises: OSError"""
    with pa.OSFile(path) if storage.is_local else file_system(storage).open_input_file(path) as file:
        found: bytes = file.read_at(size, offset)
    return found


def open_parquet(storage: Storage, path: str, size: int, **options: Any) -> pq.ParquetFile:
    """A Parquet file of ``size`` bytes, opened for reading; small ones are fetched whole. Raises: OSError"""
    if storage.is_local:
        return pq.ParquetFile(path, memory_map=True, **options)
    if size <= WHOLE:
        return pq.ParquetFile(pa.BufferReader(read_bytes(storage, path)), **options)
    return pq.ParquetFile(file_system(storage).open_input_file(path), pre_buffer=True, **options)


def list_files(storage: Storage, folder: str) -> list[str]:
    """Paths of all files under a folder, which need not be there. Raises: OSError"""
    chosen = pyarrow.fs.FileSelector(folder, allow_not_found=True, recursive=True)
    return [info.path for info in file_system(storage).get_file_info(chosen) if info.type == pyarrow.fs.FileType.File]
