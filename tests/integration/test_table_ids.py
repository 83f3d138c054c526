"""Ids and versions of tables in what a changefeed sends of a real binlog."""

from __future__ import annotations

from pathlib import Path
from threading import Event as Stop

import pytest

from tests.integration.binlog_stream import captured
from tests.integration.test_changefeed import messages
from tests.integration.test_changefeed_reads import Here
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server
from ticdc_spark.capture.base import CapturedDdl, follow
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.capture.open import open_capture
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.filter.tables import named_tables
from ticdc_spark.changefeed.loop import Upstream, run
from ticdc_spark.changefeed.progress import read_stored
from ticdc_spark.changefeed.report import Report
from ticdc_spark.changefeed.snapshot.reads import TableReads
from ticdc_spark.model import Bootstrap, Envelope, Event, SchemaChange, Table
from ticdc_spark.mysql import tso
from ticdc_spark.protocols import decoder


def run_until_now(server: Server, made: Changefeed, state: Path) -> None:
    """One process: reads what is to be read, sends all that the server has by now, and ends."""
    stop = Stop()
    (now,) = server.execute("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0]

    def show(_: Report) -> None:
        found = read_stored(state)
        if found is not None and not found.unread and found.commit_ts > max(found.reading.settles, tso(int(now))):
            stop.set()

    capture = open_capture(server.uri, named_tables(made))
    run(made, Upstream(capture, "binlog", reads=TableReads(made, server.uri, Here())), state, stop=stop, show=show)
    capture.close()


def events_of(broker: Broker, topic: str) -> list[Event]:
    opener = decoder("simple")
    return [event for _, _, key, value in messages(broker, topic) for event in opener.open_message(key, value)]


def schemas_of(event: Event) -> list[Table]:
    match event:
        case Bootstrap(table):
            return [table]
        case SchemaChange(table=after) if after is not None:
            return [after]
    return []


def check_rows(events: list[Event]) -> list[tuple[str, int]]:
    """Each row after its schema, with its id; which table and id each row has, in order, each run of them once."""
    known: dict[tuple[str, str], Table] = {}
    found: list[tuple[str, int]] = []
    for event in events:
        for table in schemas_of(event):
            same = known.setdefault((table.name, str(table.version)), table)
            assert same == table, "two schemas have one version"
        if isinstance(event, Envelope):
            table = known[event.table, event.schema_key]
            assert event.table_id == table.table_id and event.table_id
            assert int(event.schema_key) <= event.commit_ts
            if found[-1:] != [(event.table, event.table_id)]:
                found.append((event.table, event.table_id))
    return found


@pytest.mark.parametrize("form", ["json", pytest.param("avro", marks=pytest.mark.slow)])
def test_a_table_keeps_its_id_until_it_is_truncated_or_made_again(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path, form: str
) -> None:
    server.execute(
        *(f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v VARCHAR(9))" for name in ("audit", "orders")),
        "INSERT INTO d.audit VALUES (0, 'x')",
        "INSERT INTO d.orders VALUES (0, 'x')",
    )
    file, state = tmp_path / "feed.toml", tmp_path / "state"
    file.write_text('[filter]\nrules = ["d.*"]\n[ticdc-spark]\nsnapshot = "initial"\n')
    uri = f"kafka://{broker.servers}/{topic_name}?protocol=simple&partition-num=1&encoding-format={form}"
    made = load_changefeed(file, uri, {})
    both = ["BEGIN", *(f"INSERT INTO d.orders VALUES ({at}, 'o')" for at in range(1, 4))]
    both += [*(f"INSERT INTO d.audit VALUES ({at}, 'a')" for at in range(1, 4)), "COMMIT"]
    steps = (
        ["SELECT 1"],
        both,
        ["RENAME TABLE d.orders TO d.sales", "INSERT INTO d.sales VALUES (10, 'r')"],
        ["ALTER TABLE d.sales ADD w INT", "INSERT INTO d.sales VALUES (11, 's', 1)"],
        ["TRUNCATE TABLE d.sales", "INSERT INTO d.sales VALUES (12, 't', 1)"],
        ["DROP TABLE d.audit", "CREATE TABLE d.audit (id INT PRIMARY KEY)", "INSERT INTO d.audit VALUES (1)"],
        ["DROP TABLE d.audit", "CREATE TABLE d.audit LIKE d.sales", "INSERT INTO d.audit VALUES (1, 'l', 1)"],
        ["INSERT INTO d.sales VALUES (13, 'u', 1)"],
    )
    for statements in steps:  # each in a process of its own
        server.execute(*statements)
        run_until_now(server, made, state)
    events = events_of(broker, topic_name)
    rows = check_rows(events)
    audit, orders = rows[0][1], rows[1][1]
    cleared, again, replaced = rows[-4][1], rows[-3][1], rows[-2][1]
    assert rows == [
        *(("audit", audit), ("orders", orders), ("audit", audit), ("sales", orders)),
        *(("sales", cleared), ("audit", again), ("audit", replaced), ("sales", cleared)),
    ]
    assert len({audit, orders, cleared, again, replaced}) == 5
    assert [
        (event.kind, *(table and (table.name, table.table_id) for table in (event.pre_table, event.table)))
        for event in events
        if isinstance(event, SchemaChange)
    ] == [
        ("RENAME", ("orders", orders), ("sales", orders)),
        ("ALTER", ("sales", orders), ("sales", orders)),
        ("TRUNCATE", ("sales", orders), ("sales", cleared)),
        ("ERASE", ("audit", audit), ("audit", audit)),
        ("CREATE", None, ("audit", again)),
        ("ERASE", ("audit", again), ("audit", again)),
        ("CREATE", None, ("audit", replaced)),
    ]


REPLACED = {
    True: ("CREATE OR REPLACE TABLE d.b AS SELECT 7 AS id",),
    False: ("DROP TABLE d.b", "CREATE TABLE d.b AS SELECT 7 AS id"),
}


def test_ids_are_the_same_wherever_reading_goes_on(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    state = BinlogCapture(server.uri).begin()
    server.execute(
        "CREATE TABLE d.a (id INT PRIMARY KEY)",
        "DROP TABLE d.a",
        "CREATE TABLE d.b (id INT PRIMARY KEY)",
        "TRUNCATE TABLE d.t",
        *REPLACED[server.is_mariadb],
        "RENAME TABLE d.b TO d.x, d.t TO d.b, d.x TO d.t",
        "ALTER TABLE d.t ADD v INT",
        "INSERT INTO d.t VALUES (1, 1)",
    )
    given = captured(server, state)
    ids = [
        change.table.table_id
        for one in given
        if isinstance(one, CapturedDdl)
        for change in one.changes
        if change.table is not None and change.kind in ("create table", "truncate table")
    ]
    assert ids == list(range(state.last_table_id + 1, state.last_table_id + 5))
    reached = state
    for at, one in enumerate(given):
        reached = follow(reached, one)
        assert captured(server, reached) == given[at + 1 :]
