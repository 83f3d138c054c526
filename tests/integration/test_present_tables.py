"""Tables of a real server as they are now: the same rows as its binlog gives, in ranges that miss none."""

from __future__ import annotations

from threading import Thread

import pytest

from tests.integration.test_binlog_values import FOREIGN, TYPES, _captured_rows
from tests.support.mariadb_server import Server
from ticdc_spark.capture.binlog.uri import parse_uri
from ticdc_spark.capture.snapshot.keys import Range
from ticdc_spark.capture.snapshot.present import Present, ServerTables, end_text, read_range, same_rows
from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.model import Row
from ticdc_spark.mysql import handle_key, tso
from ticdc_spark.spark.tasks import SourceMoved


def look(server: Server, name: str) -> Present:
    tables = ServerTables(server.uri)
    found = tables.look(("d", name))
    tables.close()
    assert found is not None
    return found


def all_rows(server: Server, found: Present, of: Range = Range(None, None)) -> list[Row]:  # noqa: B008
    return [row for rows in read_range(parse_uri(server.uri), found, of) for row in rows]


def ranges(server: Server, found: Present, rows: int, at_once: int) -> list[Range]:
    """All ranges, planned some at a time as waves are."""
    tables, upto = ServerTables(server.uri), ""
    planned: list[Range] = []
    while True:
        planned += tables.ranges(found, upto, rows, at_once)
        upto = end_text(planned[-1])
        if not upto:
            tables.close()
            return planned


def test_values_are_those_of_the_binlog(server: Server) -> None:
    columns = [f"c{at} {kind}" for at, kind in enumerate(TYPES)]
    inserts = [
        ", ".join([str(at), *(values[at % len(values)] for values in TYPES.values())])
        for at in range(max(map(len, TYPES.values())))
    ]
    nulls = ", ".join(["99", *["NULL"] * len(TYPES)])
    table, rows = _captured_rows(
        server,
        f"CREATE TABLE d.every (id INT PRIMARY KEY, {', '.join(columns)}, x INT AS (id + 1) VIRTUAL)",
        *(f"INSERT INTO d.every VALUES ({values}, DEFAULT)" for values in (*inserts, nulls)),
    )
    found = look(server, "every")
    assert same_rows(table, found.table)
    for one, other in zip(all_rows(server, found), rows, strict=True):
        assert {name: (one[name], value) for name, value in other.items() if one[name] != value} == {}
        assert one.keys() == other.keys()


def test_lengths_at_which_their_form_changes(server: Server) -> None:
    """A cell's length takes one byte, three, four; rows of more than 16 MiB take several packets."""
    lengths = (0, 1, 250, 251, 252, 65_535, 65_536, 16_777_300)
    server.execute(
        "SET GLOBAL max_allowed_packet = 67108864", "CREATE TABLE d.t (id INT PRIMARY KEY, t LONGTEXT, b LONGBLOB)"
    )
    for at, length in enumerate(lengths):
        server.execute(f"INSERT INTO d.t VALUES ({at}, REPEAT('a', {length}), REPEAT('b', {min(length, 70_000)}))")
    server.execute("INSERT INTO d.t VALUES (98, NULL, 'é'), (99, 'é', NULL)")
    *found, one, other = all_rows(server, look(server, "t"))
    for row, length in zip(found, lengths, strict=True):
        assert (row["t"], row["b"]) == ("a" * length, b"b" * min(length, 70_000)), length
    assert one == {"id": "98", "t": None, "b": "é".encode()} and other == {"id": "99", "t": "é", "b": None}


def test_a_decimal_is_canonical_also_below_zero(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, n DECIMAL(5,2), z DECIMAL(5,2) ZEROFILL, w DECIMAL(5,0))")
    server.execute("INSERT INTO d.t VALUES (1, -0.004, 0.5, -1), (2, -0.01, 12, 0), (3, 0.01, 0, 99999)")
    rows = all_rows(server, look(server, "t"))
    assert [(row["n"], row["z"], row["w"]) for row in rows] == [
        ("0.00", "0.50", "-1"),
        ("-0.01", "12.00", "0"),
        ("0.01", "0.00", "99999"),
    ]


@pytest.mark.mariadb
def test_values_of_mariadb_types(server: Server) -> None:
    kinds = {**FOREIGN, "POINT": ("POINT(1, 2)",), "INT UNSIGNED ZEROFILL": ("7",)}
    for kind, values in kinds.items():
        rows = ", ".join(f"({at}, {value})" for at, value in enumerate(values))
        name = kind.replace(" ", "_").lower()
        table, sent = _captured_rows(
            server, f"CREATE TABLE d.{name} (id INT PRIMARY KEY, c {kind})", f"INSERT INTO d.{name} VALUES {rows}"
        )
        found = look(server, name)
        assert same_rows(table, found.table)
        assert all_rows(server, found) == sent


KEYS = {
    "INT": "{n}",
    "BIGINT UNSIGNED": "18446744073709551615 - {n}",
    "VARCHAR(20) COLLATE utf8mb4_general_ci": "CONCAT('Ä', {n}, IF({n} % 2, 'a', 'B'))",
    "VARBINARY(8)": "UNHEX(LPAD(HEX({n} * 251), 8, '0'))",
    "DECIMAL(20,5)": "{n} / 7",
    "DATETIME(6)": "'2024-01-01' + INTERVAL {n} MICROSECOND",
    "TIMESTAMP(3)": "'2024-03-31 00:00:00' + INTERVAL {n} SECOND",
    "ENUM('z','y','x','w','v','u','t')": "1 + {n} % 7",
    "DOUBLE": "{n} / 3",
    "FLOAT": "{n} / 3",
    "BIT(10)": "{n}",
    "UUID": "CONCAT('00000000-0000-0000-0000-', LPAD({n}, 12, '0'))",
}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.mariadb] * (kind == "UUID")) for kind in KEYS])
@pytest.mark.parametrize("pair", [False, True], ids=["alone", "in a pair"])
def test_ranges_of_keys_miss_nothing_and_have_nothing_twice(server: Server, kind: str, pair: bool) -> None:
    key, value = ("k, n" if pair else "k"), KEYS[kind].replace("{n}", "seq")
    server.execute(
        "USE d",
        "SET sql_mode = ''",
        f"CREATE TABLE t (k {kind}, n INT, PRIMARY KEY ({key}))",
        f"INSERT IGNORE INTO t SELECT {value}, seq FROM seq_0_to_60",
    )
    found, read = look(server, "t"), []
    for of in ranges(server, found, 7, 3):
        rows = all_rows(server, found, of)
        assert len(rows) <= 7
        read += [row["n"] for row in rows]
    expected = [str(n) for (n,) in server.execute("SELECT n FROM d.t ORDER BY n")]
    assert sorted(read, key=int) == expected, "none is missing, none twice"
    assert pair or len(expected) > 6


def test_a_table_that_was_altered_gives_no_row(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 2)")
    found = look(server, "t")
    server.execute("INSERT INTO d.t VALUES (2, 3)")
    assert len(all_rows(server, found)) == 2
    server.execute("ALTER TABLE d.t MODIFY v BIGINT")
    with pytest.raises(SourceMoved, match="altered"):
        all_rows(server, found)
    server.execute("DROP TABLE d.t")
    with pytest.raises(SourceMoved):
        all_rows(server, found)
    with pytest.raises(SourceMoved):
        ServerTables(server.uri).ranges(found, "", 10, 1)
    assert ServerTables(server.uri).look(("d", "t")) is None


def test_ddl_waits_while_a_range_is_read_and_no_longer(server: Server) -> None:
    server.execute("USE d", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))")
    server.execute("USE d", "INSERT INTO t SELECT seq, REPEAT('x', 200) FROM seq_1_to_20000")
    found = look(server, "t")
    reading = read_range(parse_uri(server.uri), found, Range(None, None))
    first = next(reading)
    assert first and first[0].keys() == {"id", "v"}
    altering = Thread(target=server.execute, args=("ALTER TABLE d.t ADD w INT",))
    altering.start()
    altering.join(0.5)
    assert altering.is_alive(), "the range keeps the table as it is"
    reading.close()  # the rest is not read
    altering.join(20)
    assert not altering.is_alive()


def test_what_is_read_is_not_above_now(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    tables = ServerTables(server.uri)
    (clock,) = server.execute("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0]
    assert tso(int(clock) + 1000) <= tables.now() <= tso(int(clock) + 60_000)
    assert tables.estimate(("d", "none")) == 0
    assert handle_key(look(server, "t").table) == ("id",)


def test_a_server_that_is_not_there_is_a_fault() -> None:
    with pytest.raises(SourceFault):
        ServerTables("mysql://root@127.0.0.1:1").look(("d", "t"))


def test_a_user_who_may_not_read_is_named(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)", "CREATE USER IF NOT EXISTS 'few'@'%' IDENTIFIED BY 'p'")
    uri = server.uri.replace("root@", "few:p@")
    with pytest.raises(UsageError, match="'few'"):
        ServerTables(uri).look(("d", "t"))
