"""A Delta lake as a story's target: as other tools and people see it and change it, with Spark SQL and its files."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.simulator.iceberg_lake import literal
from tests.simulator.seams import Cells, Copy, LakeTable, TableName
from tests.simulator.target import NO_RIVAL
from tests.spark.delta import DeltaOthers
from ticdc_spark.config.job import DeltaConfig
from ticdc_spark.model import Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.names import escape, unescape
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.delta.lake import CATALOG, DeltaLake, sql_name
from ticdc_spark.sinks.delta.names import folder_of
from ticdc_spark.sinks.delta.tables import DeltaTables
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeOptions, lake_columns


class DeltaTarget:
    lacks = NO_RIVAL | {"restore_table"}
    """Delta caches the log of a table while a process runs, so nobody may put back its files."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        """``folder``: of the job; its lake is below it."""
        self.folder, self.warehouse, self.lake = folder, folder / "lake", self
        self.warehouse.mkdir(parents=True)
        self.config = DeltaConfig(warehouse=str(self.warehouse))
        self.session = spark.newSession()
        for key, value in CATALOG.items():
            self.session.conf.set(key, value)
        self.session.conf.set("spark.databricks.delta.snapshotPartitions", "2")
        self._api = DeltaTables(DeltaLake(spark.newSession(), str(self.warehouse), {}))
        self._read: dict[TableName, tuple[int, LakeTable]] = {}
        """By table: when its log was last written to."""
        self._copies = count(1)
        self._others = DeltaOthers(self.session, self.warehouse)

    def close(self, sink: Sink) -> None:
        """It has no connection."""

    def _path(self, table: TableName) -> Path:
        return self.warehouse / folder_of(table[0]) / folder_of(table[1])

    def _name(self, table: TableName) -> str:
        return sql_name(str(self._path(table)))

    def tables(self) -> Mapping[TableName, LakeTable]:
        found, lake = {}, self._api.lake
        for schema in lake.folders(str(self.warehouse)):
            for name in lake.folders(str(self.warehouse / schema)):
                table = lake.name_of(schema, name)
                if lake.is_table(str(self._path(table))):
                    found[table] = self._look(table)
        return found

    def _look(self, table: TableName) -> LakeTable:
        newest = max(file.stat().st_mtime_ns for file in (self._path(table) / "_delta_log").iterdir())
        known = self._read.get(table)
        if known is None or known[0] != newest:
            looked = self._api.find(table)
            read = self.session.read.format("delta").load(str(self._path(table))).toArrow()
            columns = tuple(map(unescape, read.column_names))
            rows = [dict(zip(columns, row.values(), strict=True)) for row in read.to_pylist()]
            mark = None if looked is None or looked.stamp is None else looked.stamp.mark[0]
            known = self._read[table] = newest, LakeTable(columns=columns, rows=rows, mark_ts=mark)
        return known[1]

    # ---- copies

    def save(self) -> Copy:
        copy = self.folder / f"lake-{next(self._copies)}"
        shutil.copytree(self.warehouse, copy)
        return copy

    def restore(self, copy: Copy) -> None:
        """No process runs: the next one has cached nothing."""
        shutil.rmtree(self.warehouse)
        shutil.copytree(copy, self.warehouse)
        self._read.clear()
        self._forget()

    def restore_table(self, table: TableName, copy: Copy) -> None:
        raise AssertionError("see lacks")

    def _forget(self) -> None:
        """Drop Delta's cache of all logs."""
        jvm: Any = self.session._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    # ---- other tools, and people

    def rollback(self, table: TableName, back: int) -> None:
        log = self._path(table) / "_delta_log"
        versions = [int(file.name.partition(".")[0]) for file in log.glob("*.json")]
        first = max((int(file.name.partition(".")[0]) for file in log.glob("*.checkpoint*parquet")), default=0)
        to = max(max(versions) - back, 0 if 0 in versions else first)
        self.session.sql(f"RESTORE TABLE {self._name(table)} TO VERSION AS OF {to}").collect()

    def compact(self, table: TableName) -> None:
        self._others.compact(table)

    def expire(self, table: TableName) -> None:
        looked = self._api.find(table)
        if looked is not None and looked.stamp is not None:
            self._others.expire(table)
            self._forget()

    def insert(self, table: TableName, row: Cells) -> None:
        """Values that the lake's types do not take become NULL."""
        self._insert(table, {escape(name): value for name, value in row.items()})

    def _insert(self, table: TableName, row: Mapping[str, Any]) -> None:
        kinds = self._kinds(table)
        values = ", ".join(literal(row.get(name), kind) for name, kind in kinds.items())
        self.session.sql(f"INSERT INTO {self._name(table)} VALUES ({values})").collect()

    def _kinds(self, table: TableName) -> dict[str, str]:
        fields = self.session.read.format("delta").load(str(self._path(table))).schema.fields
        return {field.name: field.dataType.simpleString() for field in fields}

    def delete(self, table: TableName, at: int) -> None:
        rows = self.tables()[table].rows
        if rows:
            row = rows[at % len(rows)]
            conditions = (
                f"{quote(name)} <=> {literal(row[unescape(name)], kind)}" for name, kind in self._kinds(table).items()
            )
            self.session.sql(f"DELETE FROM {self._name(table)} WHERE {' AND '.join(conditions)}").collect()

    def drop_column(self, table: TableName, column: str) -> None:
        if column.lower() in map(str.lower, self._kinds(table)) and len(self._kinds(table)) > 1:
            self.session.sql(f"ALTER TABLE {self._name(table)} DROP COLUMN {quote(escape(column))}").collect()

    def drop(self, table: TableName) -> None:
        """As people do: they remove its folder."""
        shutil.rmtree(self._path(table))
        self._forget()

    def create(self, table: Table, rows: Sequence[Cells], required: Collection[str] = ()) -> None:
        columns = lake_columns(table, handle_key(table), LakeOptions())
        name = table.schema, table.name
        shutil.rmtree(self._path(name), ignore_errors=True)
        self._forget()
        fields = ", ".join(
            f"{quote(column.name)} {column.type.spark}{' NOT NULL' if column.source in required else ''}"
            for column in columns
        )
        self.session.sql(f"CREATE TABLE {self._name(name)} ({fields}) USING delta").collect()
        for row in rows:
            self._insert(name, {column.name: row[column.source] for column in columns})
