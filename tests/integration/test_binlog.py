"""The binlog of a real MariaDB: what is captured equals what the server has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.binlog_stream import OPTIONS, captured, fold_rows
from tests.mariadb_server import Server, running
from ticdc_spark.capture.base import Capture, Transaction, follow
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.clients.upstream import Upstream


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("binlog"), *OPTIONS) as started:
        yield started


def test_rows_come_as_they_are_and_a_restart_gives_the_same(server: Server, tmp_path: Path) -> None:
    server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(9,2))")
    source: Capture = BinlogCapture(server.uri)
    state = source.begin()
    server.execute(
        "INSERT INTO shop.t VALUES (1, 'é', 1.5), (2, NULL, -0.25)",
        "UPDATE shop.t SET n = n + 1",
        "ALTER TABLE shop.t ADD COLUMN at DATETIME(2) DEFAULT '2024-01-01'",
        "START TRANSACTION",
        "INSERT INTO shop.t VALUES (3, 'x', 0, '0000-01-01 00:00:00')",
        "DELETE FROM shop.t WHERE id = 1",
        "COMMIT",
    )
    given = captured(server, state)
    assert [len(one.changes) for one in given] == [2, 2, 1, 2]
    assert [one.commit_ts for one in given] == sorted({one.commit_ts for one in given})
    after = state
    for at, one in enumerate(given):
        after = follow(after, one)
        assert captured(server, after) == given[at + 1 :]
    rows: dict = {}
    for one in given[:2]:
        fold_rows(rows, one)
    assert rows["shop", "t"][("2",)] == {"id": "2", "v": None, "n": "0.75"}
    (table,) = [table for table in after.tables if table.name == "t"]
    with Upstream(server.uri) as upstream:
        (there,) = upstream.lookup(table, [{"id": "3"}], 0)
    last = given[-1]
    assert isinstance(last, Transaction) and last.changes[0].after == there
