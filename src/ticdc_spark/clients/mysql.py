"""Connects to a MySQL-compatible database. Values stay the text or bytes that the server sends.

It speaks MySQL's protocol through PyMySQL.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote, unquote_to_bytes, urlsplit

from ticdc_spark.clients.mysql_tls import KEYS, read_tls
from ticdc_spark.errors import UsageError
from ticdc_spark.model import ColumnType

HIDDEN = "_V$_"
"""Prefix of the columns of expression indexes, which no query can name."""
MISSING = {1049: "database", 1054: "column", 1146: "table"}
TOO_OLD = frozenset({8055, 9006})
"""TiDB: the snapshot is older than the garbage collection's safe point."""
_SESSION = "SET SESSION time_zone = '+00:00', SESSION sql_mode = ''"


def connection_options(uri: str) -> dict[str, Any]:
    """The options of a connection, from a URI. Raises: UsageError"""
    wrong = UsageError(
        "the server is written mysql://user:password@host:port, special characters URL-encoded; behind it, if you "
        f"like, ?key=value&… of {', '.join(KEYS)}"
    )
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        raise wrong from None  # the original text may show a part of the password
    if parts.scheme != "mysql" or not parts.hostname or parts.path.strip("/") or parts.fragment:
        raise wrong
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if given.keys() - set(KEYS):
        raise wrong
    return {
        "host": parts.hostname,
        "port": port or 3306,
        "user": unquote(parts.username or "root"),
        # As bytes: PyMySQL would send a text as latin1, and servers keep passwords in UTF-8.
        "password": unquote_to_bytes(parts.password or ""),
        **read_tls(given, f"mysql://{parts.hostname}").options(),
    }


def driver() -> Any:
    """PyMySQL, imported when the first connection needs it."""
    import pymysql

    return pymysql


def connect(options: dict[str, Any], **more: Any) -> Any:
    """Open a connection, for one thread. Raises: PyMySQL's errors"""
    mysql = driver()
    return opened(
        **options,
        charset="utf8mb4",
        conv=mysql.converters.encoders,  # no decoders: values stay as they are sent
        autocommit=True,
        init_command=_SESSION,
        connect_timeout=10,
        **more,
    )


def opened(**options: Any) -> Any:
    """A connection of PyMySQL. Raises: UsageError if it is not installed; PyMySQL's errors"""
    connection = _connection_class()(**options)
    if _makes_keys(connection.get_server_info()):
        try:
            with connection.cursor() as cursor:
                cursor.execute(_SHOW_KEYS)
        except driver().MySQLError as error:
            if error.args[:1] != (_UNKNOWN_VARIABLE,):  # a server that only has MySQL's version makes no such keys
                raise
    return connection


_SHOW_KEYS = "SET SESSION show_gipk_in_create_table_and_information_schema = ON"
"""MySQL's binlog has the keys that the server makes itself, also if the server does not show them."""
_UNKNOWN_VARIABLE = 1193


def _makes_keys(version: str) -> bool:
    """Whether it is a MySQL of 8.0.30 or later, by the version that a server greets with."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    others = "MariaDB" in version or "TiDB" in version
    return numbers is not None and not others and tuple(map(int, numbers.groups())) >= (8, 0, 30)


@cache
def _connection_class() -> Any:
    """PyMySQL's class. It reads all authorities for each connection; this one does not if no certificate is checked."""
    base = driver().connections.Connection
    plain = cache(lambda: base._create_ssl_ctx(None, {}))

    def create(_: Any, given: Any) -> Any:
        return given["tls"].context() if given else plain()

    return type("Connection", (base,), {"_create_ssl_ctx": create})


def as_of(commit_ts: int | None) -> str:
    """The statement that lets a session of TiDB read tables as of a commit_ts; ``None``: at present."""
    return f"SET @@tidb_snapshot = '{'' if commit_ts is None else commit_ts}'"


def quoted(name: str) -> str:
    """A name, quoted for SQL."""
    return "`" + name.replace("`", "``") + "`"


def selected(name: str, column_type: ColumnType) -> str:
    """The SELECT expression of a column's exact value, as text or bytes."""
    if column_type.name in ("enum", "set", "bit"):
        return f"CAST({quoted(name)} AS UNSIGNED)"
    # a plain FLOAT is shown with only six digits
    return f"{quoted(name)} + 0e0" if column_type.name == "float" else quoted(name)
