"""The state of a job, by the kind of its sink. It is opened without Spark, so that ``status`` needs no JVM."""

from collections.abc import Mapping

from ticdc_spark.config.job import DeltaConfig, MysqlConfig, PostgresConfig, SinkConfig
from ticdc_spark.sinks.state import StateStore

_LIGHT = "pyiceberg.io.fsspec.FsspecFileIO"
"""Opens files on a disk; importing it takes a tenth of the time of PyIceberg's default."""


def open_state(sink: SinkConfig, job: str, spark: Mapping[str, str]) -> StateStore:
    """The state of a job in the target of its sink; it connects at first use. ``spark``: the section ``[spark]``.

    Raises: UsageError for a catalog that PyIceberg cannot open
    """
    if isinstance(sink, MysqlConfig):
        from ticdc_spark.clients.mysql import connection_options
        from ticdc_spark.sinks.mysql.client import Client
        from ticdc_spark.sinks.mysql.state import MysqlState

        return MysqlState(Client(connection_options(sink.uri)), job)
    if isinstance(sink, PostgresConfig):
        from ticdc_spark.clients.postgres import connection_options as options_of
        from ticdc_spark.sinks.postgres.client import Client as PostgresClient
        from ticdc_spark.sinks.postgres.state import PostgresState

        return PostgresState(PostgresClient(options_of(sink.uri)), job)
    if isinstance(sink, DeltaConfig):
        from ticdc_spark.sinks.delta.python_tables import storage_options
        from ticdc_spark.sinks.delta.state import DeltaState

        return DeltaState(sink.warehouse, job, storage_options(sink.warehouse, spark))
    from ticdc_spark.sinks.iceberg.python_catalog import check_catalog, open_catalog
    from ticdc_spark.sinks.iceberg.state import IcebergState
    from ticdc_spark.spark.storage import local_folder

    check_catalog(sink.catalog_options)
    options = dict(sink.catalog_options)
    if local_folder(sink.warehouse) is not None:
        options.setdefault("py-io-impl", _LIGHT)
    return IcebergState(
        lambda create: open_catalog(sink.catalog, sink.warehouse, options, spark, create=create),
        sink.catalog,
        sink.warehouse,
        job,
    )
