"""Iceberg tables, through Spark for data and Iceberg's own Java API for everything that is only metadata.

The Java API does in one commit what SQL does in several: a table appears together with its mark, and so does a
change of columns. Tables are merge-on-read; each has a location of its own, since a renamed table keeps its files.
"""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.names import escape
from ticdc_spark.sinks.base import (
    ALWAYS,
    OP_COLUMN,
    TIES,
    ColumnChanges,
    ColumnConversion,
    Fill,
    MarkFound,
    TableName,
)
from ticdc_spark.sinks.iceberg.faults import faults, quote
from ticdc_spark.spark.types import LakeColumn, to_arrow

log = logging.getLogger(__name__)

MARK = "ticdc.applied"
FLOOR = "ticdc.floor"
JOB = "ticdc.job"
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
    ) -> None:
        """``options``: those of the catalog; each session that writes gets them."""
        self.options = dict(options)
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
        with faults(f"table {table} cannot be looked up"):
            return bool(self._catalog.tableExists(self._identifier(table)))

    def mark(self, table: TableName) -> MarkFound | None:
        with faults(f"the history of {table} cannot be read"):
            loaded = self.load(table)
            snapshot = loaded.currentSnapshot()
            while snapshot is not None:
                summary = snapshot.summary()
                text = summary.get(MARK)
                if text is not None:
                    ts, step = text.split(":")
                    return MarkFound(summary.get(JOB), (int(ts), int(step)), int(summary.get(FLOOR)))
                parent = snapshot.parentId()
                snapshot = None if parent is None else loaded.snapshot(parent)
            return None

    def snapshot_id(self, table: TableName) -> int | None:
        with faults(f"table {table} cannot be read"):
            snapshot = self.load(table).currentSnapshot()
            return None if snapshot is None else int(snapshot.snapshotId())

    def columns(self, table: TableName) -> dict[str, str]:
        with faults(f"the columns of {table} cannot be read"):
            struct = self.iceberg.spark.SparkSchemaUtil.convert(self.load(table).schema())
            return {field.name(): field.dataType().sql().lower() for field in struct.fields()}

    def create(self, table: TableName, columns: Sequence[LakeColumn], mark: MarkFound) -> None:
        jvm = self.spark._jvm
        assert jvm is not None
        self.create_database(table[0])
        with faults(f"table {table} cannot be created"):
            spec = self.iceberg.PartitionSpec.unpartitioned()
            properties = jvm.java.util.HashMap()
            for key, value in (self.properties | {JOB: mark.job}).items():
                properties.put(key, value)
            location = f"{self.warehouse}/{_path(table)}"
            transaction = self._catalog.newCreateTableTransaction(
                self._identifier(table), self._schema(columns), spec, location, properties
            )
            self._stamp(transaction, mark)
            transaction.commitTransaction()

    def drop(self, table: TableName) -> None:
        with faults(f"table {table} cannot be dropped"):
            if self.exists(table):
                self._catalog.dropTable(self._identifier(table), True)

    def rename(self, old: TableName, new: TableName) -> None:
        self.create_database(new[0])
        with faults(f"table {old} cannot be renamed to {new}"):
            self._catalog.renameTable(self._identifier(old), self._identifier(new))

    def truncate(self, table: TableName, mark: MarkFound) -> None:
        with faults(f"table {table} cannot be truncated"):
            delete = self.load(table).newDelete().deleteFromRowFilter(self.iceberg.expressions.Expressions.alwaysTrue())
            for key, value in summary(mark).items():
                delete.set(key, value)
            delete.commit()

    def stamp(self, table: TableName, mark: MarkFound) -> None:
        with faults(f"table {table} cannot be marked"):
            transaction = self.load(table).newTransaction()
            self._stamp(transaction, mark)
            transaction.commitTransaction()

    def change_columns(self, table: TableName, changes: ColumnChanges, mark: MarkFound) -> None:
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
            update.commit()
            self._stamp(transaction, mark)
            transaction.commitTransaction()

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, mark: MarkFound) -> None:
        self._set(table, column.name, literal(column, fill), mark)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, mark: MarkFound
    ) -> None:
        self._set(table, column.name, conversion.expression.format(old=quote(old)), mark)

    def _set(self, table: TableName, column: str, expression: str, mark: MarkFound) -> None:
        with faults(f"column {column} of {table} cannot be filled"), self.session() as session:
            _carry(session, mark)
            session.sql(f"UPDATE {self.sql_name(table)} SET {quote(column)} = {expression}")

    def append(self, table: TableName, rows: DataFrame, columns: Sequence[LakeColumn], mark: MarkFound) -> None:
        _carry(rows.sparkSession, mark)
        with faults(f"rows cannot be appended to {table}"):
            rows.select(*(quote(column.name) for column in columns)).writeTo(self.sql_name(table)).append()

    def merge(self, table: TableName, changes: DataFrame, columns: Sequence[LakeColumn], mark: MarkFound) -> None:
        self._merge(table, changes, columns, mark, "")

    def merge_newest(
        self, table: TableName, changes: DataFrame, columns: Sequence[LakeColumn], mark: MarkFound
    ) -> None:
        time = quote(columns[-1].name)
        newer = f"s.{time} > coalesce(t.{time}, 0) OR (s.{TIES} AND s.{time} = coalesce(t.{time}, 0)) OR s.{ALWAYS}"
        self._merge(table, changes, columns, mark, f" AND ({newer})")

    def _merge(
        self, table: TableName, changes: DataFrame, columns: Sequence[LakeColumn], mark: MarkFound, newer: str
    ) -> None:
        _carry(changes.sparkSession, mark)
        view = f"changes_{uuid4().hex}"
        names = [quote(column.name) for column in columns]
        on = " AND ".join(f"t.{quote(column.name)} = s.{quote(column.name)}" for column in columns if column.key)
        rest = [quote(column.name) for column in columns if not column.key]
        update = (
            f"WHEN MATCHED{newer} THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in rest)}" if rest else ""
        )
        with faults(f"changes cannot be merged into {table}"):
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

    def _stamp(self, transaction: Any, mark: MarkFound) -> None:
        append = transaction.newFastAppend()
        for key, value in summary(mark).items():
            append.set(key, value)
        append.commit()

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


def summary(mark: MarkFound) -> dict[str, str]:
    """A mark as properties of a snapshot."""
    return {MARK: f"{mark.mark[0]}:{mark.mark[1]}", FLOOR: str(mark.floor), JOB: mark.job}


def _carry(session: SparkSession, mark: MarkFound) -> None:
    """Let the next commit of this session carry a mark."""
    for key, value in summary(mark).items():
        session.conf.set(f"spark.sql.iceberg.snapshot-property.{key}", value)


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
