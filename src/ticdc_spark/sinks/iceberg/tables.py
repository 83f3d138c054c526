"""Iceberg tables, through Spark for data and Iceberg's own Java API for everything that is only metadata.

The Java API does in one commit what SQL does in several: a table appears together with its mark, and so does a
change of columns. Tables are merge-on-read; each has a location of its own, since a renamed table keeps its files.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.names import escape, unescape
from ticdc_spark.sinks.base import (
    ALWAYS,
    OP_COLUMN,
    TIES,
    ColumnChanges,
    ColumnConversion,
    Fill,
    Stamp,
    TableFound,
    TableName,
    unconverted,
)
from ticdc_spark.sinks.iceberg.faults import faults, quote
from ticdc_spark.sinks.iceberg.stamps import find_stamp, says_more, set_about, set_properties, summary
from ticdc_spark.spark.types import LakeColumn, to_arrow

log = logging.getLogger(__name__)

_DATA_ERROR = re.compile(
    r"CAST_INVALID_INPUT|CAST_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE|USER_RAISED_EXCEPTION|ARITHMETIC_OVERFLOW"
)
"""Spark's words for a value that does not fit, as against a lake that is broken."""
NAMESPACE = "_ticdc_spark"
"""Of change logs and dead letters."""
PROPERTIES: dict[str, str] = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.distribution-mode": "none",
    "write.delete.distribution-mode": "none",
    "write.update.distribution-mode": "none",
    "write.merge.distribution-mode": "none",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
"""Properties of the tables that a job creates, unless ``[sink] table-properties`` says otherwise."""


def catalog_options(catalog: str, warehouse: str, options: Mapping[str, str]) -> dict[str, str]:
    """Spark options of the catalog: a JDBC catalog on SQLite in the warehouse unless ``options`` name another.

    Raises: SinkFault for a hadoop catalog, which cannot rename tables.
    """
    prefix = f"spark.sql.catalog.{catalog}"
    chosen = dict(options)
    if chosen.get("type") == "hadoop":
        message = "a catalog of type hadoop cannot rename tables; use jdbc, rest, hive, glue or another one"
        raise SinkFault(message)
    if "type" not in chosen and "catalog-impl" not in chosen:
        chosen |= {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{warehouse}/catalog.db?busy_timeout=60000",
            "jdbc.schema-version": "V1",
        } | {key: value for key, value in options.items() if key.startswith("jdbc.") or key == "uri"}
    chosen = {"warehouse": warehouse, "cache-enabled": "false"} | chosen
    return {prefix: "org.apache.iceberg.spark.SparkCatalog"} | {
        f"{prefix}.{key}": value for key, value in chosen.items()
    }


class IcebergTables:
    """The tables of a catalog: what is looked up, created, changed and marked there, and rows as Spark writes them."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        warehouse: str,
        properties: Mapping[str, str],
        options: Mapping[str, str],
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        """``options``: those of the catalog; each session that writes gets them. ``fence``: called before each commit;
        raises where the job must not write any more."""
        self.options = dict(options)
        self.fence = fence
        self.spark = self._configured(spark)
        self.catalog = catalog
        self.warehouse = warehouse.rstrip("/")
        self.properties = PROPERTIES | dict(properties)
        self._sessions: SimpleQueue[SparkSession] = SimpleQueue()
        self._creating = threading.Lock()
        self.iceberg: Any = spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
        with faults(f"catalog {catalog!r} cannot be opened"):
            # Catalogs are looked up in the thread's active session, which may be another one in a thread of its own.
            SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
            self._catalog = self.iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, catalog)

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        # Kept and lent again: each session opens the catalog, with connections of its own, and never closes it.
        try:
            session = self._sessions.get_nowait()
        except Empty:
            session = self._configured(self.spark.newSession())
        try:
            yield session
        finally:
            self._sessions.put(session)

    def _configured(self, session: SparkSession) -> SparkSession:
        for key, value in self.options.items():
            session.conf.set(key, value)
        return session

    def sql_name(self, table: TableName) -> str:
        """The table's name for SQL, quoted."""
        return ".".join(quote(part) for part in (self.catalog, escape(table[0]), escape(table[1])))

    def exists(self, table: TableName) -> bool:
        """Whether the catalog has the table."""
        with faults(f"table {table} cannot be looked up"):
            return bool(self._catalog.tableExists(self._identifier(table)))

    def find(self, table: TableName) -> TableFound | None:
        """See ``Tables``."""
        if not self.exists(table):
            return None
        with faults(f"the history of {table} cannot be read"):
            return find_stamp(self.load(table))

    def list_tables(self, job: str) -> list[TableName]:
        """See ``Tables``."""
        found: list[TableName] = []
        with faults(f"catalog {self.catalog!r} cannot be listed"):
            for namespace in self._catalog.listNamespaces():
                schema = str(namespace.level(0))
                if schema == NAMESPACE or namespace.length() != 1:
                    continue
                for identifier in self._catalog.listTables(namespace):
                    stamp = find_stamp(self._catalog.loadTable(identifier)).stamp
                    if stamp is not None and stamp.job == job:
                        found.append((unescape(schema), unescape(str(identifier.name()))))
        return found

    def snapshot_id(self, table: TableName) -> int | None:
        with faults(f"table {table} cannot be read"):
            snapshot = self.load(table).currentSnapshot()
            return None if snapshot is None else int(snapshot.snapshotId())

    def columns(self, table: TableName) -> dict[str, str]:
        with faults(f"the columns of {table} cannot be read"):
            struct = self.iceberg.spark.SparkSchemaUtil.convert(self.load(table).schema())
            return {field.name(): field.dataType().sql().lower() for field in struct.fields()}

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp) -> None:
        jvm = self.spark._jvm
        assert jvm is not None
        self.create_database(table[0])
        with faults(f"table {table} cannot be created"):
            spec = self.iceberg.PartitionSpec.unpartitioned()
            properties = jvm.java.util.HashMap()
            for key, value in self.properties.items():
                properties.put(key, value)
            location = f"{self.warehouse}/{_path(table)}"
            transaction = self._catalog.newCreateTableTransaction(
                self._identifier(table), self._schema(columns), spec, location, properties
            )
            self._commit(transaction, stamp)

    def drop(self, table: TableName) -> None:
        with faults(f"table {table} cannot be dropped"):
            if self.exists(table):
                self.fence()
                self._catalog.dropTable(self._identifier(table), True)

    def rename(self, old: TableName, new: TableName) -> None:
        self.create_database(new[0])
        with faults(f"table {old} cannot be renamed to {new}"):
            self.fence()
            self._catalog.renameTable(self._identifier(old), self._identifier(new))

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        """See ``Tables``."""
        with faults(f"table {table} cannot be truncated"):
            transaction = self.load(table).newTransaction()
            delete = transaction.newDelete().deleteFromRowFilter(self.iceberg.expressions.Expressions.alwaysTrue())
            for key, value in summary(stamp).items():
                delete.set(key, value)
            delete.commit()
            self.commit(transaction, stamp)

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        """See ``Tables``."""
        with faults(f"table {table} cannot be stamped"):
            self._commit(self.load(table).newTransaction(), stamp)

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        with faults(f"the columns of {table} cannot be changed"):
            transaction = self.load(table).newTransaction()
            update = transaction.updateSchema()
            for name in changes.drop:
                update.deleteColumn(name)
            for old, new in changes.rename:
                update.renameColumn(old, new)
            update.commit()
            update = transaction.updateSchema()
            for column in changes.promote:
                update.updateColumn(column.name, self._type(column))
            for column in changes.add:
                update.addColumn(column.name, self._type(column))
            for before, name in zip(("", *changes.order), changes.order, strict=False):
                if before:
                    update.moveAfter(name, before)
                else:
                    update.moveFirst(name)
            update.commit()
            self._commit(transaction, stamp)

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        self._set(table, column.name, literal(column, fill), stamp)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        try:
            self._set(table, column.name, conversion.expression.format(old=quote(old)), stamp)
        except SinkFault as fault:
            if _DATA_ERROR.search(str(fault)) is None:
                raise
            raise DecisionNeeded(unconverted(column, str(fault)[:500])) from fault

    def _set(self, table: TableName, column: str, expression: str, stamp: Stamp) -> None:
        with faults(f"column {column} of {table} cannot be filled"), self.session() as session:
            self._begin(session, table, stamp)
            session.sql(f"UPDATE {self.sql_name(table)} SET {quote(column)} = {expression}")
            self._settle(table, stamp)

    def append(self, table: TableName, rows: DataFrame, columns: Sequence[LakeColumn], stamp: Stamp) -> None:
        with faults(f"rows cannot be appended to {table}"):
            self._begin(rows.sparkSession, table, stamp)
            rows.select(*(quote(column.name) for column in columns)).writeTo(self.sql_name(table)).append()
            self._settle(table, stamp)

    def merge(self, table: TableName, changes: DataFrame, columns: Sequence[LakeColumn], stamp: Stamp) -> None:
        self._merge(table, changes, columns, stamp, "")

    def merge_newest(self, table: TableName, changes: DataFrame, columns: Sequence[LakeColumn], stamp: Stamp) -> None:
        time = quote(columns[-1].name)
        newer = f"s.{time} > coalesce(t.{time}, 0) OR (s.{TIES} AND s.{time} = coalesce(t.{time}, 0)) OR s.{ALWAYS}"
        self._merge(table, changes, columns, stamp, f" AND ({newer})")

    def _merge(
        self, table: TableName, changes: DataFrame, columns: Sequence[LakeColumn], stamp: Stamp, newer: str
    ) -> None:
        view = f"changes_{uuid4().hex}"
        names = [quote(column.name) for column in columns]
        on = " AND ".join(f"t.{quote(column.name)} = s.{quote(column.name)}" for column in columns if column.key)
        rest = [quote(column.name) for column in columns if not column.key]
        update = (
            f"WHEN MATCHED{newer} THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in rest)}" if rest else ""
        )
        with faults(f"changes cannot be merged into {table}"):
            self._begin(changes.sparkSession, table, stamp)
            changes.createOrReplaceTempView(view)
            try:
                changes.sparkSession.sql(
                    f"MERGE INTO {self.sql_name(table)} t USING {view} s ON {on} "
                    f"WHEN MATCHED AND s.{OP_COLUMN} = 'd'{newer} THEN DELETE {update} "
                    f"WHEN NOT MATCHED AND s.{OP_COLUMN} <> 'd' THEN "
                    f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
                )
            finally:
                changes.sparkSession.catalog.dropTempView(view)
            self._settle(table, stamp)

    def create_database(self, schema: str) -> None:
        with faults(f"namespace {schema!r} cannot be created"):
            namespace = self._namespace(schema)
            with self._creating:  # tables of one new schema are created side by side
                if not self._catalog.namespaceExists(namespace):
                    self._catalog.createNamespace(namespace)

    def drop_database(self, schema: str) -> None:
        with faults(f"namespace {schema!r} cannot be dropped"):
            namespace = self._namespace(schema)
            if self._catalog.namespaceExists(namespace) and not self._catalog.listTables(namespace):
                self._catalog.dropNamespace(namespace)

    def _commit(self, transaction: Any, stamp: Stamp) -> None:
        """Commit a transaction, with an empty append that gives its snapshot the stamp and the schema."""
        append = transaction.newFastAppend()
        for key, value in summary(stamp).items():
            append.set(key, value)
        append.commit()
        self.commit(transaction, stamp)

    def commit(self, transaction: Any, stamp: Stamp) -> None:
        """Commit a transaction whose snapshot carries the mark already, with the stamp as properties of the table."""
        set_properties(transaction, stamp)
        self.fence()
        transaction.commitTransaction()

    def _begin(self, session: SparkSession, table: TableName, stamp: Stamp) -> None:
        """Let the next commit of a session carry the mark. What the table is must be known before its rows show it."""
        loaded = self.load(table)
        if stamp.about and says_more(loaded, stamp):
            transaction = loaded.newTransaction()
            set_about(transaction, stamp)
            self.fence()
            transaction.commitTransaction()
        for key, value in summary(stamp).items():
            session.conf.set(f"spark.sql.iceberg.snapshot-property.{key}", value)
        self.fence()

    def _settle(self, table: TableName, stamp: Stamp) -> None:
        """After a commit by Spark, which cannot set properties: keep its mark where no expiry removes it."""
        transaction = self.load(table).newTransaction()
        set_properties(transaction, stamp)
        self.fence()
        transaction.commitTransaction()

    def load(self, table: TableName) -> Any:
        """The table, as Iceberg's Java API has it now."""
        return self._catalog.loadTable(self._identifier(table))

    def format_version(self, loaded: Any) -> int:
        """The version of Iceberg's specification that a table follows."""
        return int(loaded.operations().current().formatVersion())

    def _namespace(self, schema: str) -> Any:
        gateway = self.spark.sparkContext._gateway
        assert gateway is not None
        levels = gateway.new_array(gateway.jvm.String, 1)
        levels[0] = escape(schema)
        return self.iceberg.catalog.Namespace.of(levels)

    def _identifier(self, table: TableName) -> Any:
        return self.iceberg.catalog.TableIdentifier.of(self._namespace(table[0]), escape(table[1]))

    def _schema(self, columns: Sequence[LakeColumn]) -> Any:
        jvm = self.spark._jvm
        assert jvm is not None
        fields = jvm.java.util.ArrayList()
        for position, column in enumerate(columns, 1):
            kind = self._type(column, 1000 + position)
            fields.add(self.iceberg.types.Types.NestedField.optional(position, column.name, kind))
        return self.iceberg.Schema(fields)

    def _type(self, column: LakeColumn, element_id: int = 1) -> Any:
        types = self.iceberg.types.Types
        if column.type.iceberg == "list":
            return types.ListType.ofOptional(element_id, types.FloatType.get())
        return types.fromPrimitiveString(column.type.iceberg)


def _path(table: TableName) -> str:
    """A location that no other table has, readable where the names are plain."""
    plain = ["".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in part) for part in table]
    return f"{plain[0]}/{plain[1]}-{uuid4().hex[:12]}"


def literal(column: LakeColumn, fill: Fill) -> str:
    """SQL of a constant for a column.

    Raises: DecisionNeeded when the column's type cannot hold it.
    """
    array, bad, _ = to_arrow(column, fill.lake)([fill.value])
    if bad:
        message = f"the default of the new column `{column.source}` cannot be read: {bad[0]}"
        raise DecisionNeeded(message)
    value = array[0].as_py()
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if column.type.arrow in {"local", "instant"}:
        value = value.replace(tzinfo=None)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{text}' AS {column.type.spark})"
