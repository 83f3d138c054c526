"""Connections to the server, by PyMySQL, and its errors wrapped."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ticdc_spark.capture.binlog.uri import ServerUri
from ticdc_spark.clients.mysql import opened
from ticdc_spark.errors import SourceChanged, SourceFault, UsageError

_LOG = logging.getLogger(__name__)
_SESSION = "SET SESSION time_zone = '+00:00', SESSION sql_mode = '', SESSION sql_quote_show_create = 1"
_READ_SECONDS = 60
_CANNOT_READ = 1236
"""The only code for everything that keeps the server from sending its binlog."""
_REFUSED = {1045, 1698}
_DENIED = {1044, 1142, 1227}


def pymysql() -> Any:
    """The library, imported when the first connection needs it."""
    import pymysql as library

    return library


class Connection:
    """A connection for queries. Cells are text or bytes, as the server sends them."""

    def __init__(self, server: ServerUri) -> None:
        self._library = pymysql()
        self._server = server
        options = server.options()
        with wrapped(server):
            self.raw = opened(
                **options,
                charset="utf8mb4",
                conv=self._library.converters.encoders,
                autocommit=True,
                init_command=_SESSION,
                connect_timeout=10,
                read_timeout=_READ_SECONDS,
                write_timeout=_READ_SECONDS,
            )

    def rows(self, sql: str, arguments: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement, and give its rows.

        Raises: SourceFault; SourceChanged; UsageError when access is denied.
        """
        with wrapped(self._server), self.raw.cursor() as cursor:
            cursor.execute(sql, arguments)
            return [*cursor.fetchall()]

    def variables(self, names: Sequence[str]) -> dict[str, str]:
        """Global variables, without the ones that the server does not have."""
        found = self.rows("SHOW GLOBAL VARIABLES WHERE variable_name IN %s", (tuple(names),))
        return {str(name).lower(): str(value) for name, value in found}

    def close(self) -> None:
        """Close it."""
        if self.raw.open:
            self.raw.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def wrapped(server: ServerUri) -> Iterator[None]:
    """Raise the library's errors as ours."""
    library = pymysql()
    try:
        yield
    except library.MySQLError as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        raise fault(server, code, str(error.args[-1]) if error.args else str(error)) from error
    except (OSError, ValueError) as error:  # ValueError: another thread closed the file
        raise SourceFault(f"the connection to {server.where} broke: {error}") from error


def fault(server: ServerUri, code: int, text: str) -> SourceFault | SourceChanged | UsageError:
    """The error for a code of the server."""
    if code == _CANNOT_READ and "same server" in text:
        return UsageError(f"{server.where}: {text}. Choose another server-id in source-uri, or remove it")
    if code == _CANNOT_READ:
        return SourceChanged(
            f"{server.where} does not send its binlog from the present position: {text}. Its binlog was purged or "
            "reset, or it is another server. Begin a new changefeed with a snapshot of its tables; and keep "
            "binlogs longer (binlog_expire_logs_seconds)"
        )
    if code in _REFUSED:
        return UsageError(f"{server.where} refuses the login of {server.user!r}: {text}. Correct the user or password")
    if code in _DENIED:
        return UsageError(f"{server.where} denies {server.user!r} what reading its binlog needs: {text}")
    return SourceFault(f"{server.where}: {text}{_tls_hint(server, text)}")


def _tls_hint(server: ServerUri, text: str) -> str:
    """What to do if TLS fails: the keys of the source's URI."""
    if not server.tls.on or not any(word in text for word in ("SSL", "TLS", "certificate")):
        return ""
    return (
        ". Name the file of the authority that signed the server's certificate with ssl-ca=PATH in source-uri, "
        "or accept any certificate with ssl-verify=false"
    )


class Backoff:
    """Waiting times that double from half a second up to 30 seconds, until something is read again."""

    def __init__(self) -> None:
        self._seconds = 0.5

    def reset(self) -> None:
        """Note that something was read."""
        self._seconds = 0.5

    def waits(self, reason: Exception) -> Iterator[None]:
        """Wait, in steps of half a second, so that the caller can act between them."""
        _LOG.warning("%s; retrying in %.0f s", reason, self._seconds)
        end = time.monotonic() + self._seconds
        self._seconds = min(self._seconds * 2, 30)
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            yield
