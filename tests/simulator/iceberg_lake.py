"""A lake of Iceberg tables as other tools and people see it and change it: with Spark SQL, Iceberg's own API, and the
files of its SQLite catalog."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from tests.simulator.seams import Cells, Copy, LakeTable, TableName
from ticdc_spark.model import Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.names import escape, unescape
from ticdc_spark.sinks.iceberg import rewrite
from ticdc_spark.sinks.iceberg.catalog import NAMESPACE, IcebergCatalog, catalog_options
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.sinks.iceberg.upkeep import IcebergUpkeep
from ticdc_spark.sinks.upkeep import UpkeepPolicy
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeOptions, lake_columns

_KEPT_COLUMNS = "catalog_name, table_namespace, table_name, metadata_location, previous_metadata_location, iceberg_type"

_EVERYTHING = UpkeepPolicy(small_files=0, keep_all=1e9, keep_hourly=1e9)
"""Rewrite all small files, and keep all snapshots."""


class IcebergLake:
    def __init__(
        self, spark: SparkSession, folder: Path, options: Mapping[str, str] = MappingProxyType({}), place: str = "lake"
    ) -> None:
        """``folder``: of the job; its lake is below it, at ``place``. ``options``: of the catalog, if it is another."""
        self.folder, self.warehouse = folder, folder / place
        self.warehouse.mkdir(parents=True, exist_ok=True)
        self.session = spark.newSession()
        made = catalog_options("lake", str(self.warehouse), options)
        self._iceberg = IcebergCatalog(self.session, "lake", str(self.warehouse), {}, made)
        self._api = IcebergTables(self._iceberg)
        self._read: dict[TableName, tuple[str, LakeTable]] = {}
        """By table: where its metadata was when it was read."""
        self._copies, self._compactions = count(1), count()

    @property
    def _catalog(self) -> Path:
        return self.warehouse / "catalog.db"

    def _listed(self) -> dict[TableName, str]:
        """Where each table's metadata is, by its name in the lake."""
        with closing(sqlite3.connect(self._catalog, timeout=60)) as db:
            rows = db.execute("SELECT table_namespace, table_name, metadata_location FROM iceberg_tables").fetchall()
        return {(schema, name): place for schema, name, place in rows if schema != NAMESPACE}

    def tables(self) -> Mapping[TableName, LakeTable]:
        found = {}
        for (schema, name), place in sorted(self._listed().items()):
            table = unescape(schema), unescape(name)
            known = self._read.get(table)
            if known is None or known[0] != place:
                known = self._read[table] = place, self._look(table)
            found[table] = known[1]
        return found

    def _look(self, table: TableName) -> LakeTable:
        looked = self._api.find(table)
        read = self.session.table(self._iceberg.sql_name(table)).toArrow()
        columns = tuple(map(unescape, read.column_names))
        return LakeTable(
            columns=columns,
            rows=[dict(zip(columns, row.values(), strict=True)) for row in read.to_pylist()],
            mark_ts=None if looked is None or looked.stamp is None else looked.stamp.mark[0],
            snapshots=len(self._ancestors(table)),
        )

    def _ancestors(self, table: TableName) -> list[int]:
        """The snapshots from the current one back, as far as they are there."""
        loaded = self._iceberg.load_table(table)
        snapshot, found = loaded.currentSnapshot(), []
        while snapshot is not None:
            found.append(int(snapshot.snapshotId()))
            parent = snapshot.parentId()
            snapshot = None if parent is None else loaded.snapshot(parent)
        return found

    # ---- copies

    def save(self) -> Copy:
        copy = self.folder / f"lake-{next(self._copies)}"
        shutil.copytree(self.warehouse, copy, ignore=shutil.ignore_patterns("catalog.db*"))
        _copy_catalog(self._catalog, copy / "catalog.db")
        return copy

    def restore(self, held: Copy) -> None:
        self._restore_files(held)
        # In place: Spark has the file open.
        _copy_catalog(held / "catalog.db", self._catalog)

    def restore_table(self, table: TableName, held: Copy) -> None:
        name = escape(table[0]), escape(table[1])
        with closing(sqlite3.connect(held / "catalog.db")) as old:
            query = f"SELECT {_KEPT_COLUMNS} FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
            row = old.execute(query, name).fetchone()
            spaces = old.execute("SELECT * FROM iceberg_namespace_properties WHERE namespace = ?", name[:1]).fetchall()
        if row is None:
            return
        self._restore_files(held)
        with closing(sqlite3.connect(self._catalog, timeout=60)) as db, db:
            db.execute(f"INSERT OR REPLACE INTO iceberg_tables ({_KEPT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row)
            db.executemany("INSERT OR IGNORE INTO iceberg_namespace_properties VALUES (?, ?, ?, ?)", spaces)

    def _restore_files(self, held: Path) -> None:
        """No file of a lake ever changes, so that what is there may stay."""
        for path in held.rglob("*"):
            place = self.warehouse / path.relative_to(held)
            if path.is_file() and path.name != "catalog.db" and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, place)

    # ---- other tools, and people

    def rollback(self, table: TableName, back: int) -> None:
        ancestors = self._ancestors(table)
        if ancestors:
            to = ancestors[min(back, len(ancestors) - 1)]
            self._iceberg.load_table(table).manageSnapshots().rollbackTo(to).commit()

    def compact(self, table: TableName) -> None:
        """By upkeep in Python and by Iceberg's procedure in turn."""
        if next(self._compactions) % 2:
            self._call("rewrite_data_files", table, "options => map('rewrite-all', 'true')")
            return
        with patch.object(rewrite, "MIN_FILES", 1):
            IcebergUpkeep(self._iceberg).look_after(table, _EVERYTHING, 0)

    def expire(self, table: TableName) -> None:
        self._call("expire_snapshots", table, "older_than => TIMESTAMP '9999-01-01', retain_last => 1")

    def _call(self, procedure: str, table: TableName, more: str) -> None:
        plain = self._iceberg.sql_name(table).removeprefix("`lake`.")
        self.session.sql(f"CALL lake.system.{procedure}(table => '{plain}', {more})").collect()

    def insert(self, table: TableName, row: Cells) -> None:
        """Values that the lake's types do not take become NULL."""
        self._insert(table, {escape(name): value for name, value in row.items()})

    def _insert(self, table: TableName, row: Mapping[str, Any]) -> None:
        kinds = self._api.columns(table)
        values = ", ".join(literal(row.get(name), kind) for name, kind in kinds.items())
        self.session.sql(f"INSERT INTO {self._iceberg.sql_name(table)} VALUES ({values})").collect()

    def delete(self, table: TableName, at: int) -> None:
        rows = self.tables()[table].rows
        if rows:
            row = rows[at % len(rows)]
            conditions = (
                f"{quote(name)} <=> {literal(row[unescape(name)], kind)}"
                for name, kind in self._api.columns(table).items()
            )
            self.session.sql(f"DELETE FROM {self._iceberg.sql_name(table)} WHERE {' AND '.join(conditions)}").collect()

    def drop_column(self, table: TableName, column: str) -> None:
        self.session.sql(f"ALTER TABLE {self._iceberg.sql_name(table)} DROP COLUMN {quote(escape(column))}").collect()

    def drop(self, table: TableName) -> None:
        self.session.sql(f"DROP TABLE {self._iceberg.sql_name(table)}").collect()

    def create(self, table: Table, rows: Sequence[Cells], required: Collection[str] = ()) -> None:
        columns = lake_columns(table, handle_key(table), LakeOptions())
        name = table.schema, table.name
        self.session.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{quote(escape(table.schema))}").collect()
        fields = ", ".join(
            f"{quote(column.name)} {column.type.spark}{' NOT NULL' if column.source in required else ''}"
            for column in columns
        )
        self.session.sql(f"CREATE OR REPLACE TABLE {self._iceberg.sql_name(name)} ({fields}) USING iceberg").collect()
        for row in rows:
            self._insert(name, {column.name: row[column.source] for column in columns})


def literal(value: Any, kind: str) -> str:
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, bytes | bytearray):
        return f"X'{bytes(value).hex()}'"
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"try_cast('{text}' AS {kind})"


def _copy_catalog(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source, timeout=60)) as old, closing(sqlite3.connect(target, timeout=60)) as new:
        old.backup(new)
