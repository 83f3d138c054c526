"""Rows looked up in a real MariaDB by their keys: every type in its canonical form, and what can be wrong there."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.support.mariadb_server import Server, running
from tests.support.recorded_topics import Line, write_json
from ticdc_spark.cli import main
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.ddl import Charset, parse_create
from ticdc_spark.errors import MessageError, SourceFault
from ticdc_spark.model import RowChange, SchemaChange, Table, Value
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.replicate.schemas.upstream import add_upstream_charsets
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl
from ticdc_spark.streams.handle_keys import complete


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("mariadb")) as started:
        started.execute("CREATE DATABASE `my db`")
        yield started


@pytest.fixture
def upstream(server: Server) -> Iterator[Upstream]:
    with Upstream(server.uri) as opened:
        yield opened


EVERYTHING = """CREATE TABLE `my db`.`every``thing 100%` (
    `id` BIGINT UNSIGNED NOT NULL, `k` VARBINARY(9) NOT NULL, `e%` ENUM('a','b','') NOT NULL,
    `ti` TINYINT UNSIGNED, `i` INT, `f` FLOAT, `d` DOUBLE, `n` DECIMAL(20,5), `bit` BIT(64),
    `v` VARCHAR(20) CHARACTER SET utf8mb4, `g` TEXT CHARACTER SET gbk, `b` BLOB, `bin` BINARY(4),
    `ts` TIMESTAMP(3) NULL, `dt` DATETIME(2), `t` TIME(1), `da` DATE, `y` YEAR, `s` SET('x','','z'), `j` JSON,
    `gen` INT AS (`i` + 1) VIRTUAL,
    PRIMARY KEY (`id`, `k`, `e%`))"""
ROW: dict[str, Value] = {
    "id": str(2**64 - 1),
    "k": b"\xff'\\\0",
    "e%": "3",
    "ti": "255",
    "i": "-7",
    "f": "0.1",
    "d": "-1.7976931348623157e308",
    "n": "-123456789012345.00001",
    "bit": str(2**64 - 1),
    "v": "é'\\\n😀",
    "g": "中文",
    "b": b"\0\xff",
    "bin": b"a\0\0\0",
    "ts": "2023-11-05 06:30:00.500",
    "dt": "0000-00-00 00:00:00.00",
    "t": "-838:59:59.0",
    "da": "0001-01-01",
    "y": "0",
    "s": "5",
    "j": '{"a": [1, null]}',
    "gen": "-6",
}
INSERT = """INSERT INTO `my db`.`every``thing 100%` VALUES (18446744073709551615, x'ff275c00', 3, 255, -7, 0.1,
    -1.7976931348623157e308, -123456789012345.00001, 18446744073709551615, 'é\\'\\\\\\n😀', '中文', x'00ff', 'a',
    '2023-11-05 06:30:00.5', '0000-00-00', '-838:59:59', '0001-01-01', 0, 5, '{"a": [1, null]}', DEFAULT)"""


def keys(table: Table, *rows: dict[str, Value]) -> list[dict[str, Value]]:
    return [{name: row[name] for name in table.indexes[0].columns} for row in rows]


def test_a_row_of_every_type_comes_in_its_canonical_form(server: Server, upstream: Upstream) -> None:
    nulls: dict[str, Value] = {**dict.fromkeys(ROW), "id": "0", "k": b"", "e%": "1"}
    server.execute(
        "SET time_zone = '+00:00', sql_mode = ''",
        EVERYTHING,
        INSERT,
        "INSERT INTO `my db`.`every``thing 100%` (`id`, `k`, `e%`) VALUES (0, '', 'a')",
    )
    table = parse_create(EVERYTHING, "my db")
    there = keys(table, nulls, ROW, ROW)
    missing = {**there[0], "k": b"other"}
    assert upstream.lookup(table, [*there, missing], 9) == [nulls, ROW, ROW, None]


def test_partial_changes_become_whole(server: Server, upstream: Upstream) -> None:
    sql = (
        "CREATE TABLE `my db`.`t` (`at` TIMESTAMP NOT NULL, `n` DECIMAL(9,2) NOT NULL, v TEXT, PRIMARY KEY (`at`, `n`))"
    )
    many = ", ".join(f"('2024-06-01 10:00:00', {number}.5, 'row {number}')" for number in range(500))
    server.execute("SET time_zone = '+00:00'", sql, f"INSERT INTO `my db`.`t` VALUES {many}")
    table = parse_create(sql, "my db")
    at = "2024-06-01 10:00:00"
    changes = [
        RowChange(op="insert", table=table, commit_ts=9, after={"at": at, "n": f"{number}.50"}, partial=True)
        for number in range(500)
    ]
    whole = [
        replace(one, after={"at": at, "n": f"{number}.50", "v": f"row {number}"}, partial=False)
        for number, one in enumerate(changes)
    ]
    assert complete(changes, upstream.lookup) == whole


def test_a_database_that_is_not_tidb_is_logged_once(
    server: Server, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    server.execute("CREATE TABLE `my db`.`now` (`id` INT PRIMARY KEY)", "INSERT INTO `my db`.`now` VALUES (1)")
    table = parse_create("CREATE TABLE `now` (`id` INT PRIMARY KEY)", "my db")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert upstream.lookup(table, [{"id": "1"}], 9) == [{"id": "1"}]
    assert not upstream.exact
    (reported,) = caplog.messages
    ((version,),) = server.execute("SELECT VERSION()")
    assert f"127.0.0.1:{server.port} is {version}" in reported and "as they are now" in reported


def test_a_lost_connection_is_made_again(server: Server, upstream: Upstream) -> None:
    server.execute(
        "CREATE TABLE `my db`.`zoned` (`ts` TIMESTAMP PRIMARY KEY)",
        "SET time_zone = '+00:00'",
        "INSERT INTO `my db`.`zoned` VALUES ('2024-01-01 00:00:00')",
    )
    table = parse_create("CREATE TABLE `zoned` (`ts` TIMESTAMP PRIMARY KEY)", "my db")
    row: dict[str, Value] = {"ts": "2024-01-01 00:00:00"}
    assert upstream.lookup(table, [row], 9) == [row]
    mine = "SELECT id FROM information_schema.processlist WHERE id <> connection_id() AND user = 'root'"
    for (number,) in server.execute(mine):
        server.end_connection(number)
    assert upstream.lookup(table, [row], 9) == [row]


def test_a_table_or_column_that_is_gone_rejects_rows(server: Server, upstream: Upstream) -> None:
    server.execute("CREATE TABLE `my db`.`changed` (`id` INT PRIMARY KEY)")
    for sql, schema, what in (
        ("CREATE TABLE `gone` (`id` INT PRIMARY KEY)", "my db", "table"),
        ("CREATE TABLE `changed` (`id` INT PRIMARY KEY, `was` INT)", "my db", "column"),
    ):
        with pytest.raises(MessageError, match=f"the upstream lacks the {what}"):
            upstream.lookup(parse_create(sql, schema), [{"id": "1"}], 9)


def test_an_upstream_that_cannot_be_reached_or_refuses_stops(server: Server) -> None:
    table = parse_create("CREATE TABLE `t` (`id` INT PRIMARY KEY)", "my db")
    for uri in ("mysql://root@127.0.0.1:1", server.uri.replace("root@", "nobody:wrong@")):
        with (
            Upstream(uri) as away,
            pytest.raises(SourceFault, match=r"cannot look up rows of `my db`.`t` in the upstream 127\.0\.0\.1"),
        ):
            away.lookup(table, [{"id": "1"}], 9)


def _made(at: int, sql: str, schema: str) -> QueuedDdl:
    change = SchemaChange(commit_ts=at, query=sql, kind="create table", schema=schema)
    return QueuedDdl(change=change, topic="t", partition=0, offset=at)


def test_the_default_character_set_of_a_database_is_asked_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.execute("CREATE DATABASE `of bytes` CHARACTER SET binary")
    text, known = "CREATE TABLE t (a TEXT)", Charset("latin1", None, False)
    ddls = (
        _made(2, text, "of bytes"),
        _made(3, text, "gone"),
        _made(4, text, "known"),
        _made(5, text + " CHARSET gbk", "another"),
        _made(6, "CREATE DATABASE made CHARSET gbk", "made"),
        _made(7, text, "made"),
        _made(8, "CREATE DATABASE later", "later"),
        _made(9, text, "later"),
    )
    asked = add_upstream_charsets(Progress(job="j", ddls=ddls, charsets={"known": known}), server.uri)
    assert {name: one.name for name, one in asked.charsets.items()} == {
        "known": "latin1",
        "of bytes": "binary",
        "gone": "utf8mb4",
    }
    assert "`gone`: utf8mb4 is taken: the default character set of `gone` cannot be looked up" in caplog.text
    assert add_upstream_charsets(asked, "mysql://root@127.0.0.1:1") is asked


@pytest.mark.parametrize(
    ("code", "charset"), [(1044, "utf8mb4"), (9006, "latin1")], ids=["no grant", "garbage-collected"]
)
def test_a_database_is_shown_as_it_is_now_where_its_time_is_gone(
    server: Server, monkeypatch: pytest.MonkeyPatch, code: int, charset: str
) -> None:
    """TiDB keeps ten minutes."""
    server.execute("DROP DATABASE IF EXISTS old", "CREATE DATABASE old CHARACTER SET latin1")
    shown = Upstream._shown

    def refused(self: Upstream, what: str, commit_ts: int | None) -> str:
        if commit_ts is not None:
            raise pymysql.err.OperationalError(code, "refused")
        return shown(self, what, None)

    monkeypatch.setattr(Upstream, "_shown", refused)
    ddl = _made(2, "CREATE TABLE t (a TEXT)", "old")
    asked = add_upstream_charsets(Progress(job="j", ddls=(ddl,)), server.uri)
    assert asked.charsets["old"].name == charset


def test_inspect_shows_whole_rows(server: Server, tmp_path: Path) -> None:
    sql = "CREATE TABLE `users` (`id` INT PRIMARY KEY, `name` TEXT)"
    server.execute(
        "CREATE DATABASE simple", f"CREATE TABLE simple.{sql[13:]}", "INSERT INTO simple.users VALUES (1, 'x')"
    )
    table = replace(parse_create(sql, "simple"), table_id=1, version=7)
    to = encoder(SimpleConfig(large_message_handle="handle-key-only", max_message_bytes=400))
    change = RowChange(op="insert", table=table, commit_ts=9, after={"id": "1", "name": "x" * 900})
    boot = to.bootstrap(table)
    assert boot
    sent = [boot, *to.rows([change])]
    topic = write_json(tmp_path / "0.jsonl", [Line("t", 0, at, at, o.key, o.value) for at, o in enumerate(sent)])
    for options, name in ([], {}), (["--upstream", server.uri], {"name": "x"}):
        result = CliRunner().invoke(main, ["inspect", str(topic), "--json", "--kind", "insert", *options])
        assert result.exit_code == 0, result.stderr
        row = json.loads(result.stdout)
        assert (row["after"], row["partial"]) == ({"id": "1", **name}, not name)
