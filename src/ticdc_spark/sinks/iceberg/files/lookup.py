"""Finds the rows with given keys in a table: their files and positions.

The driver reads the key columns of the live files. It skips files and row groups that cannot hold a key, by the
bounds in manifests and the statistics of row groups. A table that this module cannot read is left to Iceberg's own
reader (``row_delta.positions_by_spark``); tests compare the two.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ticdc_spark.sinks.iceberg.files.deleted import DeletedRows
from ticdc_spark.sinks.iceberg.files.kept import Kept
from ticdc_spark.sinks.iceberg.files.manifests import LiveFile, LiveFiles, Manifests
from ticdc_spark.spark.storage import WHOLE, Storage, open_parquet, read_bytes

log = logging.getLogger(__name__)
FieldIds: TypeAlias = Mapping[str, int]
"""Iceberg's ids of columns, by name."""
MayHold: TypeAlias = Callable[[Any, Any], bool]
"""Whether some key is between two bounds; ``None``: the bound is unknown."""
_TOGETHER = 2_000_000
"""Rows whose keys are looked up together."""
_SORTED_TEXTS = 20_000
"""With at most this many text keys, each one is compared with a file's bounds; else only the least and greatest."""
_KEPT_BYTES = 256 << 20
"""Bytes of small files that are cached."""
_AT_ONCE = 8
"""Files of an object store that are fetched concurrently."""
_FIELD_ID = b"PARQUET:field_id"


class FormerDeletes(msgspec.Struct, frozen=True, kw_only=True):
    """What a snapshot has already deleted of a data file."""

    file: LiveFile
    positions: pa.Array
    deletes: list[LiveFile]
    """Deletes that reference only this file."""


class Lookup:
    """Looks up rows by their keys. It caches manifests and deleted positions, which do not change. Safe to use from
    several threads."""

    def __init__(self) -> None:
        self._manifests = Manifests()
        self._deleted = DeletedRows()
        self._files: Kept[str, bytes] = Kept(_KEPT_BYTES, len)
        """Small files of an object store, whole, because each read there is a request."""

    def find(
        self, storage: Storage, manifest_list: str, keys: pa.Table, field_ids: FieldIds
    ) -> dict[str, pa.Array] | None:
        """The rows of a snapshot that have one of ``keys``: increasing positions, by the location of their file.

        ``keys``: columns as in the table, without nulls. ``None``: this module cannot read the table.
        """
        if not all(_is_exact(field.type) for field in keys.schema):
            return None
        try:
            return self._find(storage, manifest_list, keys, [field_ids[name] for name in keys.column_names])
        except (pa.ArrowException, OSError) as error:
            # A codec that pyarrow does not have, or a column whose type differs from the table's.
            log.info("old rows are looked up by Iceberg's reader: %s", error)
            return None

    def knows_files(self, storage: Storage, manifest_list: str, field_id: int, specs: Collection[int]) -> bool:
        """Whether ``former_deletes`` and ``data_files`` can read a snapshot's files, and all of them use ``specs``."""
        try:
            live = self._manifests.live_files(storage, manifest_list, field_id)
            return live is not None and all(file.spec_id in specs for file in (*live.data, *live.deletes))
        except OSError as error:
            log.info("the files of a table cannot be listed: %s", error)
            return False

    def former_deletes(
        self, storage: Storage, manifest_list: str, field_id: int, locations: Collection[str]
    ) -> dict[str, FormerDeletes]:
        """What is deleted of some data files of a snapshot. ``field_id``: the first key column's. Raises: OSError"""
        live = self._live_files(storage, manifest_list, field_id)
        files = {file.location: file for file in live.data if file.location in locations}
        gone = self._deleted.of(storage, {one: file.sequence for one, file in files.items()}, live.deletes)
        alone: dict[str, list[LiveFile]] = {}
        for file in live.deletes:
            if file.references in files:
                alone.setdefault(file.references, []).append(file)
        nothing = pa.array([], pa.int64())
        return {
            one: FormerDeletes(file=file, positions=gone.get(one, nothing), deletes=alone.get(one, []))
            for one, file in files.items()
        }

    def data_files(
        self, storage: Storage, manifest_list: str, field_id: int, locations: Collection[str]
    ) -> dict[str, LiveFile]:
        """Some data files of a snapshot. ``field_id``: as in ``former_deletes``. Raises: OSError"""
        live = self._live_files(storage, manifest_list, field_id)
        return {file.location: file for file in live.data if file.location in locations}

    def live_files(self, storage: Storage, manifest_list: str, field_id: int) -> LiveFiles | None:
        """All files of a snapshot. ``field_id``: of the column whose bounds are known; ``None``: this module cannot
        read some of them. Raises: OSError"""
        return self._manifests.live_files(storage, manifest_list, field_id)

    def deleted(self, storage: Storage, live: LiveFiles) -> dict[str, pa.Array]:
        """Deleted positions of all data files of a snapshot, by their locations. Raises: OSError"""
        return self._deleted.of(storage, {file.location: file.sequence for file in live.data}, live.deletes)

    def deleted_from(self, storage: Storage, deletes: LiveFile) -> Collection[str]:
        """The data files that a file of deletes names. Raises: OSError"""
        return self._deleted.files_of(storage, deletes)

    def _live_files(self, storage: Storage, manifest_list: str, field_id: int) -> LiveFiles:
        live = self._manifests.live_files(storage, manifest_list, field_id)
        assert live is not None, "only tables for which knows_files is true get row deltas"
        return live

    def _find(
        self, storage: Storage, manifest_list: str, keys: pa.Table, ids: Sequence[int]
    ) -> dict[str, pa.Array] | None:
        live = self._manifests.live_files(storage, manifest_list, ids[0])
        if live is None:
            return None
        may_hold = _may_hold(keys.column(0))
        wanted = [file for file in live.data if may_hold(*_bounds_of(file, keys.schema.field(0).type))]
        found: dict[str, pa.Array] = {}
        for parts in _together(self.opened(storage, wanted), ids, may_hold):
            if parts is None:
                return None
            for file, positions in _matching(parts, keys):
                held = found.get(file.location)
                found[file.location] = positions if held is None else pa.concat_arrays([held, positions])
        sequences = {file.location: file.sequence for file in wanted if file.location in found}
        gone = self._deleted.of(storage, sequences, live.deletes)
        left = {}
        for location, positions in found.items():
            if location in gone:
                positions = positions.filter(pc.invert(pc.is_in(positions, gone[location])))
            if len(positions):
                left[location] = positions
        return left

    def opened(self, storage: Storage, files: Sequence[LiveFile]) -> Iterator[tuple[LiveFile, pq.ParquetFile]]:
        """Open files one after the other. Small files of an object store are fetched concurrently, and cached."""
        for at in range(0, len(files), _AT_ONCE):
            window = files[at : at + _AT_ONCE]
            small = [] if storage.is_local else [file for file in window if file.size <= WHOLE]
            missing = [file for file in small if not self._files.has(file.location)]
            if len(missing) > 1:
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    list(pool.map(partial(self._fetch, storage), missing))
            for file in window:
                if storage.is_local or file.size > WHOLE:
                    opened = open_parquet(storage, file.path, file.size)
                else:
                    opened = pq.ParquetFile(pa.BufferReader(self._fetch(storage, file)))
                with opened:
                    yield file, opened

    def _fetch(self, storage: Storage, file: LiveFile) -> bytes:
        return self._files.get(file.location, partial(read_bytes, storage, file.path))


def _is_exact(kind: pa.DataType) -> bool:
    """Whether Arrow and Spark agree on equality; for example, not for 0.0 and -0.0."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_boolean(kind)
    )


def _may_hold(keys: pa.ChunkedArray) -> MayHold:
    """A function that says whether some key's first column is between two bounds."""
    if not (pa.types.is_integer(keys.type) or pa.types.is_string(keys.type)):
        return lambda low, high: True  # bounds of other types are not read
    ends = pc.min_max(keys)
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    numbers = np.unique(keys.to_numpy()) if pa.types.is_integer(keys.type) else None
    few = pa.types.is_string(keys.type) and len(keys) <= _SORTED_TEXTS
    texts = sorted(text.encode() for text in keys.to_pylist()) if few else []
    if pa.types.is_string(keys.type):
        least, greatest = least.encode(), greatest.encode()

    def meets(low: Any, high: Any) -> bool:
        if low is None or high is None:
            return True
        if numbers is not None:
            at = int(np.searchsorted(numbers, low))
            return at < len(numbers) and int(numbers[at]) <= high
        if texts:
            at = bisect_left(texts, low)
            return at < len(texts) and texts[at] <= high
        return bool(low <= greatest and least <= high)

    return meets


def _bounds_of(file: LiveFile, kind: pa.DataType) -> tuple[Any, Any]:
    """Bounds of a column in a file: numbers, or UTF-8 that may be truncated; ``None``: unknown."""
    low, high = file.lower, file.upper
    if low is None or high is None:
        return None, None
    if pa.types.is_integer(kind):
        return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)
    return (low, high) if pa.types.is_string(kind) else (None, None)


Parts: TypeAlias = list[tuple[LiveFile, int, list[pa.ChunkedArray]]]
"""For each file: the number of the first row, and the key columns of the rows from there on."""


def _together(
    files: Iterable[tuple[LiveFile, pq.ParquetFile]], ids: Sequence[int], may_hold: MayHold
) -> Iterator[Parts | None]:
    """Key columns of all rows that may match, about ``_TOGETHER`` rows at a time; ``None``: this module cannot read a
    file."""
    parts: Parts = []
    rows = 0
    for file, opened in files:
        schema = opened.schema_arrow
        by_id = {int(field.metadata[_FIELD_ID]): field.name for field in schema if _has_id(field)}
        if not all(one in by_id for one in ids):
            yield None
            return
        names = [by_id[one] for one in ids]
        first = 0
        place = schema.get_field_index(names[0])
        flat = all(not pa.types.is_nested(field.type) for field in schema)
        for group in range(opened.num_row_groups):
            held = opened.metadata.row_group(group)
            if not flat or may_hold(*_statistics(held.column(place), schema.field(place).type)):
                read = opened.read_row_group(group, columns=names, use_threads=False)
                parts.append((file, first, [read.column(name) for name in names]))
                rows += held.num_rows
            first += held.num_rows
            if rows >= _TOGETHER:
                yield parts
                parts, rows = [], 0
    yield parts


def _has_id(field: pa.Field) -> bool:
    return field.metadata is not None and _FIELD_ID in field.metadata


def _statistics(column: Any, kind: pa.DataType) -> tuple[Any, Any]:
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return None, None
    if pa.types.is_integer(kind):
        return statistics.min, statistics.max
    if pa.types.is_string(kind):
        return statistics.min.encode(), statistics.max.encode()
    return None, None


def _matching(parts: Parts, keys: pa.Table) -> Iterator[tuple[LiveFile, pa.Array]]:
    """The positions of the rows that have one of the keys."""
    if not parts:
        return
    columns = [
        pa.chunked_array([chunk for _, _, read in parts for chunk in read[at].cast(kind).chunks], type=kind)
        for at, kind in enumerate(keys.schema.types)
    ]
    if len(columns) == 1:
        hits = pc.indices_nonzero(pc.is_in(columns[0], keys.column(0).combine_chunks()))
    else:
        numbers = pa.array(np.arange(len(columns[0]), dtype=np.int64))
        rows = pa.table([*columns, numbers], names=[*keys.column_names, ""])
        hits = rows.join(keys, keys.column_names, join_type="left semi", use_threads=False).column("")
    found = np.sort(np.asarray(hits).astype(np.int64))
    begin = 0
    for file, first, read in parts:
        end = begin + len(read[0])
        low, high = np.searchsorted(found, [begin, end])
        if high > low:
            yield file, pa.array(found[low:high] - begin + first)
        begin = end
