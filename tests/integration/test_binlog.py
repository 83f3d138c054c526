"""The binlog of a real MariaDB: what is captured equals what the server has."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pymysql
import pytest

from tests.integration.binlog_stream import OPTIONS, Rows, after, captured, captured_with_resolved, fold_rows, ops
from tests.support.mariadb_server import Server, running
from ticdc_spark.capture.base import Capture, Resolved, Transaction, follow
from ticdc_spark.capture.binlog import BinlogCapture, group
from ticdc_spark.errors import (
    DecisionNeeded,
    SourceChanged,
    SourceFault,
    UsageError,
)


@pytest.mark.mariadb
def test_rows_come_as_they_are_and_a_restart_gives_the_same(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(9,2))")
    source: Capture = BinlogCapture(server.uri)
    state = source.begin()
    server.execute(
        "INSERT INTO d.t VALUES (1, 'é', 1.5), (2, NULL, -0.25)",
        "UPDATE d.t SET n = n + 1",
        "ALTER TABLE d.t ADD COLUMN at DATETIME(2) DEFAULT '2024-01-01'",
        "START TRANSACTION",
        "INSERT INTO d.t VALUES (3, 'x', 0, '0000-01-01 00:00:00')",
        "DELETE FROM d.t WHERE id = 1",
        "COMMIT",
        "CREATE OR REPLACE TABLE d.t (id INT PRIMARY KEY)",
        "CREATE OR REPLACE TABLE d.t AS SELECT 7 AS id",
    )
    given = captured(server, state)
    assert ops(given) == [
        ["insert 1", "insert 2"],
        ["update 1", "update 2"],
        ["alter table t"],
        ["insert 3", "delete 1"],
        ["drop table t"],
        ["create table t"],
        ["drop table t"],
        ["create table t"],
        ["insert 7"],
    ]
    assert [one.commit_ts for one in given] == sorted({one.commit_ts for one in given})
    reached = state
    for at, one in enumerate(given):
        reached = follow(reached, one)
        assert captured(server, reached) == given[at + 1 :]
    rows: Rows = {}
    for one in given[:2]:
        fold_rows(rows, one)
    assert rows["d", "t"][("2",)] == {"id": "2", "v": None, "n": "0.75"}


def test_idle_time_passes_and_a_later_commit_is_above_it(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    source = BinlogCapture(server.uri)
    state = source.begin()
    reading = source.read(state)
    clock, resolved = 0, state.commit_ts
    began = time.monotonic()
    while clock < 3:
        one = next(reading)
        assert isinstance(one, Resolved) and one.commit_ts >= resolved
        clock += one.from_clock and one.commit_ts > resolved
        resolved, state = one.commit_ts, follow(state, one)
        assert time.monotonic() - began < 60
    server.execute("SET timestamp = 1000000000", "INSERT INTO d.t VALUES (1)")  # an event from the past
    while not isinstance(given := next(reading), Transaction):
        state = follow(state, given)
    assert given.commit_ts > state.commit_ts >= resolved
    source.close()
    assert captured(server, state) == [given]


def test_idle_time_passes_behind_a_file_that_is_shorter_than_the_one_before(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)")
    source = BinlogCapture(server.uri)
    reading = source.read(source.begin())
    server.execute(f"INSERT INTO d.t VALUES (1, '{'x' * 50_000}')", "FLUSH BINARY LOGS")
    server.execute("INSERT INTO d.t VALUES (2, '')")
    given = [next(one for one in reading if isinstance(one, Transaction)) for _ in range(2)]
    waited = []
    while len(waited) < 40 and not any(waited):  # a heartbeat each half second
        one = next(reading)
        assert isinstance(one, Resolved)
        waited.append(one.from_clock and one.commit_ts > given[-1].commit_ts)
    source.close()
    assert any(waited)


def test_a_read_that_waits_ends_when_it_is_closed(server: Server) -> None:
    source = BinlogCapture(server.uri)
    reading = source.read(source.begin())
    next(reading)
    Thread(target=lambda: (time.sleep(0.2), source.close())).start()
    assert all(isinstance(one, Resolved) for one in reading)


@pytest.mark.mariadb
def test_savepoints_and_rollbacks(server: Server) -> None:
    given = after(
        server,
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "CREATE TABLE d.m (id INT) ENGINE=MyISAM",
        "BEGIN",
        "INSERT INTO d.t VALUES (1)",
        "SAVEPOINT `s 1`",
        "INSERT INTO d.m VALUES (2)",  # is committed at once
        "INSERT INTO d.t VALUES (3)",
        "ROLLBACK TO `s 1`",
        "INSERT INTO d.t VALUES (4)",
        "COMMIT",
        "BEGIN",
        "CREATE TEMPORARY TABLE d.tmp (id INT)",  # keeps what is rolled back in the binlog
        "INSERT INTO d.t VALUES (5)",
        "INSERT INTO d.tmp VALUES (5)",
        "ROLLBACK",
        "BEGIN",
        "INSERT INTO d.t VALUES (6)",
        "ALTER TABLE d.m COMMENT 'commits what is open'",
        "ROLLBACK",
    )
    assert ops(given)[2:] == [["insert 2"], ["insert 1", "insert 4"], ["insert 6"], ["alter table m"]]


def test_xa_transactions_come_when_they_are_committed(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    state = BinlogCapture(server.uri).begin()

    def prepare(name: str, row: int) -> None:
        server.execute(
            f"XA START '{name}'", f"INSERT INTO d.t VALUES ({row})", f"XA END '{name}'", f"XA PREPARE '{name}'"
        )

    prepare("first", 1)
    server.execute("INSERT INTO d.t VALUES (2)")
    prepare("second", 3)
    with pytest.raises(SourceFault, match="2 prepared XA transactions"):
        BinlogCapture(server.uri).begin()
    server.execute("INSERT INTO d.t VALUES (4)", "CREATE TABLE d.other (id INT)")
    server.execute("XA ROLLBACK 'second'")
    server.execute("XA COMMIT 'first'")
    server.execute("XA START 'third'", "INSERT INTO d.t VALUES (5)", "XA END 'third'", "XA COMMIT 'third' ONE PHASE")
    given = captured(server, state)
    assert ops(given) == [["insert 2"], ["insert 4"], ["create table other"], ["insert 1"], ["insert 5"]]
    for at, one in enumerate(given):
        state = follow(state, one)
        assert captured(server, state) == given[at + 1 :]


@pytest.mark.mariadb
def test_an_alter_in_two_phases_counts_once(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    state = BinlogCapture(server.uri).begin()
    server.execute("INSERT INTO d.t VALUES (1)", "SET binlog_alter_two_phase = 1", "ALTER TABLE d.t ADD v INT")
    with pytest.raises(pymysql.err.MySQLError):
        server.execute(
            "SET binlog_alter_two_phase = 1, sql_mode = 'STRICT_ALL_TABLES'",
            "UPDATE d.t SET v = 1000",
            "ALTER TABLE d.t MODIFY v TINYINT, ALGORITHM=COPY",
        )
    assert ops(captured(server, state)) == [["insert 1"], ["alter table t"], ["update 1"]]


@pytest.mark.mariadb
def test_compressed_events(server: Server) -> None:
    server.execute("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
    given = after(
        server,
        f"CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT COMMENT '{'x' * 300}')",
        "INSERT INTO d.t VALUES (1, REPEAT('é', 1000))",
        "UPDATE d.t SET v = REPEAT('中', 1000)",
        "DELETE FROM d.t",
    )
    assert ops(given) == [["create table t"], ["insert 1"], ["update 1"], ["delete 1"]]
    (change,) = given[2].changes
    assert change.after == {"id": "1", "v": "中" * 1000}


def test_a_large_transaction_lies_on_disk_and_has_a_limit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "SPILL_BYTES", 10_000)
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)")
    state = BinlogCapture(server.uri).begin()
    server.execute("INSERT INTO d.t SELECT seq, REPEAT('x', 100) FROM mysql.seq_1_to_2000")
    (one,) = captured(server, state)
    assert isinstance(one, Transaction) and not isinstance(one.changes, tuple)
    assert len(one.changes) == 2000
    assert [row.after["id"] for row in one.changes if row.after] == [str(at) for at in range(1, 2001)]
    with pytest.raises(DecisionNeeded, match=r"100,000 bytes of rows, the limit of max-transaction-bytes"):
        captured(server, state, f"{server.uri}/?max-transaction-bytes=100000")


def test_tables_that_are_not_wanted_are_not_looked_at(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)", "CREATE TABLE d.u (id INT PRIMARY KEY)")
    source = BinlogCapture(server.uri, wanted=lambda schema, name: name != "u")
    state = source.begin()
    server.execute(
        "SET sql_log_bin = 0",
        "ALTER TABLE d.u ADD v INT",
        "SET sql_log_bin = 1",
        "INSERT INTO d.u VALUES (1, 1)",
        "INSERT INTO d.t VALUES (1)",
    )
    given = next(one for one in source.read(state) if not isinstance(one, Resolved))
    assert ops([given]) == [["insert 1"]] and given.changes[0].table.name == "t"
    source.close()


@pytest.mark.parametrize("tls", ["", "?tls=false"])
def test_a_password_has_any_letters(server: Server, tls: str) -> None:
    """Without TLS, MySQL's plugin sends it by a key of the server's."""
    server.execute(
        "DROP USER IF EXISTS lettered@127.0.0.1",
        "CREATE USER lettered@127.0.0.1 IDENTIFIED BY 'pä中😀 %'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO lettered@127.0.0.1",
    )
    uri = f"mysql://lettered:{quote('pä中😀 %')}@127.0.0.1:{server.port}/{tls}"
    assert captured(server, BinlogCapture(uri).begin(), uri) == []


@pytest.mark.mariadb
def test_everything_wrong_with_a_server_is_named_at_once(server: Server, tmp_path: Path) -> None:
    server.execute(
        "SET GLOBAL binlog_format = MIXED",
        "SET GLOBAL binlog_row_image = MINIMAL",
        "SET GLOBAL binlog_row_metadata = NO_LOG",
        "CREATE OR REPLACE USER weak@127.0.0.1 IDENTIFIED BY 'pass word'",
        "CREATE OR REPLACE USER strong@127.0.0.1 IDENTIFIED BY ''",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO strong@127.0.0.1",
        "GRANT SELECT ON d.* TO strong@127.0.0.1",
    )
    uri = f"mysql://weak:pass%20word@127.0.0.1:{server.port}/?server-id=7"
    with pytest.raises(UsageError) as found:
        BinlogCapture(uri).begin()
    text = str(found.value)
    assert [line.split()[1] for line in text.splitlines()[1:]] == [
        "binlog_format",
        "binlog_row_image",
        "binlog_row_metadata",
        "server-id",
        "'weak'",
        "'weak'",
        "'weak'",
    ]
    assert "pass word" not in text and "REPLICATION SLAVE" in text and "BINLOG MONITOR" in text
    server.execute(
        "SET GLOBAL binlog_format = ROW", "SET GLOBAL binlog_row_image = FULL", "SET GLOBAL binlog_row_metadata = FULL"
    )
    assert captured(server, BinlogCapture(f"mysql://strong@127.0.0.1:{server.port}").begin()) == []
    with pytest.raises(UsageError, match=r"refuses the login of 'weak'.* Correct the user or password"):
        BinlogCapture(f"mysql://weak:wrong@127.0.0.1:{server.port}").begin()


def test_a_purged_or_reset_binlog_is_named(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    state = BinlogCapture(server.uri).begin()
    for at in range(3):
        server.execute(f"INSERT INTO d.t VALUES ({at})", "FLUSH BINARY LOGS")
    (file,) = {row[0] for row in server.execute("SHOW MASTER STATUS")}
    # A log that a connection still reads is not purged, and those of the tests before end a little after them.
    for _ in range(300):
        server.execute("FLUSH BINARY LOGS", f"PURGE BINARY LOGS TO '{file}'")
        if server.execute("SHOW BINARY LOGS")[0][0] == file:
            break
        time.sleep(0.1)
    with pytest.raises(SourceChanged, match=r"(does not send its binlog|has purged binlogs) .* Begin a new changefeed"):
        captured(server, state)
    state = BinlogCapture(server.uri).begin()
    server.execute("RESET MASTER")
    with pytest.raises(SourceChanged, match="Begin a new changefeed"):
        captured(server, state)


@pytest.mark.mariadb
def test_numbers_out_of_order_are_read_where_the_server_allows_them(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    state = BinlogCapture(server.uri).begin()
    (sequence,) = server.execute("SELECT SUBSTRING_INDEX(@@gtid_binlog_pos, '-', -1)")[0]
    later = [f"SET gtid_seq_no = {int(sequence) + ahead}" for ahead in (50, 20)]
    server.execute(later[0], "INSERT INTO d.t VALUES (1)", later[1], "INSERT INTO d.t VALUES (2)")
    given = captured(server, state)
    assert ops(given) == [["insert 1"], ["insert 2"]]
    assert captured(server, follow(state, given[0])) == given[1:]


@pytest.mark.mariadb  # MySQL logs when a transaction was really committed
def test_a_time_that_is_to_come_is_warned_of(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        after(
            server,
            "CREATE TABLE d.t (id INT PRIMARY KEY)",
            "SET timestamp = 2000000000",
            "INSERT INTO d.t VALUES (1)",
            "INSERT INTO d.t VALUES (2)",
        )
    assert ["2033-05-18 03:33:20" in one for one in caplog.messages] == [True]


@pytest.mark.mariadb
def test_rows_that_foreign_keys_change_below_the_binlog_are_warned_of(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.execute(
        "CREATE TABLE d.p (id INT PRIMARY KEY)",
        "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, "
        "CONSTRAINT f FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE)",
        "CREATE TABLE d.r (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.p (id))",
    )
    with caplog.at_level(logging.WARNING):
        BinlogCapture(server.uri).begin()
        BinlogCapture(server.uri, wanted=lambda schema, name: name != "c").begin()
    assert [one for one in caplog.messages if "foreign keys" in one] == [caplog.messages[0]]
    assert caplog.messages[0].endswith(": `d`.`c` (f)")


def _rows(server: Server, count: int) -> None:
    server.execute("DROP TABLE IF EXISTS d.t", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    server.execute(*(f"INSERT INTO d.t VALUES ({at})" for at in range(count)))


def test_a_reset_that_nobody_saw_is_noticed(server: Server) -> None:
    """The new binlog has the file and the numbers of the old one, and goes beyond what was read."""
    server.execute("RESET MASTER")
    _rows(server, 3)
    state = BinlogCapture(server.uri).begin()
    time.sleep(1.1)  # files are told apart by the second in which they were made
    server.execute("RESET MASTER")
    _rows(server, 30)
    with pytest.raises(SourceChanged, match=r"reset.*Begin a new changefeed"):
        captured(server, state)


def test_a_reset_with_the_same_work_after_it_is_noticed(server: Server) -> None:
    server.execute("DROP TABLE IF EXISTS d.t", "RESET MASTER")
    state = BinlogCapture(server.uri).begin()
    _rows(server, 3)
    for one in captured(server, state)[:4]:
        state = follow(state, one)
    time.sleep(1.1)
    server.execute("DROP TABLE d.t", "RESET MASTER")
    _rows(server, 5)
    # Offset and GTID are mostly the same, and the age of the file tells. A late checkpoint event moves the offsets.
    with pytest.raises(SourceChanged, match=r"reset.*Begin a new changefeed"):
        captured(server, state)


def test_a_certificate_that_nobody_vouches_for_names_the_keys_of_tls(tmp_path: Path) -> None:
    """MariaDB makes itself a certificate at its start."""
    with running(tmp_path, *OPTIONS, "--ssl=ON") as server:
        with pytest.raises(SourceFault, match=r"certificate.*ssl-ca=PATH in source-uri.*ssl-verify=false"):
            BinlogCapture(f"{server.uri}/?tls=true").begin()
        assert BinlogCapture(f"{server.uri}/?tls=true&ssl-verify=false").begin().position


def test_a_lost_connection_is_made_again(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    source = BinlogCapture(server.uri)
    reading = source.read(source.begin())
    next(reading)
    for at in range(2):
        dumps = server.execute("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'")
        for (number,) in dumps:
            server.end_connection(number)
        server.execute(f"INSERT INTO d.t VALUES ({at})")
        with caplog.at_level(logging.WARNING):
            assert ops([next(one for one in reading if isinstance(one, Transaction))]) == [[f"insert {at}"]]
    assert "retrying in" in caplog.text
    assert source.retries > 0
    source.close()


def test_resolved_keeps_coming_while_many_transactions_are_read(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    state = BinlogCapture(server.uri).begin()
    for at in range(20):
        server.execute(f"INSERT INTO d.t VALUES ({at})")
    largest = 0
    for one in captured_with_resolved(server, state):
        assert one.commit_ts >= largest if isinstance(one, Resolved) else one.commit_ts > largest
        largest = one.commit_ts
