"""Rows that tables have, sent by a changefeed in this process: schemas, filters and columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from threading import Event

import msgspec
import pytest
from msgspec.structs import replace

from tests.integration.test_changefeed import messages
from tests.integration.test_changefeed_snapshot import TIDB, assert_equal, contents, fill
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server
from tests.support.swapped_tables import SWAPS, swap
from tests.support.swapped_tables import fill as fill_swapped
from ticdc_spark.capture.open import open_capture
from ticdc_spark.capture.snapshot.present import ServerTables
from ticdc_spark.changefeed.check import lines
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.filter.tables import named_tables
from ticdc_spark.changefeed.loop import Upstream, run
from ticdc_spark.changefeed.progress import read_stored
from ticdc_spark.changefeed.report import Report
from ticdc_spark.changefeed.sent import TableRows
from ticdc_spark.changefeed.snapshot.plan import PartSent
from ticdc_spark.changefeed.snapshot.reads import TableReads
from ticdc_spark.changefeed.snapshot.rounds import Sender
from ticdc_spark.changefeed.snapshot.send import SendJob, send_part
from ticdc_spark.clients.registry_file import RegistryFile
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Envelope
from ticdc_spark.protocols import decoder

FEW = ("circle", "made_again")
"""Swaps whose tests are not slow."""


class Here:
    """Sends waves in this process, which is quicker to start than Spark."""

    def __init__(self, between: Callable[[int], None] = lambda _: None) -> None:
        """``between``: is done before each wave but the first; it gets the wave's number."""
        self._between, self._waves = between, count()

    def __call__(self, job: SendJob) -> Sequence[PartSent]:
        if wave := next(self._waves):
            self._between(wave)
        return [send_part(job, number) for number in range(len(job.parts))]

    def close(self) -> None:
        return


def read_all(made: Changefeed, server: Server, state: Path, sender: Sender | None = None) -> Report:
    """Run the changefeed here until its tables are read and it has caught up."""
    stop = Event()

    def show(report: Report) -> None:
        found = read_stored(state)
        if found is not None and not found.unread and found.commit_ts > found.reading.settles > 0:
            stop.set()

    capture = open_capture(server.uri, named_tables(made))
    report = run(
        made,
        Upstream(capture, "binlog", reads=TableReads(made, server.uri, sender or Here())),
        state,
        stop=stop,
        show=show,
    )
    capture.close()
    return report


@pytest.mark.parametrize("protocol", ["avro", "debezium-avro"])
def test_the_driver_registers_the_schemas_that_tasks_use(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path, protocol: str
) -> None:
    fill(server, 2, 30)
    server.execute("ALTER TABLE d.t1 ADD u BIGINT UNSIGNED NOT NULL DEFAULT 7")
    file = tmp_path / "feed.toml"
    topic = f'topic = "{topic_name}_{{schema}}_{{table}}"'
    file.write_text(f'[filter]\nrules = ["d.*"]\n[sink]\ndispatchers = [{{matcher = ["*.*"], {topic}}}]\n')
    uri = f"kafka://{broker.servers}/{topic_name}?protocol={protocol}&partition-num=1{TIDB}"
    made = load_changefeed(file, f"{uri}&schema-registry=file:{tmp_path}/schemas.json", {"snapshot": "initial"})
    made = replace(made, snapshot=replace(made.snapshot, chunk_rows=11, parallelism=2))
    read_all(made, server, tmp_path / "state")
    with RegistryFile(tmp_path / "schemas.json") as registry:
        opener = decoder(protocol, registry)
        for table in ("t0", "t1"):
            found = messages(broker, f"{topic_name}_d_{table}")
            events = [event for one in found for event in opener.open_message(*one[2:])]
            rows = [event for event in events if isinstance(event, Envelope)]
            assert len(rows) == 30 and all(row.op in ("insert", "upsert") for row in rows)


def test_rows_are_filtered_and_columns_chosen_as_those_of_changes(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    fill(server, 1, 30)
    server.execute("CREATE TABLE d.k (v INT)", "INSERT INTO d.k VALUES (1)", "ANALYZE TABLE d.t0")
    file = tmp_path / "feed.toml"
    file.write_text(
        """force-replicate = true
[filter]
rules = ["d.*"]
event-filters = [{matcher = ["d.t0"], ignore-insert-value-expr = "v > 20"}]
[sink]
column-selectors = [{matcher = ["d.t0"], columns = ["id", "w"]}]
"""
    )
    uri = f"kafka://{broker.servers}/{topic_name}?protocol=canal-json&partition-num=2{TIDB}"
    made = load_changefeed(file, uri, {"snapshot": "initial"})
    made = replace(made, snapshot=replace(made.snapshot, chunk_rows=7, parallelism=3))
    shown = "\n".join(lines(made, open_capture(server.uri, named_tables(made)), ServerTables(server.uri)))
    assert "read first, d.t0: about 30 rows in 5 ranges" in shown and "read first, d.k: no: it has no key" in shown
    assert "read first, tables: 1, about 30 rows in 5 ranges, 3 in parallel" in shown
    report = read_all(made, server, tmp_path / "state")
    assert report.counted == (TableRows("d", "t0", "insert", 20),)
    assert report.bytes >= sum(len(key or b"") + len(value or b"") for *_, key, value in messages(broker, topic_name))
    opener = decoder("canal-json")
    events = [event for one in messages(broker, topic_name) for event in opener.open_message(*one[2:])]
    rows = [event for event in events if isinstance(event, Envelope)]
    assert {row.table for row in rows} == {"t0"}, "a table without a key is not read"
    images = [msgspec.json.decode(row.after or b"{}") for row in rows]
    assert sorted(int(image["id"]) for image in images) == [2 * at for at in range(1, 21)]
    assert {tuple(image) for image in images} == {("id", "w")}


def feed_of(folder: Path, broker: Broker, topic: str, chunk_rows: int) -> Changefeed:
    file = folder / "feed.toml"
    file.write_text('[filter]\nrules = ["d.*"]\n')
    uri = f"kafka://{broker.servers}/{topic}?protocol=simple&partition-num=1"
    made = load_changefeed(file, uri, {"snapshot": "initial"})
    return replace(made, snapshot=replace(made.snapshot, chunk_rows=chunk_rows, parallelism=1))


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in FEW else pytest.mark.slow) for one in SWAPS])
def test_rows_of_a_table_that_took_its_name_are_not_sent_as_its_own(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path, name: str
) -> None:
    fill_swapped(server, [name])
    time.sleep(1.1 if name == "columns" else 0)  # the server knows the second of a table's last DDL
    sender = Here(lambda wave: swap(server, name, wave - 1))
    read_all(feed_of(tmp_path, broker, topic_name, 8), server, tmp_path / "state", sender)
    assert_equal(server, contents(broker, topic_name))


def test_a_ddl_that_is_not_sent_yet_keeps_its_table_from_being_read(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    """Between the binlog's position and the first look at the tables."""
    fill_swapped(server, ["archived", "circle"])
    made = feed_of(tmp_path, broker, topic_name, 8)

    class Late(ServerTables):
        def check(self) -> None:
            super().check()
            swap(server, "archived", 0)

    stop = Event()

    def show(report: Report) -> None:
        found = read_stored(tmp_path / "state")
        if found is not None and not found.unread and found.commit_ts > found.reading.settles > 0:
            stop.set()

    capture = open_capture(server.uri, named_tables(made))
    reads = TableReads(made, server.uri, Here(), lambda: Late(server.uri))
    run(made, Upstream(capture, "binlog", reads=reads), tmp_path / "state", stop=stop, show=show)
    capture.close()
    assert_equal(server, contents(broker, topic_name))


def test_without_the_grant_a_changefeed_that_reads_tables_does_not_begin(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    fill_swapped(server, ["archived"])
    server.execute("DROP USER IF EXISTS reader@'127.0.0.1'", "CREATE USER reader@'127.0.0.1'")
    server.execute("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader@'127.0.0.1'")
    made, uri = feed_of(tmp_path, broker, topic_name, 8), server.uri.replace("root@", "reader@")
    reads, capture = TableReads(made, uri, Here()), open_capture(uri, named_tables(made))
    with pytest.raises(UsageError, match=r"GRANT PROCESS ON \*\.\* TO"):
        run(made, Upstream(capture, "binlog", reads=reads), tmp_path / "state", stop=Event())
    assert read_stored(tmp_path / "state") is None
    capture.close()
