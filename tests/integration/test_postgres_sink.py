"""The PostgreSQL sink passes the contract of sinks, on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

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
from tests.integration.postgres_member import NUMBERS, postgres_member
from tests.memory_sink.changes import write_newest
from tests.support.postgres_server import PostgresServer
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.clients.postgres import connection_options
from ticdc_spark.sinks.postgres.client import Client
from ticdc_spark.sinks.postgres.state import PostgresState
from ticdc_spark.sinks.state import StateStore


class TestPostgresSink(
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
    def member(self, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Member:
        """Without Spark, of which its own tests see that it gives the same changes."""
        monkeypatch.setattr(TypedChanges, "_write_by_spark", write_newest)
        return postgres_member(postgres, None)


class TestPostgresState(StateContract):
    """The state of a job beside its tables."""

    @pytest.fixture
    def opened(self, postgres: PostgresServer) -> Iterator[Callable[[], StateStore]]:
        job, made = f"state{next(NUMBERS)}", []

        def open_one() -> StateStore:
            made.append(PostgresState(Client(connection_options(postgres.uri)), job))
            return made[-1]

        yield open_one
        for one in made:
            one.close()
