"""The state of a job, by the kind of its sink: opened without Spark, so that ``status`` needs no JVM."""

from collections.abc import Mapping

from ticdc_spark.config.job import IcebergConfig
from ticdc_spark.sinks.state import StateStore


def open_state(sink: IcebergConfig, job: str, spark: Mapping[str, str]) -> StateStore:
    """The state of a job in the target of its sink; connects with the first use. ``spark``: the section ``[spark]``.

    Raises: UsageError for a catalog that PyIceberg cannot open
    """
    from ticdc_spark.sinks.iceberg.python_catalog import check_catalog, open_catalog
    from ticdc_spark.sinks.iceberg.state import IcebergState

    options = sink.catalog_options
    check_catalog(options)
    return IcebergState(
        lambda create: open_catalog(sink.catalog, sink.warehouse, options, spark, create=create),
        sink.catalog,
        sink.warehouse,
        job,
    )
