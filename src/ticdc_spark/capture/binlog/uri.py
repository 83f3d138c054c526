"""``mysql://user:password@host:port/?…``: the server to read, and options."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from ticdc_spark.clients.mysql_tls import KEYS, Tls, read_tls
from ticdc_spark.config.secrets import remember
from ticdc_spark.errors import UsageError


class ServerUri(msgspec.Struct, frozen=True, kw_only=True):
    """A server, and the limits of reading it."""

    host: str
    port: int = 3306
    user: str = "root"
    password: str = ""
    server_id: int | None = None
    """The id of this source at the server; ``None``: a random number."""
    tls: Tls = Tls()
    max_transaction_bytes: int = 8 << 30
    """The most bytes of one transaction in the binlog. Its rows are on disk while it is read."""
    skip: tuple[str, ...] = ()
    """Statements that are not followed, as ``file:offset``."""

    @property
    def where(self) -> str:
        """The server's name in messages."""
        return f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"ServerUri({self.user}@{self.where})"

    def options(self) -> dict[str, Any]:
        """Options for PyMySQL.

        Raises: UsageError for files that cannot be read.
        """
        # As bytes: PyMySQL would send a text as latin1, and servers keep passwords in UTF-8.
        password = self.password.encode()
        named = {"host": self.host, "port": self.port, "user": self.user, "password": password}
        return {**named, **self.tls.options()}


_KEYS = ("max-transaction-bytes", "server-id", "skip", *KEYS)


def parse_uri(uri: str) -> ServerUri:
    """Read the URI. The password is remembered as a secret.

    Raises: UsageError that names what is wrong, never the password.
    """
    form = "source-uri is written mysql://user:password@host:port/?key=value, special characters URL-encoded"
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        raise UsageError(form) from None  # its text may show a part of the password
    if parts.scheme not in ("mysql", "mariadb") or not parts.hostname or parts.path.strip("/") or parts.fragment:
        raise UsageError(form)
    password = unquote(parts.password or "")
    remember(password)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(given.keys() - set(_KEYS))
    if unknown:
        raise UsageError(f"source-uri: key {unknown[0]!r} is not known; allowed: {', '.join(_KEYS)}")
    server_id = _number(given, "server-id", 1, 2**32 - 1)
    largest = _number(given, "max-transaction-bytes", 1, 2**63 - 1)
    return ServerUri(
        host=parts.hostname,
        port=port or 3306,
        user=unquote(parts.username or "root"),
        password=password,
        server_id=server_id,
        tls=read_tls(given, "source-uri"),
        max_transaction_bytes=largest or 8 << 30,
        skip=tuple(filter(None, given.get("skip", "").split(","))),
    )


def _number(given: dict[str, str], key: str, least: int, most: int) -> int | None:
    if key not in given:
        return None
    text = given[key]
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise UsageError(f"source-uri: {key} is {text!r}; allowed: a whole number from {least} to {most}")
    return int(text)
