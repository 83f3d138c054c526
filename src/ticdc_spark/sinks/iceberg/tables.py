"""Iceberg tables through Iceberg's own Java API: all work on metadata.

The Java API does in one commit what takes several in SQL: a table appears together with its mark, and so does a
change of columns. Tables are merge-on-read. Each has its own location, since a renamed table keeps its files.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from msgspec.structs import replace

from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import TableName
from ticdc_spark.names import unescape
from ticdc_spark.sinks.base import ColumnChanges, Stamp, TableFound
from ticdc_spark.sinks.capabilities import FilesGone
from ticdc_spark.sinks.history import Note
from ticdc_spark.sinks.iceberg.catalog import NAMESPACE, IcebergCatalog
from ticdc_spark.sinks.iceberg.commits import commit, commit_or_retry
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.partitions import partition_columns
from ticdc_spark.sinks.iceberg.java import NestedField, to_schema
from ticdc_spark.sinks.iceberg.layouts import order_of, spec_of
from ticdc_spark.sinks.iceberg.stamps import (
    append_stamp,
    find_stamp,
    place_of,
    read_note,
    set_properties,
    summary,
    unseen,
)
from ticdc_spark.sinks.iceberg.time_travel import table_as_of
from ticdc_spark.sinks.iceberg.together import Open, Together
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
_COMMENT = "comment"
"""The property of a table that engines show as its comment."""


class NewRows(NamedTuple):
    """A change of the rows of a table."""

    table: TableName
    stamp: Stamp
    loaded: Any = None
    """The table in Iceberg's Java API, if it was loaded for the change; ``None``: it is loaded now."""
    files: tuple[str, ...] = ()
    """Locations of the files that were written for the change."""
    beside: TableName | None = None
    """See ``together.Open``."""


class IcebergTables:
    """The tables of a catalog: looks up, creates, changes and stamps them."""

    def __init__(self, catalog: IcebergCatalog, *, together: bool = False) -> None:
        """``together``: row changes given to ``bring_in`` wait for changes of other tables."""
        self.catalog = catalog
        self.together = Together(catalog, gathers=together)
        self._creating = Lock()
        self._committed: dict[TableName, tuple[int, int]] = {}
        """The places of tables after this process's last commit to them, until they are asked for."""

    def find(self, table: TableName) -> TableFound | None:
        with faults(f"the history of {shown(table)} cannot be read"):
            change = self.together.of(table)
            loaded = self.catalog.find_table(table) if change is None else change.transaction.table()
            if loaded is None:
                return None
            return replace(find_stamp(self.catalog.iceberg, loaded), columns=self.catalog.columns_of(loaded))

    def list_tables(self, job: str) -> list[TableName]:
        found: list[TableName] = []
        with faults(f"catalog {self.catalog.name!r} cannot be listed"):
            for namespace in self.catalog.java_catalog.listNamespaces():
                schema = str(namespace.level(0))
                if schema == NAMESPACE or namespace.length() != 1:
                    continue
                for identifier in self.catalog.java_catalog.listTables(namespace):
                    stamp = find_stamp(self.catalog.iceberg, self.catalog.java_catalog.loadTable(identifier)).stamp
                    if stamp is not None and stamp.job == job:
                        found.append((unescape(schema), unescape(str(identifier.name()))))
        return found

    def snapshot_id(self, table: TableName) -> int | None:
        with faults(f"table {shown(table)} cannot be read"):
            if (change := self.together.of(table)) is not None:
                return change.snapshot_id
            place = self._committed.pop(table, None) or place_of(self.catalog.load_table(table))
            return None if place is None else place[0]

    def create_database(self, schema: str) -> None:
        with faults(f"namespace {schema!r} cannot be created"):
            namespace = self.catalog.namespace(schema)
            with self._creating:  # tables of a new schema are created concurrently
                if not self.catalog.java_catalog.namespaceExists(namespace):
                    self.catalog.fence()
                    self.catalog.java_catalog.createNamespace(namespace)

    def drop_database(self, schema: str) -> None:
        with faults(f"namespace {schema!r} cannot be dropped"):
            namespace = self.catalog.namespace(schema)
            if self.catalog.java_catalog.namespaceExists(namespace) and not self.catalog.java_catalog.listTables(
                namespace
            ):
                self.catalog.fence()
                self.catalog.java_catalog.dropNamespace(namespace)

    def sql_name(self, table: TableName) -> str:
        return self.catalog.sql_name(table)

    def columns(self, table: TableName) -> dict[str, str]:
        with faults(f"the columns of {shown(table)} cannot be read"):
            return self.catalog.columns_of(self.catalog.load_table(table))

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        with faults(f"table {shown(table)} cannot be read"), self.catalog.session() as session:
            name = self.catalog.sql_name(table)
            if as_of is None:
                frame = session.table(name)
            else:
                frame = table_as_of(session, name, self.catalog.load_table(table), as_of)
            found = frame.select(*map(quote, columns)).toArrow()
        yield from found.to_batches()

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        self.create_database(table[0])
        with faults(f"table {shown(table)} cannot be created"):
            schema = self.catalog.schema_of(columns)
            spec = spec_of(self.catalog.iceberg, schema, layout)
            order = order_of(self.catalog.iceberg, schema, layout)
            properties = self.catalog.java.util.HashMap()
            comment = {_COMMENT: self.catalog.comment(layout.comment)} if layout.comment else {}
            for key, value in {**self.catalog.properties, **comment, **dict(layout.properties)}.items():
                properties.put(key, value)
            builder = self.catalog.java_catalog.buildTable(self.catalog.identifier(table), schema)
            builder = builder.withPartitionSpec(spec).withSortOrder(order).withProperties(properties)
            location = f"{self.catalog.warehouse}/{_path(table)}"
            transaction = builder.withLocation(location).createTransaction()
            append_stamp(transaction, stamp)
            self._put_properties(transaction, stamp, None)
            self.catalog.fence()
            commit(self.catalog, table, transaction)
            self._note_commit(table, transaction)

    def drop(self, table: TableName) -> None:
        self.together.make_way(table)
        self._committed.pop(table, None)
        with faults(f"table {shown(table)} cannot be dropped"):
            try:
                found, has_files = self.catalog.exists(table), True
            except FilesGone:
                found, has_files = True, False
            if found:
                self.catalog.fence()
                self.catalog.java_catalog.dropTable(self.catalog.identifier(table), has_files)

    def rename(self, old: TableName, new: TableName) -> None:
        self.together.make_way(old)
        self._committed.pop(old, None)
        self.create_database(new[0])
        with faults(f"table {shown(old)} cannot be renamed to {shown(new)}"):
            self.catalog.fence()
            self.catalog.java_catalog.renameTable(self.catalog.identifier(old), self.catalog.identifier(new))

    def flush(self, table: TableName) -> None:
        self.together.make_way(table)

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        def put(_: Any, transaction: Any) -> None:
            delete = transaction.newDelete().deleteFromRowFilter(
                self.catalog.iceberg.expressions.Expressions.alwaysTrue()
            )
            for key, value in summary(stamp).items():
                delete.set(key, value)
            delete.commit()

        with faults(f"table {shown(table)} cannot be truncated"):
            self.change(table, stamp, put, replaces_all=True)

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        with faults(f"table {shown(table)} cannot be stamped"):
            if (change := self.together.of(table)) is None:
                self.change(table, stamp, lambda _, transaction: append_stamp(transaction, stamp))
                return
            note = read_note(self.catalog.iceberg, change.transaction.table())
            append_stamp(change.transaction, stamp)
            self._put_properties(change.transaction, stamp, note)

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        def put(loaded: Any, transaction: Any) -> None:
            self._refuse_partition_columns(table, loaded, changes.drop)
            self._put_columns(transaction, changes)
            if changes.comment is not None:
                properties = transaction.updateProperties()
                if text := self.catalog.comment(changes.comment):
                    properties.set(_COMMENT, text).commit()
                else:
                    properties.remove(_COMMENT).commit()
            append_stamp(transaction, stamp)

        with faults(f"the columns of {shown(table)} cannot be changed"):
            self.change(table, stamp, put)

    def _put_columns(self, transaction: Any, changes: ColumnChanges) -> None:
        update = transaction.updateSchema()
        for name in changes.drop:
            update.deleteColumn(name)
        for old, new in changes.rename:
            update.renameColumn(old, new)
        update.commit()
        update = transaction.updateSchema()
        for column in changes.promote:
            update.updateColumn(column.name, self.catalog.type_of(column))
        for column in changes.add:
            update.addColumn(column.name, self.catalog.type_of(column), self.catalog.comment(column.comment))
        for name, comment in changes.comments:
            update.updateColumnDoc(name, self.catalog.comment(comment))
        for before, name in zip(("", *changes.order), changes.order, strict=False):
            if before:
                update.moveAfter(name, before)
            else:
                update.moveFirst(name)
        update.commit()

    def _refuse_partition_columns(self, table: TableName, loaded: Any, names: Collection[str]) -> None:
        """Iceberg cannot drop a column that partitions the table. Raises: DecisionNeeded"""
        if not names or loaded.spec().isUnpartitioned():
            return
        columns = {field.id: field.name for field in to_schema(self.catalog.iceberg, loaded.schema()).fields}
        spec = str(self.catalog.iceberg.PartitionSpecParser.toJson(loaded.spec()))
        for column, field in partition_columns(spec, columns):
            if column in names:
                name = self.catalog.sql_name(table)
                catalog = quote(self.catalog.name)
                called = f"CALL {catalog}.system.rewrite_data_files(table => '{name.removeprefix(catalog)[1:]}'"
                options = "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
                message = (
                    f"column {quote(column)} of {name} cannot be dropped or converted: the table is partitioned by it. "
                    f"Drop the partition field, rewrite the files of old partitions, and start the job again:\n"
                    f"  ALTER TABLE {name} DROP PARTITION FIELD {quote(field)};\n  {called}, {options});\n"
                    f"or skip the statement with skip-ddl under [job]"
                )
                raise DecisionNeeded(message)

    def allow_null(self, table: TableName, loaded: Any, columns: Sequence[LakeColumn]) -> tuple[NestedField, ...]:
        """Let all columns outside the key hold NULL; ``loaded`` changes with the table. Returns: its columns

        Needed for tables that the job did not create. Iceberg reads NULL in a required column as 0, and files that
        tasks write are not checked. A column that is NOT NULL at the source also gets NULL, for example for a zero
        date.

        Raises: DecisionNeeded if Iceberg requires a value there; Py4JJavaError
        """
        schema = to_schema(self.catalog.iceberg, loaded.schema())
        keys = {column.name for column in columns if column.key}
        required = [field for field in schema.fields if field.required and field.name not in keys]
        if not required:
            return schema.fields
        name = self.catalog.sql_name(table)
        if fixed := [quote(field.name) for field in required if field.id in schema.identifier_field_ids]:
            message = (
                f"column {fixed[0]} of {name} is an identifier field, which cannot hold NULL, but not in the key of "
                f"the source's table. Remove it from the identifier fields, and start the job again:\n"
                f"  ALTER TABLE {name} DROP IDENTIFIER FIELDS {', '.join(fixed)};"
            )
            raise DecisionNeeded(message)
        update = loaded.updateSchema()
        for field in required:
            update.makeColumnOptional(field.name)
        self.catalog.fence()
        update.commit()
        log.warning("columns of %s may hold NULL from now on: %s", name, ", ".join(field.name for field in required))
        return to_schema(self.catalog.iceberg, loaded.schema()).fields

    def change(
        self, table: TableName, stamp: Stamp, put: Callable[[Any, Any], None], *, replaces_all: bool = False
    ) -> None:
        """Change a table in one commit, which also writes the stamp to the table's properties.

        ``put``: adds the changes to a transaction. Its arguments are the loaded table and the transaction. It is called
        again if another writer committed first. ``replaces_all``: no row that another writer changed remains.
        Raises: Py4JJavaError; CommitFailedException if other writers committed first each time
        """
        self._change(NewRows(table, stamp), put, replaces_all=replaces_all)

    def _change(self, change: NewRows, put: Callable[[Any, Any], None], *, replaces_all: bool = False) -> None:
        self.together.make_way(change.table)

        def begin() -> Any:
            nonlocal change
            transaction = self._begun(change, put, replaces_all=replaces_all)
            change = change._replace(loaded=None)  # another attempt needs the table as it is then
            self.catalog.fence()
            return transaction

        self._note_commit(change.table, commit_or_retry(self.catalog, change.table, begin))

    def _note_commit(self, table: TableName, transaction: Any) -> None:
        if (place := place_of(transaction.table())) is not None:
            self._committed[table] = place

    def bring_in(self, change: NewRows, put: Callable[[Any, Any], None]) -> None:
        """Change the rows of a table as ``change`` does, or keep them for a commit with other tables."""
        if not self.together.gathers:
            self._change(change, put)
            return
        self.together.end(change.table)
        transaction = self._begun(change, put)
        self.together.add(Open(table=change.table, transaction=transaction, files=change.files, beside=change.beside))

    def _begun(self, change: NewRows, put: Callable[[Any, Any], None], *, replaces_all: bool = False) -> Any:
        """An uncommitted transaction with a change and its stamp. See ``change``."""
        self._committed.pop(change.table, None)
        loaded = self.catalog.load_table(change.table) if change.loaded is None else change.loaded
        transaction = loaded.newTransaction()
        # Iceberg rebases a commit onto another writer's, and then the properties would name a wrong place. With a
        # change of the schema it does not rebase, even if that changes nothing.
        transaction.updateSchema().commit()
        put(loaded, transaction)
        note = read_note(self.catalog.iceberg, loaded)
        self._put_properties(transaction, change.stamp, note, replaces_all=replaces_all)
        return transaction

    def _put_properties(self, transaction: Any, stamp: Stamp, note: Note | None, *, replaces_all: bool = False) -> None:
        """``note``: the properties before."""
        now = transaction.table()
        place = place_of(now)
        others = frozenset[str]() if replaces_all else unseen(self.catalog.iceberg, now, place, note, stamp.seen)
        set_properties(transaction, place, stamp, others)


def _path(table: TableName) -> str:
    """A location that no other table has; it is readable if the names are plain."""
    plain = ["".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in part) for part in table]
    return f"{plain[0]}/{plain[1]}-{uuid4().hex[:12]}"
