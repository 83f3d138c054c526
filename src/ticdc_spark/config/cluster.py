"""Paths that a job on a cluster cannot use: places on this machine's disk, as tasks on other machines need them."""

from collections.abc import Mapping

from ticdc_spark.config.job import (
    DeltaConfig,
    FilesSource,
    IcebergConfig,
    SinkConfig,
    SnapshotKeys,
    SourceConfig,
    StorageSource,
)
from ticdc_spark.config.paths import local_folder
from ticdc_spark.config.toml import Mistakes

_STORES = "s3://, s3a://, gs://, abfss:// or hdfs://"


def check_places(
    spark: Mapping[str, str],
    source: SourceConfig | None,
    sink: SinkConfig | None,
    snapshot: SnapshotKeys | None,
    mistakes: Mistakes,
) -> None:
    """Note a mistake for each local path that tasks of a cluster would use."""
    master = spark.get("spark.master", "local")
    if master.startswith("local"):
        return

    def refuse(where: str, found: object, allowed: str) -> None:
        what = f"found {str(found)!r}, which is on this machine's disk, and tasks of {master!r} run elsewhere"
        mistakes.add(where, f'{what}; allowed: {allowed}, or `spark.master` = "local[*]" under [spark]')

    if isinstance(sink, IcebergConfig | DeltaConfig) and local_folder(sink.warehouse) is not None:
        refuse("[sink] warehouse", sink.warehouse, f"a location that begins with {_STORES}")
    if isinstance(source, FilesSource):
        refuse("[source] path", source.path, 'kind = "kafka"')
    if isinstance(source, StorageSource) and local_folder(source.path) is not None:
        refuse("[source] path", source.path, "a location in an object store")
    kept = None if source is None else source.claim_check_storage
    if kept is not None and local_folder(kept) is not None:
        refuse("[source] claim-check-storage", kept, "a location in an object store")
    if snapshot is not None and snapshot.path is not None:
        refuse("[snapshot] path", snapshot.path, "`upstream`")
