"""Checks whether a server can be captured, and reports all problems at once."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator

from ticdc_spark.capture.binlog.connection import Connection
from ticdc_spark.capture.binlog.position import MariadbGtids, Position, file_number
from ticdc_spark.capture.binlog.server import Facts, binlog_status
from ticdc_spark.capture.binlog.uri import ServerUri
from ticdc_spark.errors import SourceChanged, SourceFault, UsageError

_LOG = logging.getLogger(__name__)
_NEEDED = {
    "log_bin": ("ON", "start the server with --log-bin"),
    "binlog_format": ("ROW", "SET GLOBAL binlog_format = ROW; open sessions keep what they had"),
    "binlog_row_image": ("FULL", "SET GLOBAL binlog_row_image = FULL; open sessions keep what they had"),
    "binlog_row_metadata": (
        "FULL",
        "SET GLOBAL binlog_row_metadata = FULL; MariaDB 10.5, MySQL 8.0.1 and later have it",
    ),
    "binlog_row_value_options": ("", "SET GLOBAL binlog_row_value_options = ''"),
}
_MAY_BE_MISSING = {"binlog_row_value_options", "binlog_format"}
"""MariaDB does not have the first. Future versions of MySQL will not have the second, as ROW is the only format."""
_GRANT = re.compile(r"GRANT (.+?) ON (\S+|`[^`]*`\.\S+) TO ", re.IGNORECASE)
_MONITOR = {"BINLOG MONITOR", "REPLICATION CLIENT"}


def check_server(connection: Connection, server: ServerUri, facts: Facts) -> None:
    """Check the settings and the grants.

    Raises: UsageError with all problems.
    """
    wrong = [*_settings(connection, server), *_grants(connection, server, facts)]
    if wrong:
        listed = "".join(f"\n- {one}" for one in wrong)
        raise UsageError(f"the binlog of {server.where} ({facts.version}) cannot be captured as the server is:{listed}")


def check_settings(connection: Connection, server: ServerUri, facts: Facts) -> None:
    """Check only the settings: the server may have been restarted with others.

    Raises: UsageError with all problems.
    """
    wrong = [*_settings(connection, server)]
    if wrong:
        listed = "".join(f"\n- {one}" for one in wrong)
        raise UsageError(f"the binlog of {server.where} ({facts.version}) can no longer be captured:{listed}")


def _settings(connection: Connection, server: ServerUri) -> Iterator[str]:
    found = connection.variables([*_NEEDED, "server_id", "binlog_do_db", "binlog_ignore_db"])
    for name, (needed, how) in _NEEDED.items():
        value = found.get(name)
        if value is None and name in _MAY_BE_MISSING:
            continue
        value = {"1": "ON", "0": "OFF"}.get(value or "", value)
        if (value or "").upper() != needed:
            yield f"{name} is {'missing' if value is None else value}; needed: {needed or 'empty'} ({how})"
    if found.get("log_bin", "OFF").upper() in ("ON", "1"):
        for name, value in _filters(connection):
            _LOG.warning(
                "%s: %s is %s; changes of databases that are not logged cannot be sent", server.where, name, value
            )
    own = int(found.get("server_id", "0"))
    if own == 0:
        yield "server_id is 0; needed: a number above 0, or the server refuses to send its binlog"
    elif own == server.server_id:
        yield f"server-id in source-uri is {own}, the server's own; needed: a number that no server or replica has"


def _filters(connection: Connection) -> list[tuple[str, str]]:
    """binlog-do-db and binlog-ignore-db. They are columns of the status, not variables."""
    try:
        rows = binlog_status(connection)
    except (SourceFault, UsageError):
        return []  # the grants are checked next
    names = ("binlog_do_db", "binlog_ignore_db")
    return [(name, str(value)) for row in rows for name, value in zip(names, row[2:4], strict=False) if value]


def _grants(connection: Connection, server: ServerUri, facts: Facts) -> Iterator[str]:
    everywhere: set[str] = set()
    somewhere: set[str] = set()
    for (text,) in connection.rows("SHOW GRANTS"):
        found = _GRANT.match(str(text))
        if found and "PUBLIC" not in str(text)[found.end() :]:
            rights = {re.sub(r"\(.*", "", one).strip().upper() for one in found[1].split(",")}
            somewhere |= rights
            if found[2].replace("`", "") == "*.*":
                everywhere |= rights
    if "ALL PRIVILEGES" in everywhere:
        return
    missing = [] if everywhere & {"REPLICATION SLAVE", "REPLICATION REPLICA"} else ["REPLICATION SLAVE"]
    if not everywhere & _MONITOR:
        missing.append("BINLOG MONITOR" if facts.mariadb else "REPLICATION CLIENT")
    for right in missing:
        yield f"{server.user!r} lacks the grant {right} (GRANT {right} ON *.* TO …)"
    if not somewhere & {"SELECT", "ALL PRIVILEGES"}:
        yield f"{server.user!r} lacks the grant SELECT on any database (GRANT SELECT ON *.* TO …): schemas are read"


_CASCADES = """SELECT constraint_schema, table_name, constraint_name FROM information_schema.referential_constraints
WHERE delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT') OR update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
ORDER BY constraint_schema, table_name, constraint_name"""


def warn_of_cascades(connection: Connection, server: ServerUri, wanted: Callable[[str, str], bool]) -> None:
    """Log foreign keys that change rows of ``wanted`` tables inside InnoDB, which the binlog does not have."""
    if connection.variables(["innodb_native_foreign_keys"]).get("innodb_native_foreign_keys", "ON").upper() == "OFF":
        return  # MySQL 9.6 and later do them outside InnoDB, and log them
    found = [f"`{one}`.`{two}` ({name})" for one, two, name in connection.rows(_CASCADES) if wanted(str(one), str(two))]
    if found:
        _LOG.warning(
            "%s: rows that these foreign keys delete or change (CASCADE, SET NULL) are not in the binlog, and cannot "
            "be sent: %s",
            server.where,
            ", ".join(found),
        )


def check_prepared(connection: Connection, server: ServerUri) -> None:
    """Refuse prepared XA transactions: their rows are before the begin, and would be missing.

    Raises: SourceFault while there are some.
    """
    try:
        found = connection.rows("XA RECOVER")
    except (SourceFault, UsageError) as error:
        _LOG.info("cannot see whether XA transactions are prepared: %s", error)
        return
    if found:
        raise SourceFault(
            f"{server.where} has {len(found)} prepared XA transactions (XA RECOVER), whose rows are before the begin; "
            "commit them or roll them back, and start again"
        )


def check_same_server(connection: Connection, server: ServerUri, facts: Facts, position: Position) -> None:
    """Check that the position is of this server's binlog.

    Raises: SourceChanged.
    """
    place = position.since or position.place
    anew = "Begin a new changefeed with a snapshot of its tables"
    if position.server != facts.identity:
        if place.gtid is None:
            raise SourceChanged(
                f"{server.where} is another server ({facts.identity}) than the one that was read ({position.server}), "
                f"and without GTIDs a position is not found on another. {anew}"
            )
        _LOG.warning("%s is %s, not %s as before; resuming by GTIDs", server.where, facts.identity, position.server)
    if place.gtid is None:
        return
    if facts.mariadb:
        if position.server != facts.identity:
            return  # file and offset differ there
        files = {str(row[0]): int(row[1]) for row in connection.rows("SHOW BINARY LOGS")}
        if place.file not in files and files and file_number(place.file) < min(map(file_number, files)):
            return  # purged: by the GTIDs, the server knows whether it still has what is needed
        found = connection.rows("SELECT BINLOG_GTID_POS(%s, %s)", (place.file, place.offset))[0][0]
        if place.offset > files.get(place.file, 0) or not MariadbGtids(str(found or "")).equals(
            MariadbGtids(place.gtid)
        ):
            raise SourceChanged(
                f"the binlog of {server.where} is not the one that was read: at {place.file}:{place.offset} it has "
                f"GTID {found or 'none'}, not {place.gtid or 'none'}. It was reset (RESET MASTER), or the server "
                f"restored. {anew}"
            )
        return
    known, kept = connection.rows(
        "SELECT GTID_SUBSET(%s, @@GLOBAL.gtid_executed), GTID_SUBSET(@@GLOBAL.gtid_purged, %s)",
        (place.gtid, place.gtid),
    )[0]
    if not int(known):
        raise SourceChanged(
            f"{server.where} has not executed {place.gtid}, which was read before: it is another server. {anew}"
        )
    if not int(kept):
        raise SourceChanged(f"{server.where} has purged binlogs that were not read yet. {anew}")
