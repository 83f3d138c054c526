"""Tables of a real MariaDB that are swapped while ``replicate`` reads them in full: each keeps its own rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Lock

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.integration.circle import database, wrong
from tests.spark.lake import replicate
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server
from tests.support.swapped_tables import LIKE, SWAPS, fill, swap
from ticdc_spark import failpoints
from ticdc_spark.capture.open import open_capture
from ticdc_spark.capture.snapshot.base import Wanted
from ticdc_spark.capture.snapshot.database import DatabaseReader
from ticdc_spark.capture.snapshot.identity import _OWN_CODES, file_name
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.filter.tables import named_tables
from ticdc_spark.changefeed.loop import Upstream, run
from ticdc_spark.config.load import load_identity
from ticdc_spark.errors import MessageError
from ticdc_spark.mysql import handle_key
from ticdc_spark.operate.status import job_status
from ticdc_spark.spark.tasks import MOVED
from ticdc_spark.spark.types import LakeOptions, lake_columns

JOB = """
[job]
name = "swaps"
source-timezone = "UTC"
poll-interval = "100ms"
commit-interval = "100ms"
idle-partition-timeout = "20s"
parallel-tables = 40
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["{topic}"]
protocol = "simple"
[snapshot]
upstream = "{uri}"
tables = ["d.*"]
parallelism = 1
chunk-rows = 8
[sink]
kind = "iceberg"
warehouse = "lake"
"""


@contextmanager
def sending(server: Server, broker: Broker, topic: str, folder: Path) -> Iterator[None]:
    """A changefeed of database ``d`` that goes on."""
    file = folder / "feed.toml"
    file.write_text('[filter]\nrules = ["d.*"]\n')
    feed = load_changefeed(file, f"kafka://{broker.servers}/{topic}?protocol=simple&partition-num=1", {})
    stop, begun = Event(), Event()
    capture = open_capture(server.uri, named_tables(feed))

    def work() -> None:
        run(feed, Upstream(capture, "binlog"), folder / "feed", stop=stop, show=lambda _: begun.set())

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        try:
            assert begun.wait(120) or running.result(0) is None
            yield
        finally:
            stop.set()
            running.result(60)
            capture.close()


def between_waves(server: Server, names: Sequence[str]) -> Callable[[str], None]:
    """Does a step of each table's swap behind each of the first waves."""
    waves, lock = count(), Lock()

    def point(name: str) -> None:
        if name == "gather":
            with lock:
                step = next(waves)
                for table in names:
                    swap(server, table, step)

    return point


def conditions(job: Path) -> dict[str, str]:
    return {table.table: table.condition for table in job_status(load_identity(job)).tables}


@pytest.fixture
def reader(server: Server) -> Iterator[DatabaseReader]:
    opened = DatabaseReader(server.uri)
    yield opened
    opened.close()


def rows_of_wave(reader: DatabaseReader, name: str, identity: str, upto: str = "") -> tuple[list[int], str]:
    """The ids of the next rows of a table as a task reads them, and where the wave behind them goes on."""
    table = reader.schema(("d", name), None)
    assert table is not None
    columns = lake_columns(table, handle_key(table), LakeOptions())
    wanted = Wanted(
        name=("d", name),
        columns=columns,
        lake=LakeOptions(),
        at=None,
        upto=upto,
        chunk_rows=8,
        parts=1,
        identity=identity,
    )
    wave = reader.wave(wanted)
    numbers = pa.RecordBatch.from_pydict({"part": [0]})
    found = [batch.column(0).to_pylist() for batch in wave.read(set())([numbers])]
    return [one for ids in found for one in ids], wave.upto


@pytest.mark.parametrize("name", SWAPS)
def test_a_chunk_of_another_table_under_the_name_is_refused(server: Server, reader: DatabaseReader, name: str) -> None:
    fill(server, [name])
    identity = reader.identity(("d", name))
    first, upto = rows_of_wave(reader, name, identity)
    assert first == [*range(1, 9)]
    time.sleep(1.1 if name == "columns" else 0)  # the server knows the second of a table's last DDL
    swap(server, name, 0)
    with pytest.raises(MessageError, match=MOVED):
        rows_of_wave(reader, name, identity, upto)
    assert reader.identity(("d", name)) != identity
    swap(server, name, 1)
    if name == "away_and_back":
        assert reader.identity(("d", name)).split()[0] == identity.split()[0], "the table itself is back"


@pytest.mark.parametrize("table", ["a-b c$#中", pytest.param("a-b c$é", marks=pytest.mark.mariadb)])
def test_a_partition_that_is_emptied_or_exchanged_makes_it_another_table(
    server: Server, reader: DatabaseReader, table: str
) -> None:
    name = ("d", table)
    quoted = f"d.`{table}`"
    parts = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)"
    server.execute(f"CREATE TABLE {quoted} {LIKE} {parts}", f"CREATE TABLE d.one {LIKE}")
    found = [reader.identity(name)]
    for sql in (
        f"ALTER TABLE {quoted} TRUNCATE PARTITION p1",
        f"ALTER TABLE {quoted} EXCHANGE PARTITION p0 WITH TABLE d.one",
    ):
        server.execute(sql)
        found.append(reader.identity(name))
    assert len({tuple(one.split()[:2]) for one in found}) == 3, "two partitions, two ids"


@pytest.mark.mariadb
def test_names_of_files_are_those_of_the_server(server: Server) -> None:
    """MySQL 9.7 does not tell them."""
    letters = [one for one in map(chr, range(1, 0xD800)) if not _OWN_CODES.search(one)]
    for at in range(0, len(letters), 1000):
        name = "".join(letters[at : at + 1000])
        given = "".join(f"{ord(one):04x}" for one in name)
        (((of_server,),)) = server.execute(
            f"SELECT CAST(CONVERT(CONVERT(x'{given}' USING ucs2) USING filename) AS BINARY)"
        )
        assert file_name(name) == of_server.decode()


def test_a_reader_without_the_grant_says_so_once_and_reads_on(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    fill(server, ["archived"])
    server.execute("DROP USER IF EXISTS reader@'127.0.0.1'", "CREATE USER reader@'127.0.0.1'")
    server.execute("GRANT SELECT ON *.* TO reader@'127.0.0.1'")
    reader = DatabaseReader(server.uri.replace("root@", "reader@"))
    assert reader.identity(("d", "archived")) == reader.identity(("d", "archived")) == ""
    assert rows_of_wave(reader, "archived", "")[0] == [*range(1, 9)]
    reader.close()
    assert caplog.text.count("GRANT PROCESS ON *.* TO") == 1


@pytest.mark.slow
@pytest.mark.parametrize("process", [True, False], ids=["with PROCESS", "without PROCESS"])
def test_rows_of_a_table_that_took_its_name_are_not_taken_for_its_own(
    spark: SparkSession, server: Server, broker: Broker, topic_name: str, tmp_path: Path, *, process: bool
) -> None:
    fill(server, ["archived"])
    server.execute("DROP USER IF EXISTS reader@'127.0.0.1'", "CREATE USER reader@'127.0.0.1'")
    server.execute(f"GRANT SELECT{', PROCESS' if process else ''} ON *.* TO reader@'127.0.0.1'")
    job = tmp_path / "job.toml"
    uri = server.uri.replace("root@", "reader@")
    job.write_text(JOB.format(servers=broker.servers, topic=topic_name, uri=uri))
    with sending(server, broker, topic_name, tmp_path):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(failpoints, "point", between_waves(server, ["archived"]))
            replicate(job)
        for _ in range(8):
            if not replicate(job).held:
                break
    assert wrong(job, database(server, "d"), grown=False) == {}
    assert set(conditions(job).values()) <= {"clean", "dropped"}
