"""The deletes of a row delta as files: position deletes, or deletion vectors from version 3 on."""

from collections.abc import Mapping
from typing import Any, TypeAlias
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa

from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.files.manifests import LiveFile
from ticdc_spark.sinks.iceberg.files.partitions import NO_PARTITION, to_partition
from ticdc_spark.sinks.iceberg.files.vectors import write_puffin
from ticdc_spark.sinks.iceberg.rows.content_files import NewFile, delete_file, position_deletes
from ticdc_spark.sinks.iceberg.rows.target import Target
from ticdc_spark.spark.storage import name_of, write_parquet
from ticdc_spark.spark.tasks import files_at

Places: TypeAlias = Mapping[str, pa.Array]
"""Increasing positions of rows, by the location of their data file."""
_POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)
"""A file of position deletes (Iceberg's specification, version 2)."""


class Deletes(msgspec.Struct, frozen=True, kw_only=True):
    """Files of deletes for a row delta, as objects of Iceberg's Java API."""

    added: tuple[Any, ...] = ()
    removed: tuple[Any, ...] = ()
    locations: tuple[str, ...] = ()
    """The locations of the written files."""


def write_deletes(catalog: IcebergCatalog, loaded: Any, to: Target, old: Places) -> Deletes:
    """Write the deletes of ``old``, which is not empty. Raises: OSError, Py4JError, SinkFault"""
    return _write_positions(catalog, loaded, to, old) if to.version == 2 else _write_vectors(catalog, loaded, to, old)


def _write_positions(catalog: IcebergCatalog, loaded: Any, to: Target, old: Places) -> Deletes:
    """Write position deletes. A file of them applies to the data files of one partition of one spec."""
    alike: dict[tuple[int, str], dict[str, pa.Array]] = {}
    if to.files.is_partitioned:
        places = catalog.lookup.data_files(to.files.storage, to.manifest_list, to.key_id, old.keys())
        for one, live in places.items():
            partition = to_partition(live.partition, to.files.specs[live.spec_id])
            alike.setdefault((live.spec_id, partition), {})[one] = old[one]
    else:
        alike[to.files.spec_id, NO_PARTITION] = dict(old)
    added, written = [], []
    for (spec_id, partition), positions in alike.items():
        name = f"{uuid4().hex}-deletes.parquet"
        place, path = f"{to.files.folder}/{name}", f"{to.files.location}/{name}"
        with files_at(name_of(to.files.storage, place)):
            size, footer = write_parquet(to.files.storage, place, _in_order(positions), compression=to.files.codec)
        written.append(path)
        added.append(position_deletes(catalog, loaded, NewFile(spec_id, partition, path, size, footer)))
    return Deletes(added=tuple(added), locations=tuple(written))


def _in_order(places: Places) -> pa.Table:
    files = sorted(places)
    names = [pa.repeat(file, len(places[file])) for file in files]
    columns = [pa.chunked_array(names, pa.string()), pa.chunked_array([places[file] for file in files], pa.int64())]
    return pa.table(columns, schema=_POSITIONS)


def _write_vectors(catalog: IcebergCatalog, loaded: Any, to: Target, old: Places) -> Deletes:
    """Write vectors. A data file has at most one: the new one includes the earlier deletes and replaces them."""
    storage = to.files.storage
    former = catalog.lookup.former_deletes(storage, to.manifest_list, to.key_id, old.keys())
    name = f"{uuid4().hex}-deletes.puffin"
    place, path = f"{to.files.folder}/{name}", f"{to.files.location}/{name}"
    whole = {one: np.union1d(np.asarray(rows), np.asarray(former[one].positions)) for one, rows in old.items()}
    with files_at(name_of(storage, place)):
        size, vectors = write_puffin(storage, place, whole)
    added = []
    for one in vectors:
        live = former[one.references].file
        written = LiveFile(
            location=path,
            path=place,
            size=size,
            sequence=0,
            lower=None,
            upper=None,
            rows=one.rows,
            references=one.references,
            blob=(one.offset, one.size),
            spec_id=live.spec_id,
            partition=live.partition,
        )
        added.append(delete_file(catalog, loaded, to.files, written))
    removed = [delete_file(catalog, loaded, to.files, file) for had in former.values() for file in had.deletes]
    return Deletes(added=tuple(added), removed=tuple(removed), locations=(path,))
