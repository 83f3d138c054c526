"""Iceberg in a REST catalog passes the contract of sinks where rows of tables wait, each until its call is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.contract.appends import AppendsContract
from tests.contract.changes import ChangesContract
from tests.contract.fences import FenceContract
from tests.contract.loads import LoadsContract
from tests.contract.member import Guard
from tests.contract.moves import MovesContract
from tests.contract.others import OthersContract
from tests.contract.tables import TablesContract
from tests.integration.rest_lake import RestLake
from tests.spark.test_sink_contract import OnIceberg
from tests.support.rest_catalog import RestCatalog
from tests.support.rest_proxy import proxied
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.iceberg.sink import IcebergSink


class AtOnceSink(IcebergSink):
    """What waits is committed behind each call."""

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        super().upsert(table, changes, stamp, appended)
        self.tables.together.commit()

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        super().append(table, what, stamp, beside)
        self.tables.together.commit()


@pytest.mark.slow
class TestTogether(
    OnIceberg,
    TablesContract,
    ChangesContract,
    AppendsContract,
    LoadsContract,
    MovesContract,
    OthersContract,
    FenceContract,
):
    """What is done to rows, and around them; the rest is as in any catalog."""

    @pytest.fixture(scope="class")
    @classmethod
    def opened(
        cls, spark: SparkSession, rest_catalog: RestCatalog
    ) -> Iterator[tuple[IcebergSink, Guard, SparkSession]]:
        with proxied(rest_catalog.url) as proxy:
            guard, lake = Guard(), RestLake(spark, proxy, rest_catalog.folder / "lake")
            yield lake.sink(guard, AtOnceSink), guard, lake.session()
