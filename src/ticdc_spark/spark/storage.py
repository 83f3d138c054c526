"""Access to files of the lake from Python, in tasks and on the driver: on a disk, or in a store with a URI.

A ``Storage`` is sent to the tasks. Paths are spelt as for pyarrow's file systems: ``/lake/t/data/x.parquet`` on a disk,
``bucket/lake/t/data/x.parquet`` in an object store.
"""

from collections.abc import Iterable, Mapping
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
"""Schemes of locations, and the file system for each."""
WHOLE = 8 << 20
"""A file of a store up to this size is read with one request."""


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """A file system and its settings. The default is the local disk."""

    kind: str = "file"
    """``file``, or a file system of ``SCHEMES``."""
    host: str = ""
    """The account of an ``abfs`` location, the name node of ``hdfs``."""
    options: tuple[tuple[str, str], ...] = ()
    """Arguments of pyarrow's file system, including secrets."""

    @property
    def is_local(self) -> bool:
        """Whether it is this machine's disk."""
        return self.kind == "file"

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self.options)
        return f"Storage({self.kind}, {self.host!r}, options: {names})"


LOCAL = Storage()


def local_folder(location: str) -> Path | None:
    """The local path of a location; ``None`` if it is on another file system."""
    path = location.removeprefix("file:")
    path = path.removeprefix("//") if path.startswith("///") else path
    return Path(path) if path.startswith("/") and not path.startswith("//") else None


def path_in(storage: Storage, location: str) -> str | None:
    """The path of a location in a storage; ``None`` if it is elsewhere."""
    if storage.is_local:
        folder = local_folder(location)
        return None if folder is None else str(folder)
    scheme, separator, rest = location.partition("://")
    if not separator or SCHEMES.get(scheme) != storage.kind:
        return None
    if storage.kind in ("s3", "gs"):
        return rest  # Iceberg uses the rest as the key, whatever it contains
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
    """pyarrow's file system, opened once per process. Raises: OSError; ValueError for invalid options"""
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
    """Open S3. Here ``force_virtual_addressing`` is a text."""
    make = pyarrow.fs.S3FileSystem
    if "force_virtual_addressing" in options:
        options["force_virtual_addressing"] = options["force_virtual_addressing"] == "true"
    try:
        return make(**options, allow_delayed_open=True)  # one request for a small file instead of three
    except TypeError:  # an older version of pyarrow
        return make(**options)


def open_new(storage: Storage, path: str) -> Any:
    """Open a new file for writing, as a ``NativeFile``; creates folders. Raises: OSError"""
    if storage.is_local:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return pa.OSFile(path, "wb")
    return file_system(storage).open_output_stream(path, compression=None)


def write_parquet(storage: Storage, path: str, table: pa.Table, **options: Any) -> tuple[int, bytes]:
    """Write a new file; returns its size and its footer, the ``FileMetaData`` of Parquet. Raises: OSError"""
    return write_row_groups(storage, path, table.schema, [table], **options)


def write_row_groups(
    storage: Storage, path: str, schema: pa.Schema, groups: Iterable[pa.Table], **options: Any
) -> tuple[int, bytes]:
    """As ``write_parquet``, from tables of which each becomes a row group, or several if it has many rows."""
    try:
        return _write(storage, path, schema, groups, options)
    except OSError:
        _remove(storage, path)
        raise


def _write(
    storage: Storage, path: str, schema: pa.Schema, groups: Iterable[pa.Table], options: Mapping[str, Any]
) -> tuple[int, bytes]:
    collected: list[pq.FileMetaData] = []
    with open_new(storage, path) as sink:
        try:
            with pq.ParquetWriter(sink, schema, metadata_collector=collected, store_schema=False, **options) as writer:
                for table in groups:
                    writer.write_table(table)
        except RuntimeError as error:
            # With a collector, a failed writer has no footer to collect, and that error would hide the original one.
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
    """Remove a partly written file, if possible. If it stays, it belongs to no commit."""
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


def metadata_of(footer: bytes) -> pq.FileMetaData:
    """The metadata in a footer (``footer_of``)."""
    magic = b"PAR1"
    return pq.read_metadata(pa.BufferReader(magic + footer + len(footer).to_bytes(4, "little") + magic))


def read_bytes(storage: Storage, path: str) -> bytes:
    """A whole file. Raises: OSError"""
    if storage.is_local:
        return Path(path).read_bytes()
    with file_system(storage).open_input_file(path) as file:
        found: bytes = file.read()
    return found


def read_range(storage: Storage, path: str, offset: int, size: int) -> bytes:
    """Up to ``size`` bytes of a file, from ``offset`` on. Raises: OSError"""
    with pa.OSFile(path) if storage.is_local else file_system(storage).open_input_file(path) as file:
        found: bytes = file.read_at(size, offset)
    return found


def open_parquet(storage: Storage, path: str, size: int, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file of ``size`` bytes for reading; small files are fetched completely. Raises: OSError"""
    if storage.is_local:
        return pq.ParquetFile(path, memory_map=True, **options)
    if size <= WHOLE:
        return pq.ParquetFile(pa.BufferReader(read_bytes(storage, path)), **options)
    return pq.ParquetFile(file_system(storage).open_input_file(path), pre_buffer=True, **options)


def list_files(storage: Storage, folder: str) -> list[str]:
    """Paths of all files under a folder, which need not exist. Raises: OSError"""
    chosen = pyarrow.fs.FileSelector(folder, allow_not_found=True, recursive=True)
    return [info.path for info in file_system(storage).get_file_info(chosen) if info.type == pyarrow.fs.FileType.File]
