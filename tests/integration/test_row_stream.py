"""Rows of a query, cut from the bytes of a real server: however they are split on the way, and whatever ends them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from threading import Thread
from typing import Any

import pymysql
import pytest

from tests.support.mariadb_server import Server
from ticdc_spark.clients.mysql import connect, connection_options
from ticdc_spark.clients.mysql_rows import RowStream

MANY = "SELECT seq, REPEAT('é', seq % 200), IF(seq % 3, NULL, seq / 7), UNHEX('00FFFE') FROM mysql.seq_1_to_{count}"


@contextmanager
def through(server: Server, sizes: list[int], most: int) -> Iterator[str]:
    """The URI of a way to the server on which what it sends comes in pieces of these sizes, and ends after ``most``."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]

    def up(client: socket.socket, there: socket.socket) -> None:
        while data := client.recv(65536):
            there.sendall(data)

    def down(client: socket.socket, there: socket.socket) -> None:
        left, size = most, cycle(sizes)
        while left > 0 and (data := there.recv(min(next(size), left))):
            client.sendall(data)
            left -= len(data)
        client.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        client, _ = listening.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client, socket.create_connection(("127.0.0.1", server.port)) as there:
            upward = Thread(target=up, args=(client, there), daemon=True)
            upward.start()
            down(client, there)
            upward.join()

    served = Thread(target=serve, daemon=True)
    served.start()
    try:
        yield f"mysql://root@127.0.0.1:{port}"
    finally:
        served.join(10)
        listening.close()


def rows(
    connection: Any,
    sql: str,
    names: list[str] | None = None,
    reads: dict[int, Callable[[Any], Any]] | None = None,
    at_once: int = 100,
) -> Iterator[Any]:
    cursor = connection.cursor(pymysql.cursors.SSCursor)
    cursor.execute(sql)
    stream = RowStream(cursor, names, reads)
    while found := stream.some(at_once):
        assert len(found) <= at_once
        yield from found
    assert stream.some(at_once) == []


def plainly(server: Server, sql: str) -> list[tuple[Any, ...]]:
    with connect(connection_options(server.uri)) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return [*cursor.fetchall()]


@pytest.mark.parametrize("sizes", [[1], [5], [3, 1, 250], [4096, 1]], ids=str)
def test_pieces_of_any_size_give_the_rows_of_the_library(server: Server, sizes: list[int]) -> None:
    sql = server.words(MANY.format(count=90))
    with through(server, sizes, 10**9) as uri, connect(connection_options(uri), ssl_disabled=True) as connection:
        assert [*rows(connection, sql)] == plainly(server, sql)
        # the connection can be used afterwards, and its packets are counted as before
        assert [*rows(connection, "SELECT 1, NULL, 'x'")] == [("1", None, "x")]
        with connection.cursor() as cursor:
            cursor.execute("SELECT 2")
            assert cursor.fetchall() == (("2",),)


def test_names_and_what_makes_values(server: Server) -> None:
    with connect(connection_options(server.uri)) as connection:
        made = rows(connection, "SELECT 1, NULL, 'é'", ["a`\"'", "b", "a b"], {1: str.upper, 2: str.upper})
        assert [*made] == [{"a`\"'": "1", "b": None, "a b": "É"}]


def test_more_rows_than_packets_have_numbers_end_within_a_piece(server: Server) -> None:
    for count in (0, 1, 99, 100, 101, 255, 256, 257, 70_000):
        sql = server.words(f"SELECT seq FROM mysql.seq_1_to_70000 WHERE seq <= {count}")
        with connect(connection_options(server.uri)) as connection:
            assert [*rows(connection, sql)] == [(str(at),) for at in range(1, count + 1)]


@pytest.mark.parametrize("length", [16_777_210, 16_777_211, 16_777_212, 2 * 16_777_215 - 9])
def test_rows_at_the_size_where_packets_are_split(server: Server, length: int) -> None:
    server.execute("SET GLOBAL max_allowed_packet = 67108864")
    sql = f"SELECT 'a' UNION ALL SELECT REPEAT('b', {length}) UNION ALL SELECT 'c'"
    with connect(connection_options(server.uri)) as connection:
        found = [len(text) for (text,) in rows(connection, sql)]
    assert found == [1, length, 1]


def test_an_error_behind_rows_is_raised(server: Server) -> None:
    """Its packet begins with the byte 255, and the rows before it are given."""
    sql = server.words("SELECT seq, IF(seq = 9000, (SELECT 1 UNION ALL SELECT 2), seq) FROM mysql.seq_1_to_10000")
    found: list[Any] = []
    with connect(connection_options(server.uri)) as connection:
        read = rows(connection, sql, at_once=50)
        with pytest.raises(pymysql.err.OperationalError, match="more than 1 row"):
            found.extend(one for one in read)
        assert [*rows(connection, "SELECT 1")] == [("1",)]


@pytest.mark.parametrize("most", [3_000, 5_001, 20_000])
def test_a_connection_that_ends_on_the_way_is_no_end_of_the_rows(server: Server, most: int) -> None:
    sql = server.words(MANY.format(count=5000))
    with through(server, [700], most) as uri:
        connection = connect(connection_options(uri), ssl_disabled=True)
        found: list[Any] = []
        with pytest.raises(pymysql.err.OperationalError) as raised:
            found.extend(one for one in rows(connection, sql, at_once=1))
        assert raised.value.args[0] == 2013 and len(found) < 5000
        assert found == plainly(server, sql)[: len(found)]
