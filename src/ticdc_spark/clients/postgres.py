"""A connection to a PostgreSQL database, through psycopg."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ticdc_spark.errors import UsageError

SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "bytea_output": "hex",
    "search_path": "pg_catalog",
    "standard_conforming_strings": "on",
    "default_transaction_isolation": "read committed",
    # A batch may wait long for its tasks, but waiting for a lock must end.
    "idle_in_transaction_session_timeout": "0",
    "transaction_timeout": "0",
    "statement_timeout": "0",
    "lock_timeout": "60s",
    # The locks of a killed process are released soon, even during a statement.
    "client_connection_check_interval": "2s",
}
"""Settings of each session, if the server has them."""


def connection_options(uri: str) -> dict[str, Any]:
    """The options of a connection, from a URI. Raises: UsageError"""
    wrong = UsageError(
        "the database is written postgresql://user:password@host:port/database, special characters URL-encoded"
    )
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        raise wrong from None  # the original text may show a part of the password
    database = unquote(parts.path.removeprefix("/"))
    if parts.scheme not in ("postgresql", "postgres") or not parts.hostname or not database or parts.fragment:
        raise wrong
    return dict(parse_qsl(parts.query)) | {
        "host": parts.hostname,
        "port": port or 5432,
        "user": unquote(parts.username or "postgres"),
        "password": unquote(parts.password or ""),
        "dbname": database,
    }


def driver() -> Any:
    """psycopg, imported when the first connection needs it."""
    import psycopg

    return psycopg


def connect(options: dict[str, Any], name: str = "ticdc-spark") -> Any:
    """Open a connection that commits each statement. Its cursors take ``$1``. ``name``: its name at the server.

    Raises: psycopg's errors
    """
    postgres = driver()
    made = _connection_class().connect(
        **{"connect_timeout": 10, "keepalives_idle": 30} | options,
        client_encoding="UTF8",
        application_name=name,
        autocommit=True,
        prepare_threshold=None,  # a prepared plan would have the columns from before a DDL
        cursor_factory=postgres.RawCursor,
    )
    listed = ", ".join(f"('{key}', '{value}')" for key, value in SETTINGS.items())
    made.execute(
        f"SELECT set_config(s.name, v.value, false) FROM (VALUES {listed}) v (name, value) "
        "JOIN pg_catalog.pg_settings s ON lower(s.name) = lower(v.name)"
    )
    return made


@cache
def _connection_class() -> Any:
    """psycopg's class, without its warning about unclosed connections: the server ends the ones that a job leaves."""
    return type("Connection", (driver().Connection,), {"__del__": lambda _: None})


def quoted(name: str) -> str:
    """A name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'
