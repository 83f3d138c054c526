"""The state of a job in a REST catalog, with its files in an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.contract.state import StateContract, rows, values
from tests.support.counting_proxy import counted
from tests.support.rest_catalog import RestCatalog
from tests.support.s3_server import BUCKET, S3Server
from ticdc_spark.config.job import IcebergConfig
from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.iceberg.state import KEPT, IcebergState
from ticdc_spark.sinks.states import open_state


@pytest.fixture(scope="module")
def catalog(store: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    folder: Path = tmp_path_factory.mktemp("rest")
    started = RestCatalog(folder, f"s3://{BUCKET}/states", store.catalog_options())
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture
def opened(
    catalog: RestCatalog, store: S3Server, request: pytest.FixtureRequest
) -> Iterator[Callable[[], IcebergState]]:
    options = {"type": "rest", "uri": catalog.url, **store.catalog_options()}
    config = IcebergConfig(warehouse=f"s3://{BUCKET}/states", catalog_options=options)
    name = f"job{abs(hash(request.node.nodeid))}"
    states: list[IcebergState] = []

    def open_one() -> IcebergState:
        one = open_state(config, name, {})
        assert isinstance(one, IcebergState)
        states.append(one)
        return one

    yield open_one
    for one in states:
        one.close()


class TestOnRest(StateContract):
    @pytest.fixture
    def opened(self, opened: Callable[[], IcebergState]) -> Callable[[], IcebergState]:
        return opened


def test_old_states_expire(opened: Callable[[], IcebergState]) -> None:
    states = opened()
    version = states.commit({"small": rows("0"), "large": rows("kept")}, None, 0)
    for number in range(1, KEPT + 8):
        version = states.commit({"small": rows(str(number))}, version, number)
    assert values(opened().load()) == {"small": [str(KEPT + 7)], "large": ["kept"]}
    table = states._table
    assert table is not None and len(table.snapshots()) <= KEPT + 2


def test_a_commit_is_one_request_to_the_catalog_and_one_a_file(catalog: RestCatalog, store: S3Server) -> None:
    with counted(catalog.url) as tables, counted(store.url) as files:
        options = {"type": "rest", "uri": tables.url, **store.catalog_options(), "s3.endpoint": files.url}
        config = IcebergConfig(warehouse=f"s3://{BUCKET}/states", catalog_options=options)
        with closing(open_state(config, "counted", {})) as states:
            version = states.commit({"a": rows("1"), "b": rows("2")}, None, 0)
            tables.requests.clear()
            files.requests.clear()
            version = states.commit({"a": rows("3"), "b": rows("4")}, version, 1)
            assert tables.requests == {"POST": 1}
            # a data file and a manifest for each part, and the list of manifests
            assert (files.requests["PUT"], files.requests["POST"]) == (5, 0)
            states.beat(b"alive")
            assert (files.requests["PUT"], files.requests["POST"]) == (6, 0)


def test_a_catalog_that_is_away_is_a_fault_of_the_sink(
    catalog: RestCatalog, opened: Callable[[], IcebergState]
) -> None:
    states = opened()
    version = states.commit({"a": rows("1")}, None, 0)
    catalog.stop()
    try:
        for ask in (states.version, states.load, lambda: states.commit({"a": rows("2")}, version, 0)):
            with pytest.raises(SinkFault, match=r"the state _ticdc_spark\.state_job\d+ .* cannot be"):
                ask()
    finally:
        catalog.start()
    states.commit({"a": rows("2")}, version, 0)
    assert values(opened().load()) == {"a": ["2"]}
