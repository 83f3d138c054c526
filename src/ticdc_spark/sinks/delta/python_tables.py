"""Small Delta tables that a job reads and writes in Python, without a JVM: its state, its dead letters."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from ticdc_spark.errors import SinkFault, TicdcSparkError, os_reason
from ticdc_spark.sinks.state import StateMoved
from ticdc_spark.spark.storage import local_folder

if TYPE_CHECKING:
    from deltalake import DeltaTable

_S3A = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
    "endpoint.region": "AWS_REGION",
}
"""Keys after ``spark.hadoop.fs.s3a.``, and deltalake's names."""


def storage_options(location: str, spark: Mapping[str, str]) -> dict[str, str]:
    """deltalake's options for the store of a location, from Spark's. Options without a counterpart are taken from the
    environment as usual."""
    if not location.startswith(("s3:", "s3a:")):
        return {}
    bucket = location.partition("://")[2].partition("/")[0]

    def value_of(name: str) -> str:
        prefix = "spark.hadoop.fs.s3a."
        return spark.get(f"{prefix}bucket.{bucket}.{name}") or spark.get(f"{prefix}{name}") or ""

    found = {option: value_of(name) for name, option in _S3A.items() if value_of(name)}
    if endpoint := value_of("endpoint"):
        secure = value_of("connection.ssl.enabled") != "false"
        found["AWS_ENDPOINT_URL"] = endpoint if "://" in endpoint else f"http{'s' if secure else ''}://{endpoint}"
        if found["AWS_ENDPOINT_URL"].startswith("http:"):
            found["AWS_ALLOW_HTTP"] = "true"
    if value_of("path.style.access") == "false":
        found["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] = "true"
    return found


def plain(location: str) -> str:
    """A location in the form that deltalake accepts."""
    folder = local_folder(location)
    return location if folder is None else str(folder)


def open_table(location: str, options: Mapping[str, str]) -> "DeltaTable | None":
    """A table; ``None``: there is none. Raises: deltalake's errors"""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(plain(location), storage_options=dict(options))
    except TableNotFoundError:
        return None


class _Made(msgspec.Struct, frozen=True):
    mark: tuple[int, int] = (0, 0)


class _Property(msgspec.Struct, frozen=True):
    ticdc: _Made


def is_made_after(location: str, version: int, commit_ts: int, options: Mapping[str, str]) -> bool:
    """Whether a version is of a table that a job made after a commitTs, under the name of a former one.

    False if there is no such version: who opens it is told. Raises: deltalake's errors
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(plain(location), version=version, storage_options=dict(options))
    except DeltaError:
        return False
    held = table.metadata().configuration.get("ticdc.stamp", "")
    try:
        return msgspec.json.decode(held.encode(), type=_Property).ticdc.mark[0] > commit_ts
    except msgspec.MsgspecError:
        return False  # a job has not made it


def read_rows(table: "DeltaTable") -> list[dict[str, Any]]:
    """All rows of a small table. Raises: deltalake's errors"""
    from deltalake import QueryBuilder

    # Not to_pyarrow_table: Arrow's threads then hold Python objects, and one that still frees such an object while the
    # interpreter ends aborts the process.
    found = QueryBuilder().register("held", table).execute("SELECT * FROM held").read_all()
    rows: list[dict[str, Any]] = pa.table(found).to_pylist()
    return rows


def make_folder(location: str) -> None:
    """Create the folder of a table, if it is on a disk."""
    folder = local_folder(location)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)


@contextmanager
def python_faults(what: str) -> Iterator[None]:
    """Raises: SinkFault for every error of deltalake, pyarrow and their stores"""
    try:
        yield
    except (StateMoved, TicdcSparkError):
        raise
    except OSError as error:
        raise SinkFault(f"{what}: {os_reason(error)}") from error
    except Exception as error:  # deltalake's errors have no common base class
        raise SinkFault(f"{what}: {_first_line(error)}") from error


def _first_line(error: Exception) -> Any:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
