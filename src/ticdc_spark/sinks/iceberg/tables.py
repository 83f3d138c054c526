"""Iceberg tables, through Iceberg's own Java API: everything that is only metadata.

The Java API does in one commit what SQL does in several: a table appears together with its mark, and so does a
change of columns. Tables are merge-on-read; each has a location of its own, since a renamed table keeps its files.
"""

import json
from collections.abc import Collection, Sequence
from typing import Any
from uuid import uuid4

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.sql.types import StructType

from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import TableName
from ticdc_spark.names import unescape
from ticdc_spark.sinks.base import ColumnChanges, Stamp, TableFound
from ticdc_spark.sinks.history import Note
from ticdc_spark.sinks.iceberg.catalog import NAMESPACE, IcebergCatalog
from ticdc_spark.sinks.iceberg.faults import faults, quote
from ticdc_spark.sinks.iceberg.files.partitions import partition_columns
from ticdc_spark.sinks.iceberg.java import to_fields
from ticdc_spark.sinks.iceberg.stamps import find_stamp, place_of, read_note, set_properties, summary, unseen
from ticdc_spark.spark.types import LakeColumn

_TRIES = 4
"""Of a commit that lost a race against another writer."""


class IcebergTables(IcebergCatalog):
    """The tables of a catalog: what is looked up, created, changed and stamped there."""

    def find(self, table: TableName) -> TableFound | None:
        """See ``Tables``."""
        with faults(f"the history of {table} cannot be read"):
            loaded = self.find_table(table)
            return None if loaded is None else find_stamp(self.iceberg, loaded)

    def list_tables(self, job: str) -> list[TableName]:
        """See ``Tables``."""
        found: list[TableName] = []
        with faults(f"catalog {self.catalog!r} cannot be listed"):
            for namespace in self.java_catalog.listNamespaces():
                schema = str(namespace.level(0))
                if schema == NAMESPACE or namespace.length() != 1:
                    continue
                for identifier in self.java_catalog.listTables(namespace):
                    stamp = find_stamp(self.iceberg, self.java_catalog.loadTable(identifier)).stamp
                    if stamp is not None and stamp.job == job:
                        found.append((unescape(schema), unescape(str(identifier.name()))))
        return found

    def snapshot_id(self, table: TableName) -> int | None:
        """See ``Tables``."""
        with faults(f"table {table} cannot be read"):
            place = place_of(self.load_table(table))
            return None if place is None else place[0]

    def columns(self, table: TableName) -> dict[str, str]:
        """See ``Columns``."""
        with faults(f"the columns of {table} cannot be read"):
            return self.columns_of(self.load_table(table))

    def columns_of(self, loaded: Any) -> dict[str, str]:
        """Lake column names of a loaded table to their types, as Spark SQL names them."""
        struct = self.iceberg.spark.SparkSchemaUtil.convert(loaded.schema())
        return {field.name: field.dataType.simpleString() for field in StructType.fromJson(json.loads(struct.json()))}

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp) -> None:
        """See ``Tables``."""
        self.create_database(table[0])
        with faults(f"table {table} cannot be created"):
            spec = self.iceberg.PartitionSpec.unpartitioned()
            properties = self.java.util.HashMap()
            for key, value in self.properties.items():
                properties.put(key, value)
            location = f"{self.warehouse}/{_path(table)}"
            transaction = self.java_catalog.newCreateTableTransaction(
                self.identifier(table), self._schema(columns), spec, location, properties
            )
            self._commit(table, transaction, stamp, None)

    def drop(self, table: TableName) -> None:
        """See ``Tables``."""
        with faults(f"table {table} cannot be dropped"):
            if self.exists(table):
                self.fence()
                self.java_catalog.dropTable(self.identifier(table), True)

    def rename(self, old: TableName, new: TableName) -> None:
        """See ``Tables``."""
        self.create_database(new[0])
        with faults(f"table {old} cannot be renamed to {new}"):
            self.fence()
            self.java_catalog.renameTable(self.identifier(old), self.identifier(new))

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        """See ``Tables``."""
        with faults(f"table {table} cannot be truncated"):
            loaded = self.load_table(table)
            transaction = loaded.newTransaction()
            delete = transaction.newDelete().deleteFromRowFilter(self.iceberg.expressions.Expressions.alwaysTrue())
            for key, value in summary(stamp).items():
                delete.set(key, value)
            delete.commit()
            # Whatever others did to its rows before, none of them is left.
            place = place_of(transaction.table())
            emptied = msgspec.structs.replace(stamp, seen=None if place is None else place[0])
            self.commit(table, transaction, emptied, None)

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        """See ``Tables``."""
        with faults(f"table {table} cannot be stamped"):
            loaded = self.load_table(table)
            self._commit(table, loaded.newTransaction(), stamp, read_note(self.iceberg, loaded))

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        """See ``Columns``."""
        with faults(f"the columns of {table} cannot be changed"):
            for _ in range(_TRIES - 1):
                try:
                    self._change_columns(table, changes, stamp)
                except Py4JJavaError as error:
                    # Iceberg retries most commits on top of another writer's, but no change of a schema.
                    if not str(error.java_exception.getClass().getName()).endswith(".CommitFailedException"):
                        raise
                else:
                    return
            self._change_columns(table, changes, stamp)

    def _change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        loaded = self.load_table(table)
        self._refuse_partition_columns(table, loaded, changes.drop)
        transaction = loaded.newTransaction()
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
        self._commit(table, transaction, stamp, read_note(self.iceberg, loaded))

    def _refuse_partition_columns(self, table: TableName, loaded: Any, names: Collection[str]) -> None:
        """Iceberg drops no column that a table is partitioned by. Raises: DecisionNeeded"""
        if not names or loaded.spec().isUnpartitioned():
            return
        columns = {field.id: field.name for field in to_fields(self.iceberg, loaded.schema())}
        spec = str(self.iceberg.PartitionSpecParser.toJson(loaded.spec()))
        for column, field in partition_columns(spec, columns):
            if column in names:
                name = self.sql_name(table)
                catalog = quote(self.catalog)
                called = f"CALL {catalog}.system.rewrite_data_files(table => '{name.removeprefix(catalog)[1:]}'"
                options = "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
                message = (
                    f"column {quote(column)} of {name} cannot be dropped or converted: the table is partitioned by it. "
                    f"End that, let no file be of the old partitions, and start the job again:\n"
                    f"  ALTER TABLE {name} DROP PARTITION FIELD {quote(field)};\n  {called}, {options});\n"
                    f"or leave the statement out with skip-ddl under [job]"
                )
                raise DecisionNeeded(message)

    def create_database(self, schema: str) -> None:
        """See ``Tables``."""
        with faults(f"namespace {schema!r} cannot be created"):
            namespace = self.namespace(schema)
            with self._creating:  # tables of one new schema are created side by side
                if not self.java_catalog.namespaceExists(namespace):
                    self.fence()
                    self.java_catalog.createNamespace(namespace)

    def drop_database(self, schema: str) -> None:
        """See ``Tables``."""
        with faults(f"namespace {schema!r} cannot be dropped"):
            namespace = self.namespace(schema)
            if self.java_catalog.namespaceExists(namespace) and not self.java_catalog.listTables(namespace):
                self.fence()
                self.java_catalog.dropNamespace(namespace)

    def _commit(self, table: TableName, transaction: Any, stamp: Stamp, note: Note | None) -> None:
        """Commit a transaction, with an empty append that gives its snapshot the stamp and the schema."""
        append = transaction.newFastAppend()
        for key, value in summary(stamp).items():
            append.set(key, value)
        append.commit()
        self.commit(table, transaction, stamp, note)

    def commit(self, table: TableName, transaction: Any, stamp: Stamp, note: Note | None) -> None:
        """Commit a transaction whose snapshot carries the mark already, with the stamp as properties of the table.

        ``note``: the properties before.
        """
        place = self._put_properties(transaction, stamp, note)
        self.fence()
        transaction.commitTransaction()
        if place_of(transaction.table()) != place:
            # Another writer committed meanwhile, and Iceberg put this commit on top of that one.
            again = self.load_table(table).newTransaction()
            self._put_properties(again, stamp, note)
            self.fence()
            again.commitTransaction()

    def _put_properties(self, transaction: Any, stamp: Stamp, note: Note | None) -> tuple[int, int] | None:
        now = transaction.table()
        place = place_of(now)
        set_properties(transaction, place, stamp, unseen(self.iceberg, now, place, note, stamp.seen))
        return place


def _path(table: TableName) -> str:
    """A location that no other table has, readable where the names are plain."""
    plain = ["".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in part) for part in table]
    return f"{plain[0]}/{plain[1]}-{uuid4().hex[:12]}"


__all__ = ["IcebergTables"]
