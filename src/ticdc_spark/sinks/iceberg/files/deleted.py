"""Deleted rows of data files, from the position deletes and deletion vectors in a table's manifests."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.sinks.iceberg.files.kept import Kept
from ticdc_spark.sinks.iceberg.files.manifests import LiveFile
from ticdc_spark.sinks.iceberg.files.vectors import decode
from ticdc_spark.spark.storage import Storage, open_parquet, read_range

_KEPT_BYTES = 256 << 20
"""Bytes of positions that are cached."""


class DeletedRows:
    """Reads deletes, which never change, and caches them. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: Kept[tuple[str, tuple[int, int] | None], dict[str, pa.Array]] = Kept(_KEPT_BYTES, _size)

    def of(self, storage: Storage, sequences: Mapping[str, int], deletes: Sequence[LiveFile]) -> dict[str, pa.Array]:
        """Deleted positions of the data files in ``sequences``, by their locations. ``sequences``: their sequence
        numbers.

        Raises: OSError
        """
        gone: dict[str, list[pa.Array]] = {}
        for file in deletes if sequences else ():
            if file.references is not None and file.references not in sequences:
                continue
            for location, positions in self._read(storage, file).items():
                if location in sequences and file.sequence >= sequences[location]:
                    gone.setdefault(location, []).append(positions)
        return {location: pa.concat_arrays(positions) for location, positions in gone.items()}

    def files_of(self, storage: Storage, deletes: LiveFile) -> Collection[str]:
        """The locations of the data files that deletes name. Raises: OSError"""
        return [deletes.references] if deletes.references is not None else self._read(storage, deletes).keys()

    def _read(self, storage: Storage, deletes: LiveFile) -> dict[str, pa.Array]:
        return self._kept.get((deletes.location, deletes.blob), partial(read_deletes, storage, deletes))


def _size(positions: Mapping[str, pa.Array]) -> int:
    return sum(array.nbytes + len(location) for location, array in positions.items())


def read_deletes(storage: Storage, deletes: LiveFile) -> dict[str, pa.Array]:
    """The positions in a file of position deletes or in a deletion vector, by the location of the data file."""
    if deletes.blob is not None:
        assert deletes.references is not None, "the specification requires it"
        return {deletes.references: pa.array(decode(read_range(storage, deletes.path, *deletes.blob)))}
    with open_parquet(storage, deletes.path, deletes.size, read_dictionary=["file_path"]) as file:
        rows = file.read(columns=["file_path", "pos"], use_threads=False).combine_chunks()
    if not len(rows):
        return {}
    files = rows.column("file_path").unify_dictionaries().combine_chunks()
    return by_file(files, rows.column("pos").combine_chunks())


def by_file(files: pa.DictionaryArray, positions: pa.Array) -> dict[str, pa.Array]:
    """Positions by the location of their data file. ``files`` has a location for each; there is at least one
    position."""
    order = pc.sort_indices(files.indices)
    numbers = np.asarray(files.indices.take(order))
    positions = positions.take(order)
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    ends = [*begins[1:], len(numbers)]
    names = files.dictionary
    return {
        names[int(numbers[begin])].as_py(): positions.slice(begin, end - begin)
        for begin, end in zip(begins, ends, strict=True)
    }
