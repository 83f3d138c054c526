"""Tables of a lake without Spark: where they are now, whether they were made again, and as PyIceberg opens them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ticdc_spark.config.job import DeltaConfig, MysqlConfig, PostgresConfig, SinkConfig
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.model import TableName
from ticdc_spark.names import escape

if TYPE_CHECKING:
    from pyiceberg.table import Table


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
    """The tables, by the target's names, whose snapshot is of another table that has their name by now.

    Only in a Delta lake: a table that is made again has the versions 0, 1, … as the former one had. Raises: SinkFault
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
