"""The live files of a table's snapshot, read from its manifests (Iceberg's specification, versions 2 and 3).

Used by the driver. Manifests and their lists never change, so their content is cached.
"""

import io
import logging
from collections.abc import Iterator
from typing import Any

import fastavro
import msgspec

from ticdc_spark.sinks.iceberg.files.kept import Kept
from ticdc_spark.spark.storage import Storage, path_in, read_bytes

log = logging.getLogger(__name__)
_DELETED = 2
"""Status of an entry that is no longer live."""
_DATA, _POSITION_DELETES = 0, 1
_FILE_PATH = 2147483546
"""Iceberg's id of the column of position deletes that names the data file."""
_MOST_ENTRIES = 50_000
"""Files whose entries are cached, over all tables."""
_MOST_MANIFESTS = 5_000
"""Manifest lists' entries that are cached, over all tables."""


class LiveFile(msgspec.Struct, frozen=True, kw_only=True):
    """A data file, a file of position deletes, or a deletion vector in a file."""

    location: str
    """Spelt as in the manifest; position deletes use the same spelling."""
    path: str
    """The path in the table's storage."""
    size: int
    """Bytes."""
    sequence: int
    """A position delete applies to data files whose number is not higher."""
    lower: bytes | None
    """Bound of one column in Iceberg's single-value serialisation; ``None``: unknown."""
    upper: bytes | None
    rows: int
    references: str | None = None
    """For deletes: the data file that they belong to, if there is only one."""
    blob: tuple[int, int] | None = None
    """For a deletion vector: its offset in the file, and its size in bytes."""
    spec_id: int = 0
    partition: tuple[Any, ...] = ()
    """Values of the spec's fields, as Python objects."""


class LiveFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The live files of a snapshot."""

    data: list[LiveFile]
    deletes: list[LiveFile]


class Manifests:
    """Reads manifests and caches their content. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: Kept[tuple[str, int], list[tuple[int, LiveFile]] | None] = Kept(
            _MOST_ENTRIES, lambda entries: 1 + len(entries or ())
        )
        self._lists: Kept[str, list[dict[str, Any]]] = Kept(_MOST_MANIFESTS, lambda manifests: 1 + len(manifests))

    def live_files(self, storage: Storage, manifest_list: str, field_id: int) -> LiveFiles | None:
        """The files of a snapshot, with the bounds of one column.

        ``None`` if this module cannot read some of them: another format than Parquet, equality deletes, encryption, or
        files outside the table's storage.

        Raises: OSError
        """
        found = LiveFiles(data=[], deletes=[])
        path = path_in(storage, manifest_list)
        for manifest in [] if path is None else self._lists.get(manifest_list, lambda: [*_records(storage, path)]):
            entries = None if manifest.get("key_metadata") else self._entries_of(storage, manifest, field_id)
            if entries is None:
                return None
            for content, file in entries:
                (found.data if content == _DATA else found.deletes).append(file)
        return None if path is None else found

    def _entries_of(
        self, storage: Storage, manifest: dict[str, Any], field_id: int
    ) -> list[tuple[int, LiveFile]] | None:
        location = str(manifest["manifest_path"])
        sequence, spec_id = int(manifest.get("sequence_number") or 0), int(manifest.get("partition_spec_id") or 0)
        return self._kept.get((location, field_id), lambda: _read(storage, location, sequence, spec_id, field_id))


def _read(
    storage: Storage, location: str, sequence: int, spec_id: int, field_id: int
) -> list[tuple[int, LiveFile]] | None:
    """Live entries of a manifest with their content type; ``sequence``: for entries that inherit it."""
    path = path_in(storage, location)
    if path is None:
        return None
    found = []
    try:
        entries = [*_records(storage, path)]
    except (OverflowError, ValueError) as error:  # a partition's date that Python cannot represent
        log.info("%s cannot be read: %s", location, error)
        return None
    for entry in entries:
        if entry["status"] == _DELETED:
            continue
        held = entry["data_file"]
        content = int(held.get("content") or 0)
        file = path_in(storage, held["file_path"])
        form = held["file_format"].lower()
        plain = content in (_DATA, _POSITION_DELETES) and form == "parquet"
        vector = content == _POSITION_DELETES and form == "puffin"
        if not (plain or vector) or file is None or held.get("key_metadata"):
            return None
        number = entry.get("sequence_number")
        live = LiveFile(
            location=held["file_path"],
            path=file,
            size=int(held["file_size_in_bytes"]),
            sequence=sequence if number is None else number,
            lower=_bound(held.get("lower_bounds"), field_id),
            upper=_bound(held.get("upper_bounds"), field_id),
            rows=int(held["record_count"]),
            references=None if content == _DATA else held.get("referenced_data_file") or _only_file(held),
            blob=(int(held["content_offset"]), int(held["content_size_in_bytes"])) if vector else None,
            spec_id=spec_id,
            partition=tuple(held["partition"].values()),
        )
        found.append((content, live))
    return found


def _only_file(deletes: dict[str, Any]) -> str | None:
    """The data file of position deletes, if both bounds name it. A truncated bound cannot equal the other one."""
    low, high = (_bound(deletes.get(f"{which}_bounds"), _FILE_PATH) for which in ("lower", "upper"))
    return low.decode() if low is not None and low == high else None


def _bound(pairs: list[dict[str, Any]] | None, field_id: int) -> bytes | None:
    return next((pair["value"] for pair in pairs or () if pair["key"] == field_id), None)


def _records(storage: Storage, path: str) -> Iterator[dict[str, Any]]:
    yield from fastavro.reader(io.BytesIO(read_bytes(storage, path)))  # type: ignore[misc]
