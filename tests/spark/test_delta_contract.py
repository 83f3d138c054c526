"""Delta passes the contract of sinks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.contract import SinkContract
from tests.contract.member import Member
from tests.contract.typed import OrderedContract
from tests.spark.delta import delta_member


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("delta")
    yield folder
    shutil.rmtree(folder)


class OnDelta:
    @pytest.fixture
    def member(self, spark: SparkSession, warehouse: Path) -> Member:
        return delta_member(spark, warehouse)


@pytest.mark.slow
class TestDeltaSink(OnDelta, SinkContract, OrderedContract):
    """Everything that a sink promises."""
