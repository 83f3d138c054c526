"""TLS to a MySQL-compatible server, from the keys after `?` of its URI."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ticdc_spark.errors import UsageError

KEYS = ("ssl-ca", "ssl-cert", "ssl-key", "ssl-verify", "tls")
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How a connection is encrypted. It is also sent to tasks."""

    on: bool | None = None
    """``None``: if the server offers it, and then without checking a certificate."""
    ca: Path | None = None
    """Authorities; ``None``: the system's."""
    cert: Path | None = None
    key: Path | None = None
    verify: bool = True

    def options(self) -> dict[str, Any]:
        """For PyMySQL, through ``clients.mysql.opened``. Raises: UsageError for files that cannot be read"""
        if self.on is None:
            return {}
        if not self.on:
            return {"ssl_disabled": True}
        self.context()
        return {"ssl": {"tls": self}}

    def context(self) -> ssl.SSLContext:
        """For Python's own TLS. Raises: UsageError for files that cannot be read"""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"ssl-ca, ssl-cert or ssl-key cannot be used: {error}") from error
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def read_tls(given: Mapping[str, str], where: str) -> Tls:
    """Read the keys behind ``?``. ``where``: names the URI. Raises: UsageError"""
    files = {name: Path(given[f"ssl-{name}"]) for name in ("ca", "cert", "key") if given.get(f"ssl-{name}")}
    if "key" in files and "cert" not in files:
        raise UsageError(f"{where}: ssl-key needs ssl-cert")
    return Tls(
        on=boolean(given, "tls", True if files else None, where),
        ca=files.get("ca"),
        cert=files.get("cert"),
        key=files.get("key"),
        verify=boolean(given, "ssl-verify", True, where) is not False,
    )


def boolean(given: Mapping[str, str], key: str, default: bool | None, where: str) -> bool | None:
    """A key that is true or false. Raises: UsageError"""
    if key not in given:
        return default
    if given[key] not in BOOLEANS:
        raise UsageError(f"{where}: {key} is {given[key]!r}; allowed: true, false")
    return BOOLEANS[given[key]]
