"""The state of a job, by the kind of its sink. It is opened without Spark, so that ``status`` needs no JVM."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ticdc_spark.config.job import DeltaConfig, MysqlConfig, PostgresConfig, SinkConfig
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.model import TableName
from ticdc_spark.names import escape
from ticdc_spark.sinks.state import StateStore

if TYPE_CHECKING:
    from pyiceberg.table import Table

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


class Newest(NamedTuple):
    """The current state of a table in a lake."""

    snapshot: int | None
    """``None``: it has none."""
    columns: Sequence[str]


def newest(sink: SinkConfig, spark: Mapping[str, str], table: TableName) -> Newest:
    """The current state of a table in a lake, whoever changed it last. Needs no Spark.

    Raises: SinkFault, also if there is no such table; UsageError if the sink is a database
    """
    if isinstance(sink, DeltaConfig):
        from ticdc_spark.sinks.delta.names import folder_of
        from ticdc_spark.sinks.delta.python_tables import open_table, python_faults, storage_options

        where = f"{sink.warehouse.rstrip('/')}/{folder_of(table[0])}/{folder_of(table[1])}"
        with python_faults(f"{where} cannot be opened"):
            delta = open_table(where, storage_options(sink.warehouse, spark))
            if delta is None:
                raise SinkFault(f"{where} is no table")
            return Newest(int(delta.version()), [field.name for field in delta.schema().fields])
    opened = open_tables(sink, spark, {table: table})[table]
    found = opened.current_snapshot()
    return Newest(None if found is None else found.snapshot_id, [field.name for field in opened.schema().fields])


def made_again(
    sink: SinkConfig, spark: Mapping[str, str], snapshots: Mapping[TableName, int | None], commit_ts: int
) -> frozenset[TableName]:
    """Those of some tables, by the target's names, whose snapshot is of another table that has their name by now.

    Only in a Delta lake: a table that is made anew has the versions 0, 1, … as the former one had. Raises: SinkFault
    """
    if not isinstance(sink, DeltaConfig):
        return frozenset()
    from ticdc_spark.sinks.delta.names import folder_of
    from ticdc_spark.sinks.delta.python_tables import is_made_after, python_faults, storage_options

    options, found = storage_options(sink.warehouse, spark), set[TableName]()
    for table, version in snapshots.items():
        where = f"{sink.warehouse.rstrip('/')}/{folder_of(table[0])}/{folder_of(table[1])}"
        with python_faults(f"{where} cannot be opened"):
            if version is not None and is_made_after(where, version, commit_ts, options):
                found.add(table)
    return frozenset(found)


def open_tables(
    sink: SinkConfig, spark: Mapping[str, str], names: Mapping[TableName, TableName]
) -> "dict[TableName, Table]":
    """PyIceberg tables by their names at the source. ``names``: the target's name of each.

    Raises: SinkFault, UsageError
    """
    if isinstance(sink, MysqlConfig | PostgresConfig):
        raise UsageError("the tables of a database are read by SQL: at every commit all of them are at one commitTs")
    if isinstance(sink, DeltaConfig):
        raise UsageError(
            "PyIceberg cannot read Delta tables: use `consistent`, or deltalake with the versions that "
            "`table_snapshots` returns"
        )
    from ticdc_spark.sinks.iceberg.python_catalog import open_catalog, reason

    catalog = open_catalog(sink.catalog, sink.warehouse, sink.catalog_options, spark, create=False)
    found: dict[TableName, Table] = {}
    for name, target in names.items():
        try:
            assert catalog is not None, "the state of the job was read there"
            found[name] = catalog.load_table((escape(target[0]), escape(target[1])))
        except Exception as error:
            raise SinkFault(f"`{target[0]}`.`{target[1]}` cannot be opened: {reason(error)}") from error
    return found
