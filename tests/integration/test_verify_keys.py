"""Rows whose keys or values a server writes or compares in its own way are found on a real server."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.mariadb_server import Server
from ticdc_spark.ddl import parse_create
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.types import LakeOptions, lake_columns
from ticdc_spark.verify.cells import Key
from ticdc_spark.verify.columns import TablePlan, plan_of
from ticdc_spark.verify.database import DatabaseTable, Place
from ticdc_spark.verify.dialects import Mysql
from ticdc_spark.verify.options import Options, Watcher
from ticdc_spark.verify.sessions import MysqlSessions
from ticdc_spark.verify.settle import Settled, settle
from ticdc_spark.verify.table import Both, Comparison

LAKE = LakeOptions(tinyint1_as_boolean=True)
FILLED = "INSERT INTO {name} SELECT {values} FROM mysql.seq_1_to_300"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("verify keys"), "--max-allowed-packet=1M", "--sql-mode=")
    started.start()
    try:
        yield started
    finally:
        started.kill()


def found(server: Server, create: str, values: str, wrong: str, *, live: bool) -> list[tuple[str, dict[str, Any]]]:
    """What differs after ``wrong`` has changed the table ``there``, which was a copy of ``here``."""
    names = ("d.here", "d.there")
    tables = [
        statement
        for name, kind in zip(names, (create, create.replace("latin1", "utf8mb4")), strict=True)
        for statement in (f"CREATE TABLE {name} {kind}", FILLED.format(name=name, values=values))
    ]
    server.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d CHARACTER SET utf8mb4", *tables, wrong)
    table = parse_create(f"CREATE TABLE t {create}", "d", "escape")
    columns = lake_columns(table, handle_key(table), LAKE)
    plan = plan_of((table, table), (columns, columns), LAKE)
    assert isinstance(plan, TablePlan)
    here, there = (MysqlSessions(server.uri, LAKE) for _ in names)
    source = DatabaseTable(plan, columns, Place(here, Mysql(charsets=True), names[0]))
    target = DatabaseTable(plan, columns, Place(there, Mysql(), names[1]))

    def settled(keys: Collection[Key]) -> Settled:
        return settle(plan, keys, source, lambda: 1, lambda _: target)

    with ThreadPoolExecutor(1) as beside:
        both = Both(
            source=source,
            target=target,
            commit_ts=1,
            snapshot=None,
            rows=300,
            settle=settled if live else None,
            beside=beside,
        )
        try:
            report = Comparison(plan, both, Options(), lambda kept: None).run(None, Watcher())
        finally:
            here.close()
            there.close()
    assert report.undecided == 0
    return [(one.kind, one.key) for one in report.found]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(
    ("create", "values", "wrong", "differs"),
    [
        pytest.param(
            "(f TINYINT(1), id INT, v INT, PRIMARY KEY (f, id))",
            "seq % 3, seq, seq",
            "DELETE FROM d.there WHERE id = 5",
            ("missing", {"f": "True", "id": "5"}),
            id="a boolean of 2",
        ),
        pytest.param(
            "(id INT, d DATE, v INT, PRIMARY KEY (id, d))",
            "seq, IF(seq = 7, '2024-02-00', '2024-02-01'), seq",
            "DELETE FROM d.there WHERE id = 7",
            ("missing", {"id": "7", "d": None}),
            id="a date without a day",
        ),
        pytest.param(
            "(k VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, v INT)",
            "CONCAT('é', seq), seq",
            "INSERT INTO d.there VALUES ('日本', 1)",
            ("extra", {"k": "日本"}),
            id="a text that the source cannot have",
        ),
        pytest.param(
            "(k VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, v INT)",
            "CONCAT('é€', seq), seq",
            "DELETE FROM d.there WHERE v = 9",
            ("missing", {"k": "é€9"}),
            id="a text of latin1",
        ),
        pytest.param(
            "(id INT PRIMARY KEY, v LONGBLOB)",
            "seq, IF(seq = 9, REPEAT('x', 700000), seq)",
            "UPDATE d.there SET v = NULL WHERE id = 9",
            ("changed", {"id": "9"}),
            id="a value that is longer than a packet as text",
        ),
    ],
)
def test_a_row_that_differs_is_found(
    server: Server, live: bool, create: str, values: str, wrong: str, differs: tuple[str, dict[str, Any]]
) -> None:
    assert found(server, create, values, wrong, live=live) == [differs]
