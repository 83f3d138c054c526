"""The MySQL sink passes the contract of sinks, on a real MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from tests.contract.appends import AppendsContract
from tests.contract.capabilities import CapabilitiesContract, DeletesContract, ReadsContract, TypesContract
from tests.contract.changes import ChangesContract
from tests.contract.columns import ColumnsContract
from tests.contract.counts import CountsContract
from tests.contract.fences import FenceContract
from tests.contract.loads import LoadsContract
from tests.contract.member import Member
from tests.contract.moves import MovesContract
from tests.contract.newest import NewestContract
from tests.contract.others import StampsContract
from tests.contract.state import StateContract
from tests.contract.tables import TablesContract
from tests.contract.topics import TopicContract
from tests.contract.typed import TypedContract
from tests.integration.mysql_member import NUMBERS, mysql_member
from tests.support.mariadb_server import Server
from ticdc_spark.clients.mysql import connection_options
from ticdc_spark.sinks.mysql.client import Client
from ticdc_spark.sinks.mysql.state import MysqlState
from ticdc_spark.sinks.state import StateStore


class TestMysqlSink(
    TablesContract,
    ColumnsContract,
    ChangesContract,
    CountsContract,
    AppendsContract,
    LoadsContract,
    MovesContract,
    NewestContract,
    StampsContract,
    FenceContract,
    TopicContract,
    TypedContract,
    CapabilitiesContract,
    ReadsContract,
    TypesContract,
    DeletesContract,
):
    """What a job does to tables."""

    @pytest.fixture
    def member(self, target: Server, spark: SparkSession) -> Member:
        return mysql_member(target, spark)


class TestMysqlState(StateContract):
    """The state of a job beside its tables."""

    @pytest.fixture
    def opened(self, target: Server) -> Iterator[Callable[[], StateStore]]:
        job, made = f"state{next(NUMBERS)}", []

        def open_one() -> StateStore:
            made.append(MysqlState(Client(connection_options(target.uri)), job))
            return made[-1]

        yield open_one
        for one in made:
            one.close()
