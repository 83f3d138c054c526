"""An Iceberg catalog: its Spark sessions, the names of its tables, and tables as objects of Iceberg's Java API."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ticdc_spark.config.routes import shown
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.names import escape
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.lookup import Lookup
from ticdc_spark.sinks.iceberg.files.storage import Storages
from ticdc_spark.sinks.iceberg.java import JavaNames, spark_columns
from ticdc_spark.sinks.iceberg.types import iceberg_type
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
NAMESPACE = "_ticdc_spark"
"""The namespace of change logs and dead letters."""
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
"""Properties of tables that a job creates, unless ``[sink] table-properties`` overrides them."""

_NO_TABLE = ("NoSuchTableException", "NoSuchIcebergTableException")
"""The second one comes from a catalog that also has other kinds of tables."""
_COPIES_COMMENTS = (
    "hive",
    "glue",
    "org.apache.iceberg.hive.HiveCatalog",
    "org.apache.iceberg.aws.glue.GlueCatalog",
)
"""Catalogs that also store the columns of a table, and refuse a longer comment."""
_PLAIN = {"spark.sql.variable.substitute": "false"}
"""Settings of sessions: ``${…}`` in a name or a default is not replaced."""


def catalog_options(catalog: str, warehouse: str, options: Mapping[str, str]) -> dict[str, str]:
    """Spark options of the catalog: a JDBC catalog on SQLite in the warehouse, unless ``options`` name another.

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


def longest_comment(catalog: str, options: Mapping[str, str]) -> int | None:
    """The longest comment of a column in characters; ``None``: any. ``options``: from ``catalog_options``."""
    prefix = f"spark.sql.catalog.{catalog}"
    kind = options.get(f"{prefix}.catalog-impl") or options.get(f"{prefix}.type", "").lower()
    return 255 if kind in _COPIES_COMMENTS else None


class IcebergCatalog:
    """A catalog that a job writes to."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        warehouse: str,
        properties: Mapping[str, str],
        options: Mapping[str, str],
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        """``options``: of the catalog; each session that writes gets them. ``fence``: called before each commit;
        raises if the job must not write any more."""
        self.options = dict(options)
        self.fence = fence
        self.spark = self._configured(spark)
        self.name = catalog
        self.warehouse = warehouse.rstrip("/")
        self.properties = PROPERTIES | dict(properties)
        self._sessions: SimpleQueue[SparkSession] = SimpleQueue()
        self.java: Any = JavaNames(spark._jvm.java)  # type: ignore[union-attr]
        self.iceberg: Any = JavaNames(spark._jvm.org.apache.iceberg)  # type: ignore[union-attr]
        self._identifiers: dict[TableName, Any] = {}
        self._namespaces: dict[str, Any] = {}
        self.lookup = Lookup()
        self.storages = Storages(spark)
        self._noted: set[tuple[TableName, str]] = set()
        self.conflicts = Tally()
        """See ``sinks.base.Sink.conflicts``."""
        with faults(f"catalog {catalog!r} cannot be opened"):
            # Catalogs are looked up in the thread's active session, which may differ from ours in another thread.
            SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
            self.java_catalog = self.iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, catalog)

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """A session that writes, for one thread at a time."""
        # Sessions are reused: each one opens the catalog with its own connections, and never closes it.
        try:
            session = self._sessions.get_nowait()
        except Empty:
            session = self._configured(self.spark.newSession())
        try:
            yield session
        finally:
            self._sessions.put(session)

    def _configured(self, session: SparkSession) -> SparkSession:
        for key, value in (self.options | _PLAIN).items():
            session.conf.set(key, value)
        return session

    def note_way(self, table: TableName, reason: str) -> None:
        """Log, once for each reason, why Spark writes a table's changes and Python does not."""
        if (table, reason) not in self._noted:
            self._noted.add((table, reason))
            log.info("%s.%s: Spark writes its changes: %s", *table, reason)

    def sql_name(self, table: TableName) -> str:
        """The table's name for SQL, quoted."""
        return ".".join(quote(part) for part in (self.name, escape(table[0]), escape(table[1])))

    def exists(self, table: TableName) -> bool:
        """Whether the catalog has the table."""
        with faults(f"table {shown(table)} cannot be looked up"):
            return bool(self.java_catalog.tableExists(self.identifier(table)))

    def find_table(self, table: TableName) -> Any:
        """The current table in Iceberg's Java API; ``None``: the catalog does not have it."""
        try:
            return self.load_table(table)
        except Py4JJavaError as error:
            if str(error.java_exception.getClass().getSimpleName()) in _NO_TABLE:
                return None
            raise

    def load_table(self, table: TableName) -> Any:
        """The current table in Iceberg's Java API."""
        return self.java_catalog.loadTable(self.identifier(table))

    def format_version(self, loaded: Any) -> int:
        """The version of Iceberg's specification that a table follows."""
        return int(loaded.operations().current().formatVersion())

    def namespace(self, schema: str) -> Any:
        """A namespace, for Iceberg's Java API."""
        found = self._namespaces.get(schema)
        if found is None:
            gateway = self.spark.sparkContext._gateway
            assert gateway is not None
            levels = gateway.new_array(gateway.jvm.String, 1)
            levels[0] = escape(schema)
            found = self._namespaces[schema] = self.iceberg.catalog.Namespace.of(levels)
        return found

    def identifier(self, table: TableName) -> Any:
        """A table's name, for Iceberg's Java API."""
        found = self._identifiers.get(table)
        if found is None:
            found = self.iceberg.catalog.TableIdentifier.of(self.namespace(table[0]), escape(table[1]))
            self._identifiers[table] = found
        return found

    def columns_of(self, loaded: Any) -> dict[str, str]:
        """The types of a loaded table's columns in Spark SQL, by their names in the lake."""
        return spark_columns(self.iceberg, loaded.schema())

    def schema_of(self, columns: Sequence[LakeColumn]) -> Any:
        """The schema of a new table, for Iceberg's Java API."""
        fields = self.java.util.ArrayList()
        for position, column in enumerate(columns, 1):
            kind = self.type_of(column, 1000 + position)
            comment = self.comment(column.comment)
            fields.add(self.iceberg.types.Types.NestedField.optional(position, column.name, kind, comment))
        return self.iceberg.Schema(fields)

    def comment(self, text: str) -> str | None:
        """A comment of a column, for Iceberg's Java API."""
        return text[: longest_comment(self.name, self.options)] or None

    def type_of(self, column: LakeColumn, element_id: int = 1) -> Any:
        """The type of a column, for Iceberg's Java API."""
        types = self.iceberg.types.Types
        if column.type.arrow == "floats":
            return types.ListType.ofOptional(element_id, types.FloatType.get())
        return types.fromPrimitiveString(iceberg_type(column.type))
