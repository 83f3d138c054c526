"""Tables as targets of files that tasks write: whether a table supports it, and how its files are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from ticdc_spark.config.routes import shown
from ticdc_spark.model import TableName
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.data_files import DataFiles
from ticdc_spark.sinks.iceberg.files.partitions import PartitionSpec, to_spec
from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.java import NestedField, to_dict, to_snapshot
from ticdc_spark.sinks.iceberg.stamps import note_of, unseen
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.spark.storage import path_in
from ticdc_spark.spark.types import LakeColumn

_CODECS = {"zstd": "zstd", "gzip": "gzip", "snappy": "snappy", "uncompressed": "none"}
_OWN_LAYOUT = ("write.data.path", "write.folder-storage.path", "write.object-storage.enabled", "encryption.key-id")
"""Properties by which a table's files are not plainly under its location."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The current state of a table that row deltas can be committed to."""

    table: TableName
    loaded: Any
    """The table in Iceberg's Java API, in that state."""
    files: DataFiles
    snapshot_id: int | None
    manifest_list: str
    is_empty: bool
    version: int
    """Version of Iceberg's format."""
    key_id: int
    """Field id of the first key column."""
    is_touched: bool
    """Another writer changed it since the job read it."""


def target(
    tables: IcebergTables, table: TableName, columns: Sequence[LakeColumn], seen: int | None = None
) -> Target | Closed:
    """How ``table`` takes row deltas of exactly these columns; ``Closed``: a MERGE is needed, with the reason."""
    catalog = tables.catalog
    with faults(f"table {shown(table)} cannot be read"):
        tables.together.end(table)
        loaded = catalog.load_table(table)
        properties = to_dict(catalog.iceberg, loaded.properties())
        files = layout(catalog, loaded, properties, tables.allow_null(table, loaded, columns))
        if isinstance(files, Closed):
            return files
        if properties.get("write.merge.mode") != "merge-on-read":
            return Closed("its property write.merge.mode is not merge-on-read")
        if catalog.columns_of(loaded) != {column.name: column.type.spark for column in columns}:
            return Closed("it has other columns than its source")
        snapshot = to_snapshot(catalog.iceberg, loaded.currentSnapshot())
        others = unseen(
            catalog.iceberg, loaded, None if snapshot is None else snapshot.place, note_of(properties), seen
        )
        version = catalog.format_version(loaded)
        key_id = files.field_ids[next(column.name for column in columns if column.key)]
        manifest_list = "" if snapshot is None else snapshot.manifest_list
        # A new deletion vector also holds the earlier deletes of its file; position deletes belong to one partition.
        needed = "has deletion vectors" if version == 3 else "is partitioned, or was" if files.is_partitioned else ""
        known = catalog.lookup.knows_files
        if needed and manifest_list and not known(files.storage, manifest_list, key_id, files.specs):
            return Closed(f"it {needed}, and has files that Python does not read")
        data = 0 if snapshot is None else int(snapshot.summary.get("total-data-files", "1"))
    return Target(
        table=table,
        loaded=loaded,
        files=files,
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        manifest_list=manifest_list,
        is_empty=data == 0,
        version=version,
        key_id=key_id,
        is_touched=bool(others),
    )


def layout(
    catalog: IcebergCatalog, loaded: Any, properties: Mapping[str, str], fields: Sequence[NestedField]
) -> DataFiles | Closed:
    """How tasks write the files of a table themselves; ``Closed``: Spark must write them.

    ``properties``, ``fields``: of the table; all its columns except the key must accept NULL.
    """
    codec = _CODECS.get(properties.get("write.parquet.compression-codec", "zstd"))
    own = [name for name in _OWN_LAYOUT if name in properties]
    if own:
        return Closed(f"it has the property {own[0]}")
    if codec is None or properties.get("write.format.default", "parquet") != "parquet":
        return Closed("its properties name another format or codec than Python writes")
    if (version := catalog.format_version(loaded)) not in (2, 3):
        return Closed(f"its format version is {version}")
    location = str(loaded.location()).rstrip("/")
    storage = catalog.storages.of(loaded)
    if isinstance(storage, Closed):
        return storage
    folder = path_in(storage, location)
    assert folder is not None, "that is how the storage was found"
    spec_id, specs = loaded.spec().specId(), _specs(catalog, loaded, fields)
    if specs[spec_id] is None:
        return Closed("it has a partition transform that Python does not compute")
    lists = [field for field in fields if isinstance(field.type, dict) and field.type["type"] == "list"]
    return DataFiles(
        storage=storage,
        folder=f"{folder}/data",
        location=f"{location}/data",
        codec=codec,
        field_ids={field.name: field.id for field in fields},
        element_ids={field.name: field.type["element-id"] for field in lists},
        attempt=uuid4().hex[:16],
        spec_id=spec_id,
        specs={number: spec for number, spec in specs.items() if spec is not None},
        is_partitioned=specs != {spec_id: PartitionSpec()},
    )


def _specs(catalog: IcebergCatalog, loaded: Any, fields: Sequence[NestedField]) -> dict[int, PartitionSpec | None]:
    """A table's current and earlier partition specs by id. ``None``: Python cannot compute one of its transforms, or
    one of its columns is gone."""
    columns = {field.id: (field.name, field.type) for field in fields}
    to_json = catalog.iceberg.PartitionSpecParser.toJson
    specs = loaded.operations().current().specs()
    # By number: a Java iterator ends with an exception, which py4j takes long to convert.
    listed = [specs[at] for at in range(len(specs))]
    return {int(spec.specId()): to_spec(str(to_json(spec)), columns) for spec in listed}
