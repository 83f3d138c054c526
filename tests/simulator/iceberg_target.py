"""Iceberg as a story's target: with a catalog of its own on SQLite, or in a REST catalog, one commit for all tables."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

from tests.simulator.iceberg_lake import IcebergLake
from tests.simulator.target import NO_RIVAL
from tests.support.rest_catalog import RestCatalog
from ticdc_spark.config.job import IcebergConfig
from ticdc_spark.sinks.base import Sink


class IcebergTarget:
    lacks = NO_RIVAL

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        """``folder``: of the job; its lake is below it."""
        self.lake = IcebergLake(spark, folder)
        self.config = IcebergConfig(warehouse=str(self.lake.warehouse))

    def close(self, sink: Sink) -> None:
        """It has no connection."""


class RestTarget(IcebergTarget):
    def __init__(self, spark: SparkSession, server: RestCatalog) -> None:
        """``server``: of one story at a time; its warehouse is the folder ``lake`` in its own."""
        warehouse = server.folder / "lake"
        _empty(server.folder / "catalog.db", warehouse)
        options = {"type": "rest", "uri": server.url}
        self.lake = _RestLake(spark, server.folder, options)
        self.config = IcebergConfig(warehouse=str(warehouse), catalog_options=options, commit="batch")


class _RestLake(IcebergLake):
    @property
    def _catalog(self) -> Path:
        """The server's own."""
        return self.folder / "catalog.db"


def _empty(catalog: Path, warehouse: Path) -> None:
    """Remove the tables of the story before, and its copies."""
    if catalog.exists():
        with closing(sqlite3.connect(catalog, timeout=60)) as db, db:
            for table in ("iceberg_tables", "iceberg_namespace_properties"):
                db.execute(f"DELETE FROM {table}")
    for folder in (warehouse, *warehouse.parent.glob("lake-*")):
        shutil.rmtree(folder, ignore_errors=True)
