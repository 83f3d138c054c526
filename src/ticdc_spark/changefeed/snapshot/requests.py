"""Requests to read tables while a changefeed runs: files in its state folder, until they are taken."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from ticdc_spark.durable import replace_file
from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.model import TableName

_PATTERN = "read-*.json"


def request_tables(folder: Path, names: Sequence[TableName]) -> None:
    """Write a request. Raises: EnvironmentFault"""
    try:
        replace_file(folder / f"read-{time.time_ns():020}.json", msgspec.json.encode(names))
    except OSError as error:
        raise EnvironmentFault(f"state folder {folder}: {error.strerror or error}") from error


def requested(folder: Path) -> list[tuple[Path, tuple[TableName, ...]]]:
    """The requests that are not taken, the oldest first. Raises: EnvironmentFault if one cannot be read"""
    found = []
    for path in sorted(folder.glob(_PATTERN)):
        try:
            found.append((path, msgspec.json.decode(path.read_bytes(), type=tuple[TableName, ...])))
        except (OSError, msgspec.DecodeError) as error:
            raise EnvironmentFault(f"a request to read tables cannot be read: {path}: {error}; delete it") from error
    return found


def taken(requests: Iterable[tuple[Path, tuple[TableName, ...]]]) -> None:
    """Delete requests whose content is stored."""
    for path, _ in requests:
        path.unlink(missing_ok=True)
