"""Delta tables: everything that one transaction of Delta's Java API does, with its stamp in the same commit.

A transaction contains rows, columns and properties. It reads the whole table, so every commit of another writer is a
conflict; then a new transaction is made.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import uuid4

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import ColumnChanges, Stamp, TableFound
from ticdc_spark.sinks.delta.history import PROPERTY, VERSION, History, Text, text_of
from ticdc_spark.sinks.delta.lake import DeltaLake, is_conflict, sql_name
from ticdc_spark.sinks.delta.names import OURS
from ticdc_spark.sinks.history import Note
from ticdc_spark.sinks.staged import digest
from ticdc_spark.spark.faults import spark_faults
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn

_TRIES = 4
"""Attempts of a commit that lost a race against another writer."""
_PAUSE_S = 0.1
Rows: TypeAlias = Callable[[Any, Any], Any]
"""Writes rows for a transaction, given its log and itself; returns the actions that add them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit of a job."""

    stamp: Stamp
    alter: Callable[[dict[str, Any]], None] | None = None
    """Changes the metadata of the table."""
    rows: Rows | None = None
    replaces_all: bool = False
    """No row that another writer changed remains."""
    only_alone: bool = False
    """Do nothing if another writer changed the table since ``stamp.seen``."""
    load: str = ""
    """The full read whose rows the commit adds."""


class DeltaTables:
    """The tables under a warehouse."""

    def __init__(self, lake: DeltaLake) -> None:
        self.lake = lake

    def find(self, table: TableName) -> TableFound | None:
        with spark_faults(f"the history of {shown(table)} cannot be read"):
            path = self.lake.path(table)
            if not self.lake.is_table(path):
                return None
            history = self.history(path)
            newest = history.entry(history.version)
            if newest is not None and newest.text is not None and self._is_pending(newest.text):
                return None
            return msgspec.structs.replace(history.found(), columns=self.columns(table))

    def history(self, path: str) -> History:
        """The commits of a table."""
        return History(self.lake, path, self.lake.snapshot(path))

    def list_tables(self, job: str) -> list[TableName]:
        found: list[TableName] = []
        with spark_faults(f"{self.lake.warehouse} cannot be listed"):
            for database in self.lake.folders(self.lake.warehouse):
                for name in self.lake.folders(f"{self.lake.warehouse}/{database}"):
                    table = self.lake.name_of(database, name)
                    there = self.find(table)
                    if there is not None and there.stamp is not None and there.stamp.job == job:
                        found.append(table)
        return found

    def snapshot_id(self, table: TableName) -> int:
        with spark_faults(f"table {shown(table)} cannot be read"):
            return int(self.lake.snapshot(self.living(table)).version())

    def living(self, table: TableName) -> str:
        """The folder of a table. Raises: SinkFault if there is no table"""
        path = self.lake.path(table)
        if not self.lake.is_table(path):
            raise SinkFault(f"there is no table {shown(table)} in {path}")
        return path

    def sql_name(self, table: TableName) -> str:
        return sql_name(self.living(table))

    def columns(self, table: TableName) -> dict[str, str]:
        with spark_faults(f"the columns of {shown(table)} cannot be read"), self.lake.session() as session:
            return dict(session.read.format("delta").load(self.living(table)).dtypes)

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        with spark_faults(f"table {shown(table)} cannot be read"), self.lake.session() as session:
            reader = session.read.format("delta")
            reader = reader if as_of is None else reader.option("versionAsOf", str(as_of))
            found = reader.load(self.living(table)).select(*map(quote, columns)).toArrow()
        yield from found.to_batches()

    # ---- tables come and go

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        with spark_faults(f"table {shown(table)} cannot be created"), self.lake.session() as session:
            path = self.lake.path(table)
            if self.lake.is_table(path) and self.find(table) is not None:
                raise SinkFault(f"{shown(table)} already exists in {path}")
            metadata = _metadata({"type": "struct", "fields": self._fields(columns)}, self.lake.properties)
            if layout.comment:
                metadata["description"] = layout.comment
            self.begin(session, path, metadata, msgspec.structs.replace(text_of(stamp), whole=True))

    def begin(self, session: SparkSession, path: str, metadata: dict[str, Any], text: Text) -> None:
        """Create a table without rows, in one commit. Remains of a former table are removed."""
        self.lake.fence()
        self.lake.clear(path)
        transaction = self.lake.log(path).startTransaction()
        _put_property(metadata, text, 0)
        transaction.updateMetadataForNewTable(self._java(metadata))
        self.lake.commit(session, transaction, self.lake.nothing, text.json)

    def drop(self, table: TableName) -> None:
        with spark_faults(f"table {shown(table)} cannot be dropped"):
            path, gathered = self.lake.path(table), self.gathered(table)
            for folder in filter(self.lake.is_ours, (gathered, path)):
                self.lake.fence()
                self.lake.clear(folder)

    def rename(self, old: TableName, new: TableName) -> None:
        """Copy a table to its new folder, in one commit. The copy counts as a table only after the old one is gone."""
        with spark_faults(f"table {shown(old)} cannot be renamed to {shown(new)}"), self.lake.session() as session:
            source, path = self.living(old), self.lake.path(new)
            if self.find(new) is not None:
                raise SinkFault(f"{shown(old)} cannot be renamed to {shown(new)}, which already exists")
            self.lake.fence()
            self.lake.clear(path)
            snapshot = self.lake.snapshot(source)
            metadata = self.lake.metadata(snapshot)
            note = History(self.lake, source, snapshot).note()
            text = Text() if note is None else _whole(note.stamp, note, note.changed_by)
            text = msgspec.structs.replace(text, copy_of=source, copy_id=metadata["id"])
            log = self.lake.log(path)
            transaction = log.startTransaction()
            metadata["id"] = str(uuid4())
            _put_property(metadata, text, 0)
            transaction.updateMetadataForNewTable(self._java(metadata))
            rows = session.read.format("delta").option("versionAsOf", str(snapshot.version())).load(source)
            actions = transaction.writeFiles(rows._jdf)
            self.lake.fence()
            self.lake.commit(session, transaction, actions, text.json)
            self.lake.fence()
            self.lake.clear(self.gathered(old))
            self.lake.clear(source)

    def _is_pending(self, text: Text) -> bool:
        """Whether a table is the copy of one that still has its former name."""
        if not text.copy_of or not self.lake.is_table(text.copy_of):
            return False
        return bool(self.lake.metadata(self.lake.snapshot(text.copy_of))["id"] == text.copy_id)

    def gathered(self, table: TableName) -> str:
        """The folder in which a full read gathers the rows of a table."""
        return f"{self.lake.warehouse}/{OURS}/loads/{digest(*table)}"

    def create_database(self, schema: str) -> None:
        with spark_faults(f"the folder of {quote(schema)} cannot be made"):
            self.lake.fence()
            self.lake.make(self.lake.path((schema, "")))

    def drop_database(self, schema: str) -> None:
        with spark_faults(f"the folder of {quote(schema)} cannot be removed"):
            folder = self.lake.path((schema, "")).rstrip("/")
            if not self.lake.there(folder):
                return
            names = self.lake.folders(folder)
            if not any(self.lake.is_table(f"{folder}/{name}") for name in names):
                self.lake.fence()
                for name in names:
                    if self.lake.is_ours(f"{folder}/{name}"):
                        self.lake.clear(f"{folder}/{name}")
                store, held = self.lake.file(folder)
                if not len(store.listStatus(held)):
                    store.delete(held, False)

    # ---- commits

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        with spark_faults(f"table {shown(table)} cannot be stamped"), self.lake.session() as session:
            self.stamp_in(session, table, stamp)

    def stamp_in(self, session: SparkSession, table: TableName, stamp: Stamp) -> None:
        """Commit a stamp with an open session. Raises: Py4JJavaError"""
        self.change(session, table, Commit(stamp=stamp))

    def flush(self, table: TableName) -> None:
        """Nothing waits."""

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        with spark_faults(f"table {shown(table)} cannot be truncated"), self.lake.session() as session:

            def none(log: Any, transaction: Any) -> Any:
                rows = session.read.format("delta").load(self.lake.path(table)).limit(0)
                return self.lake.rows_of(transaction, log, rows, overwrite=True)

            self.change(session, table, Commit(stamp=stamp, rows=none, replaces_all=True))

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        def alter(metadata: dict[str, Any]) -> None:
            schema = msgspec.json.decode(metadata["schemaString"].encode())
            schema["fields"] = self._changed(table, schema["fields"], changes)
            metadata["schemaString"] = msgspec.json.encode(schema).decode()
            if any(column.type.spark == "timestamp_ntz" for column in changes.add):
                metadata["configuration"]["delta.feature.timestampNtz"] = "supported"  # new tables have it anyway
            if changes.promote:
                # Readers without this feature cannot read the table, so only tables that need it get it.
                metadata["configuration"]["delta.enableTypeWidening"] = "true"
            if changes.comment is not None:
                metadata["description"] = changes.comment or None

        with spark_faults(f"the columns of {shown(table)} cannot be changed"), self.lake.session() as session:
            self.change(session, table, Commit(stamp=stamp, alter=alter))

    def change(self, session: SparkSession, table: TableName, commit: "Commit") -> None:
        """Change a table in one commit, which has the stamp; retry if another writer committed first.

        Raises: Py4JJavaError
        """
        for left in reversed(range(_TRIES)):
            try:
                self.try_change(session, table, commit)
            except Py4JJavaError as error:
                if not left or not is_conflict(error):
                    raise
                self.lake.conflicts.add(table)
                time.sleep(_PAUSE_S * (_TRIES - left))
            else:
                return

    def try_change(self, session: SparkSession, table: TableName, commit: "Commit") -> bool:
        """Change a table, without retries. ``False``: nothing was done."""
        path, stamp = self.living(table), commit.stamp
        log = self.lake.log(path)
        transaction = log.startTransaction()
        history = History(self.lake, path, transaction.snapshot())
        note = history.note()
        others = frozenset[str]() if commit.replaces_all else history.unseen(note, stamp.seen)
        if others and commit.only_alone:
            return False
        text = msgspec.structs.replace(_whole(stamp, note, others), load=commit.load)
        metadata = self.lake.metadata(transaction)
        if commit.alter is not None:
            commit.alter(metadata)
        _put_property(metadata, text, history.version + 1)
        transaction.updateMetadata(self._java(metadata), False)
        transaction.readWholeTable()
        actions = self.lake.nothing if commit.rows is None else commit.rows(log, transaction)
        self.lake.fence()
        self.lake.commit(session, transaction, actions, text.json)
        return True

    def _java(self, metadata: dict[str, Any]) -> Any:
        return self.lake.actions.fromJson(msgspec.json.encode({"metaData": metadata}).decode())

    def _changed(
        self, table: TableName, fields: Sequence[dict[str, Any]], changes: ColumnChanges
    ) -> list[dict[str, Any]]:
        renames, promoted = dict(changes.rename), {one.name: one for one in changes.promote}
        found: dict[str, dict[str, Any]] = {}
        for field in [*(one for one in fields if one["name"] not in changes.drop), *self._fields(changes.add)]:
            name = renames.get(field["name"], field["name"]) if "delta.columnMapping.id" in field["metadata"] else ""
            name = name or field["name"]
            if name.casefold() in {one.casefold() for one in found}:
                raise SinkFault(f"the columns of {shown(table)} cannot be changed: two have the name {quote(name)}")
            found[name] = {**field, "name": name}
            if (wide := promoted.get(name)) is not None:
                found[name] = _widened(found[name], self._type(wide))
        for name, comment in changes.comments:
            found[name] = {**found[name], "metadata": {**found[name]["metadata"], "comment": comment}}
        names = changes.order or tuple(found)
        return [found[name] for name in names]

    def _fields(self, columns: Sequence[LakeColumn]) -> list[dict[str, Any]]:
        return [
            {
                "name": column.name,
                "type": self._type(column),
                "nullable": True,
                "metadata": {"comment": column.comment} if column.comment else {},
            }
            for column in columns
        ]

    def _type(self, column: LakeColumn) -> Any:
        """A type in the form of Delta's schemas."""
        parsed = self.lake.jvm.org.apache.spark.sql.types.DataType.fromDDL(column.type.spark)
        return msgspec.json.decode(str(parsed.json()).encode())


def _metadata(schema: dict[str, Any], properties: dict[str, str]) -> dict[str, Any]:
    return {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": msgspec.json.encode(schema).decode(),
        "partitionColumns": [],
        "configuration": dict(properties),
        "createdTime": int(time.time() * 1000),
    }


def _put_property(metadata: dict[str, Any], text: Text, version: int) -> None:
    kept = msgspec.structs.replace(text, copy_of="", copy_id="")
    metadata["configuration"] |= {PROPERTY: kept.json, VERSION: str(version)}


def _whole(stamp: Stamp, note: Note | None, changed_by: frozenset[str]) -> Text:
    """The complete text of a commit. ``note``: of the table before the commit."""
    about = stamp.about or ("" if note is None else note.stamp.about)
    return msgspec.structs.replace(text_of(stamp), about=about, whole=True, changed_by=tuple(sorted(changed_by)))


def _widened(field: dict[str, Any], kind: Any) -> dict[str, Any]:
    """A column with a wider type, and the record of its former type that Delta's protocol requires."""
    changes = [*field["metadata"].get("delta.typeChanges", ()), {"fromType": field["type"], "toType": kind}]
    return {**field, "type": kind, "metadata": {**field["metadata"], "delta.typeChanges": changes}}
