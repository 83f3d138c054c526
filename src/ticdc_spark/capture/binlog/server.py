"""Facts about the server: its kind, settings and clock, and the end of its binlog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ticdc_spark.capture.binlog.connection import Connection
from ticdc_spark.capture.binlog.position import Place
from ticdc_spark.capture.binlog.uri import ServerUri
from ticdc_spark.capture.binlog.values.charsets import Charsets
from ticdc_spark.ddl import Dialect, NameCase
from ticdc_spark.errors import SourceFault, UsageError


class Facts(NamedTuple):
    """Facts about the server."""

    mariadb: bool
    version: str
    """Of the server; while its binlog is read, the one that wrote the file."""
    identity: str
    """The server's identity."""
    gtids: bool
    """Whether places have GTIDs."""
    charsets: Charsets
    names: NameCase = "folded"

    @property
    def dialect(self) -> Dialect:
        """Whose rules name the keys of its tables."""
        major = self.version.partition(".")[0]
        return "mariadb" if self.mariadb else "mysql 9" if major.isdecimal() and int(major) >= 9 else "mysql"


_CASES: dict[str, NameCase] = {"0": "exact", "1": "lower"}


def read_facts(connection: Connection, server: ServerUri) -> Facts:
    """Ask the server."""
    version = str(connection.rows("SELECT VERSION()")[0][0])
    mariadb = "mariadb" in version.lower()
    found = connection.variables(["server_id", "server_uid", "server_uuid", "gtid_mode", "lower_case_table_names"])
    identity = identity_of({**found, "version": version})
    gtids = mariadb or found.get("gtid_mode", "OFF").upper() == "ON"
    names = _CASES.get(found.get("lower_case_table_names", ""), "folded")
    return Facts(mariadb, version, identity, gtids, _charsets(connection, server, mariadb), names)


def identity_of(variables: Mapping[str, str]) -> str:
    """The server's identity, by ``version``, ``server_id``, and ``server_uid`` or ``server_uuid`` if it has them."""
    if "mariadb" in variables["version"].lower():
        return f"{variables['server_id']} {variables.get('server_uid', '')}".strip()
    return variables.get("server_uuid", variables["server_id"])


def binlog_status(connection: Connection) -> list[tuple[Any, ...]]:
    """The row of the binlog's end: file, offset, databases that are logged, and that are not, MySQL's GTIDs."""
    try:
        return connection.rows("SHOW MASTER STATUS")
    except SourceFault:  # MySQL 8.4 has only the new statement
        return connection.rows("SHOW BINARY LOG STATUS")


def place_now(connection: Connection, facts: Facts) -> Place:
    """The end of the binlog."""
    found = binlog_status(connection)
    if not found:
        raise UsageError("log_bin is OFF")
    file, offset = str(found[0][0]), int(found[0][1])
    if facts.mariadb:
        gtid: str | None = str(connection.rows("SELECT BINLOG_GTID_POS(%s, %s)", (file, offset))[0][0])
    else:
        gtid = str(found[0][4]).replace("\n", "") if facts.gtids else None
    return Place(file, offset, gtid)


def now_ms(connection: Connection) -> int:
    """The server's clock, in milliseconds since the epoch."""
    return int(connection.rows("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0][0])


def _charsets(connection: Connection, server: ServerUri, mariadb: bool) -> Charsets:
    if mariadb:
        with_ids = connection.rows(
            "SELECT id, character_set_name, full_collation_name "
            "FROM information_schema.collation_character_set_applicability"
        )
    else:
        with_ids = connection.rows("SELECT id, character_set_name, collation_name FROM information_schema.collations")
    collations = {int(number): (str(charset), str(name)) for number, charset, name in with_ids if number is not None}

    def ask(sql: str) -> str:
        with Connection(server) as asked:
            return str(asked.rows(sql)[0][0])

    return Charsets(collations, ask)
