"""Tables of an Iceberg sink in a REST catalog, all of a batch in one commit, on this machine's disk."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType

from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

from tests.contract.member import OPENING, Guard, Member, Rows
from tests.spark.test_sink_contract import SparkOthers
from tests.support.rest_proxy import RestProxy
from ticdc_spark.changes.spark_topic import SparkTopicRows
from ticdc_spark.model import TableName
from ticdc_spark.names import escape
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog, catalog_options
from ticdc_spark.sinks.iceberg.dead_letters import IcebergDeadLetters
from ticdc_spark.sinks.iceberg.sink import IcebergSink
from ticdc_spark.spark.sql import quote

_NUMBERS = count(1)


class RestLake:
    """A warehouse of which the catalog is behind a proxy."""

    def __init__(self, spark: SparkSession, proxy: RestProxy, warehouse: Path) -> None:
        self.spark, self.proxy, self.warehouse = spark, proxy, warehouse

    def sink(self, guard: Guard | None = None, made: type[IcebergSink] = IcebergSink) -> IcebergSink:
        """A sink of a process of its own."""
        options = self.options(self.proxy.url)
        catalog = IcebergCatalog(self.spark.newSession(), "lake", str(self.warehouse), {}, options, guard or Guard())
        return made(catalog, commit="batch")

    def empty(self, schema: str = "s") -> None:
        """Remove the tables of a database."""
        client = RestCatalog("lake", uri=self.proxy.real)
        for name in client.list_tables(schema) if client.namespace_exists(schema) else ():
            client.purge_table(name)

    def options(self, url: str) -> dict[str, str]:
        return catalog_options("lake", str(self.warehouse), {"type": "rest", "uri": url})

    def session(self) -> SparkSession:
        """What other people and tools have: it asks the catalog itself."""
        session = self.spark.newSession()
        for key, value in self.options(self.proxy.real).items():
            session.conf.set(key, value)
        session.conf.set("spark.sql.session.timeZone", "UTC")
        return session

    def members(self, number: int, sink: IcebergSink, guard: Guard | None = None) -> list[Member]:
        """So many tables ``t``, each in a schema of its own."""
        session = self.session()

        def read(table: TableName) -> Rows:
            name = f"lake.{quote(escape(table[0]))}.{quote(escape(table[1]))}"
            return list(session.table(name).toArrow().to_pylist())

        return [
            Member(
                sink=sink,
                rows_of=lambda topic: SparkTopicRows(session, topic, OPENING),  # type: ignore[arg-type]
                letters=IcebergDeadLetters(sink.catalog.spark, "lake", f"contract{next(_NUMBERS)}", guard or Guard()),
                kept=list,
                guard=guard or Guard(),
                others=SparkOthers(session),
                read=read,
                schema=f"s{next(_NUMBERS)}",
            )
            for _ in range(number)
        ]

    def job(self, folder: Path, more: str = "", catalog: Mapping[str, str] = MappingProxyType({})) -> Path:
        """A job file for the recorded topic beside it. ``more``: lines of its ``[job]``, or sections behind it.

        ``catalog``: more options of the catalog.
        """
        options = {"type": "rest", "uri": self.proxy.url, **catalog}
        file = folder / "job.toml"
        file.write_text(
            f'[job]\nname = "{folder.name}"\n{more}\n[source]\nkind = "files"\npath = "topic"\nprotocol = "simple"\n'
            f'[sink]\nkind = "iceberg"\nwarehouse = "{self.warehouse}"\ncommit = "batch"\n'
            + "".join(f'"catalog.{key}" = "{value}"\n' for key, value in options.items())
        )
        return file

    def rows(self, name: str) -> Rows:
        """The rows of a table of the database ``s``."""
        found: Rows = self.session().table(f"lake.s.{name}").toArrow().to_pylist()
        return sorted(found, key=lambda one: int(one["id"]))

    def unused(self, schema: str, table: str) -> set[str]:
        """Files of a table that no snapshot has."""
        name, session = f"lake.{schema}.{table}", self.session()
        held = {
            row[0].removeprefix("file:")
            for part in ("all_data_files", "all_delete_files")
            for row in session.sql(f"SELECT file_path FROM {name}.{part}").collect()
        }
        location = RestCatalog("lake", uri=self.proxy.real).load_table((schema, table)).location()
        return {str(path) for path in Path(location).glob("data/*.parquet")} - held
