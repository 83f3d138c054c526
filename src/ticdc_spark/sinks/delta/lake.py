"""Delta tables by their folders, with Delta's own Java API: logs, transactions, and the files of the store.

A table is ``<warehouse>/<database>/<table>``. A folder with the file ``GONE`` is no longer a table, even if some of
its files remain.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.names import unescape
from ticdc_spark.sinks.delta.names import OURS, folder_of
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.spark.sql import quote

GONE = "_ticdc_gone"
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    # A transaction must conflict with every commit made meanwhile, even one that only adds rows.
    "delta.isolationLevel": "Serializable",
    "delta.checkpointInterval": "30",
}
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_SESSION = {
    # By default Delta reads each log with fifty tasks, and reads it completely after each commit, for a checksum.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    # Net changes are already cached while they are merged.
    "spark.databricks.delta.merge.materializeSource": "none",
    # From 4.1 on, Delta refuses a cached source that it has not cached itself.
    "spark.databricks.delta.merge.failSourceCachedAfterMaterialization": "false",
    "spark.sql.caseSensitive": "false",
    # ``${…}`` in a name or a default is not replaced.
    "spark.sql.variable.substitute": "false",
    "spark.sql.ansi.enabled": "true",
}
_CONFLICT = re.compile(r"Concurrent|(Metadata|Protocol)ChangedException|FileAlreadyExists")


def is_conflict(error: Py4JJavaError) -> bool:
    """Whether Delta refused a commit because another writer changed the table meanwhile."""
    cause = error.java_exception
    while cause is not None:
        if _CONFLICT.search(str(cause.getClass().getSimpleName())):
            return True
        cause = cause.getCause()
    return False


class DeltaLake:
    """The folders under a warehouse."""

    def __init__(
        self,
        spark: SparkSession,
        warehouse: str,
        properties: Mapping[str, str],
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        """``properties``: of each new table. ``fence``: called before each commit; raises if the job must not write any
        more."""
        self.spark, self.warehouse, self.fence = spark, warehouse.rstrip("/"), fence
        self.properties = PROPERTIES | dict(properties)
        self.jvm: Any = spark._jvm
        self.none = self._module("scala.None")
        self.nothing = self._module("scala.collection.immutable.Nil")
        self.actions = self._module("org.apache.spark.sql.delta.actions.Action")
        self._operation = self._module("org.apache.spark.sql.delta.DeltaOperations$ManualUpdate")
        self._empty_map = self._module("scala.collection.immutable.Map").empty()
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._sessions: SimpleQueue[SparkSession] = SimpleQueue()
        self.conflicts = Tally()
        """See ``sinks.base.Sink.conflicts``."""

    def _module(self, name: str) -> Any:
        """A Scala object."""
        try:
            loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
            return self.jvm.java.lang.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)
        except Py4JJavaError as error:
            raise SinkFault(
                f"this Spark does not have Delta's jars ({name} is missing): add io.delta:delta-spark, in the version "
                "for this Spark, to its class path"
            ) from error

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """A session that writes, for one thread at a time; meanwhile it is the active session."""
        try:
            session = self._sessions.get_nowait()
        except Empty:
            session = self.spark.newSession()
            for key, value in (CATALOG | _SESSION).items():
                session.conf.set(key, value)
        # Delta takes the text of a commit from the thread's active session.
        java = SparkSession._get_j_spark_session_class(self.jvm)
        java.setActiveSession(session._jsparkSession)
        try:
            yield session
        finally:
            session.conf.unset(USER_METADATA)
            self._sessions.put(session)

    # ---- folders

    def path(self, table: TableName) -> str:
        """The folder of a table. Raises: DecisionNeeded if a database of the source has the name of our own folder"""
        if table[0] == OURS:
            raise DecisionNeeded(
                f"the folder `{OURS}` of the warehouse is reserved: exclude the database with `tables` under [job], "
                "or give it another name with `target-schema` under [[route]]"
            )
        return f"{self.warehouse}/{folder_of(table[0])}/{folder_of(table[1])}"

    def name_of(self, database: str, table: str) -> TableName:
        """The name of a table whose folders are known."""
        return unescape(database), unescape(table)

    def file(self, path: str) -> tuple[Any, Any]:
        """A Hadoop path and its file system."""
        held = self.jvm.org.apache.hadoop.fs.Path(path)
        return held.getFileSystem(self._conf), held

    def there(self, path: str) -> bool:
        """Whether a file or folder exists."""
        store, held = self.file(path)
        return bool(store.exists(held))

    def folders(self, path: str) -> list[str]:
        """The names of the folders in a folder, without the job's own."""
        store, held = self.file(path)
        if not store.exists(held):
            return []
        names = [str(one.getPath().getName()) for one in store.listStatus(held) if one.isDirectory()]
        return sorted(name for name in names if name != OURS)

    def is_table(self, path: str) -> bool:
        """Whether a folder is a table. A crash before the first commit leaves an empty log."""
        store, log = self.file(f"{path}/_delta_log")
        return bool(store.exists(log) and len(store.listStatus(log))) and not self.there(f"{path}/{GONE}")

    def is_ours(self, path: str) -> bool:
        """Whether a folder is a table or the remains of one."""
        return self.there(f"{path}/_delta_log") or self.there(f"{path}/{GONE}")

    def make(self, path: str) -> None:
        """Create a folder; no error if it exists."""
        store, held = self.file(path)
        store.mkdirs(held)

    def clear(self, path: str) -> None:
        """Remove a table and its files. After a crash on the way, there is no table, and the next call continues.

        Raises: DecisionNeeded if the folder has files that do not belong to a table
        """
        store, held = self.file(path)
        if not store.exists(held):
            return
        _, gone = self.file(f"{path}/{GONE}")
        _, log = self.file(f"{path}/_delta_log")
        if store.exists(log) and not store.exists(gone):
            store.create(gone, False).close()
        if not store.exists(gone):
            if len(store.listStatus(held)):
                raise DecisionNeeded(
                    f"the folder {path} is needed for a Delta table, but has other files: move them away, or give "
                    "the table another name with `target-table` under [[route]]"
                )
        else:
            # Without its log no reader finds half a table. The file ``GONE`` is removed last.
            store.delete(log, True)
            for one in store.listStatus(held):
                if str(one.getPath().getName()) != GONE:
                    store.delete(one.getPath(), True)
        store.delete(held, True)
        self.forget(path)

    def forget(self, path: str) -> None:
        """Drop Delta's cache of a folder's log."""
        log = self._module("org.apache.spark.sql.delta.DeltaLog")
        log.invalidateCache(self.spark._jsparkSession, self.jvm.org.apache.hadoop.fs.Path(path))

    # ---- logs

    def log(self, path: str) -> Any:
        """The log of a table. If the folder is not a table, or no longer one, the log is at version -1."""
        return self.jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self.spark._jsparkSession, path)

    def snapshot(self, path: str) -> Any:
        """The newest snapshot of a table."""
        return self.log(path).update(False, self.none, self.none)

    def metadata(self, holder: Any) -> dict[str, Any]:
        """The metadata of a snapshot or a transaction, in the form of Delta's protocol."""
        found: dict[str, Any] = msgspec.json.decode(str(holder.metadata().json()))["metaData"]
        return found

    def commit_text(self, path: str, version: int) -> str | None:
        """The file of a commit; ``None``: it was cleaned up."""
        store, held = self.file(f"{path}/_delta_log/{version:020d}.json")
        if not store.exists(held):
            return None
        stream = store.open(held)
        try:
            return str(self.jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def rows_of(self, transaction: Any, log: Any, rows: DataFrame, *, overwrite: bool) -> Any:
        """Write rows for a transaction; returns the actions that add them."""
        mode = getattr(self.jvm.org.apache.spark.sql.SaveMode, "Overwrite" if overwrite else "Append")
        delta, session = self.jvm.org.apache.spark.sql.delta, rows.sparkSession._jsparkSession
        options = delta.DeltaOptions(self._empty_map, session.sessionState().conf())
        write = delta.commands.WriteIntoDelta(
            log, mode, options, self.nothing, self._empty_map, rows._jdf, self.none, self.none
        )
        return write.write(transaction, session, self.none, False)

    def commit(self, session: SparkSession, transaction: Any, actions: Any, text: str) -> int:
        """Commit actions with a text. Raises: Py4JJavaError; ``is_conflict`` if another writer committed first"""
        session.conf.set(USER_METADATA, text)
        return int(transaction.commit(actions, self._operation))


def sql_name(path: str) -> str:
    """The name of a table for SQL, from its folder."""
    return f"delta.{quote(path)}"
