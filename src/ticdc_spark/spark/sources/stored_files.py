"""The folder of a storage sink in an object store, accessed with pyarrow."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa
import pyarrow.fs

from ticdc_spark.config.job import StorageSource
from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.spark.storage import SCHEMES, Storage, file_system, host_of, path_in, read_bytes
from ticdc_spark.streams.storage_messages import Form
from ticdc_spark.streams.storage_topic import StorageTopic
from ticdc_spark.topics.storage.csv_lines import CsvFormat
from ticdc_spark.topics.storage.files import Files, Listed, LocalFiles

R = TypeVar("R")
_THREADS = 16
"""Concurrent requests."""
_HADOOP_S3 = {
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
    "endpoint.region": "region",
    "endpoint": "endpoint_override",
}
"""Keys after ``spark.hadoop.fs.s3a.``, and pyarrow's names."""


class StoreFiles(msgspec.Struct, frozen=True):
    """A folder in an object store. Listing a folder takes one request per 1,000 names."""

    where: str
    storage: Storage
    root: str

    def look_into(self, folders: Sequence[str]) -> list[Listed]:
        return self._each(self._list, folders)

    def find(self, paths: Sequence[str]) -> list[bytes | None]:
        return self._each(self._find, paths)

    def _each(self, do: Callable[[str], R], paths: Sequence[str]) -> list[R]:
        if len(paths) <= 1:
            return [do(path) for path in paths]
        with ThreadPoolExecutor(min(_THREADS, len(paths)), "storage") as pool:
            return list(pool.map(do, paths))

    def _list(self, folder: str) -> Listed:
        path = f"{self.root}/{folder}".rstrip("/")
        try:
            chosen = pyarrow.fs.FileSelector(path, allow_not_found=True)
            found = file_system(self.storage).get_file_info(chosen)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise SourceFault(f"{self.where}/{folder} cannot be listed: {_reason(error)}") from error
        folders, files = [], []
        for one in found:
            name = PurePosixPath(one.path).name
            if one.type == pyarrow.fs.FileType.Directory:
                folders.append(name)
            elif one.type == pyarrow.fs.FileType.File:
                files.append((name, one.size))
        return Listed(tuple(sorted(folders)), tuple(sorted(files)))

    def _find(self, path: str) -> bytes | None:
        try:
            return read_bytes(self.storage, f"{self.root}/{path}")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, pa.ArrowException) as error:
            raise SourceFault(f"{self.where}/{path} cannot be read: {_reason(error)}") from error


def open_storage(source: StorageSource) -> StorageTopic:
    """The files of a storage sink that a job file names. Raises: UsageError"""
    return StorageTopic(open_files(source.path, source.options), form_of(source), every=source.list_interval)


def form_of(source: StorageSource) -> Form:
    """The format of the files."""
    keys = source.csv
    if keys is None:
        return Form()
    return Form(
        csv=CsvFormat(
            delimiter=keys.delimiter,
            quote=keys.quote,
            null=keys.null,
            terminator=source.terminator,
            binary=keys.binary_encoding_method,
            old_values=keys.output_old_value,
        )
    )


def open_files(path: str, options: Mapping[str, str]) -> Files:
    """The files of a storage sink. ``path``: absolute, or a URI; ``options``: ``spark.hadoop.fs.…`` as for Spark.

    Raises: UsageError for a store that cannot be opened
    """
    scheme = urlsplit(path).scheme if "://" in path else ""
    if not scheme:
        return LocalFiles(path.rstrip("/"))
    if scheme == "file":
        return LocalFiles(urlsplit(path).path.rstrip("/"))
    kind = SCHEMES.get(scheme)
    if kind is None:
        raise UsageError(f"[source] path: found {path!r}; allowed: a folder, or a URI that begins with s3, gs or abfss")
    given = _s3_options(options) if kind == "s3" else ()
    storage = Storage(kind=kind, host=host_of(path), options=given)
    root = path_in(storage, path)
    assert root is not None, "it is of this kind"
    return StoreFiles(path.rstrip("/"), storage, root.rstrip("/"))


def _s3_options(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    hadoop = {key.removeprefix("spark.hadoop.fs.s3a."): text for key, text in options.items()}
    found = {name: hadoop[key] for key, name in _HADOOP_S3.items() if hadoop.get(key)}
    if "endpoint_override" in found and hadoop.get("path.style.access", "false").lower() != "true":
        found["force_virtual_addressing"] = "true"
    return tuple(sorted(found.items()))


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
