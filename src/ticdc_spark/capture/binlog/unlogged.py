"""Statements that were logged instead of their rows, as by a session with ``binlog_format = STATEMENT``.

Such a statement is skipped if it changes no captured table. Its text names the tables that it writes itself. Triggers,
functions and views may write other tables, whose rows are not logged either. So the server is asked about them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from ticdc_spark.capture.binlog.connection import Connection
from ticdc_spark.capture.binlog.schemas import SYSTEM_SCHEMAS
from ticdc_spark.capture.binlog.sql_text import plain_sql
from ticdc_spark.capture.binlog.wire.events import Query
from ticdc_spark.capture.binlog.written import Written, written_by
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.ddl import NameCase
from ticdc_spark.errors import MessageError
from ticdc_spark.model import TableName

Hidden: TypeAlias = Callable[[Written], str]
"""Gives what a statement may write that its text does not show, as a part of a sentence; ``""``: nothing."""
_KEPT = 1000

_TRIGGERS = """SELECT trigger_schema, trigger_name FROM information_schema.triggers
WHERE event_object_schema = %s AND event_object_table = %s"""
_VIEWS = """SELECT table_name FROM information_schema.tables
WHERE table_schema = %s AND table_name = %s AND table_type LIKE '%%VIEW'"""
_FUNCTIONS = """SELECT routine_schema, routine_name FROM information_schema.routines
WHERE routine_type = 'FUNCTION' AND LOWER(routine_name) IN %s"""


class Unlogged:
    """Checks such statements."""

    def __init__(self, wanted: Callable[[str, str], bool], names: NameCase, hidden: Hidden) -> None:
        self._wanted, self._names, self._hidden = wanted, names, hidden
        self._known: dict[Written, str] = {}

    def forget(self) -> None:
        """Note that another statement was read, which may create a trigger, function or view."""
        self._known.clear()

    def why_not(self, found: Query, sql: str) -> str:
        """Why a statement cannot be skipped, as a part of a sentence; ``""``: it changes nothing that is captured.

        Raises: SourceFault
        """
        try:
            written = written_by(plain_sql(sql, found.sql_mode), found.schema)
        except MessageError as error:
            return f"the tables that it writes are not understood ({error})"
        if self._names == "lower":
            written = written._replace(tables=frozenset((one.lower(), two.lower()) for one, two in written.tables))
        for schema, name in sorted(written.tables):
            if schema.lower() not in SYSTEM_SCHEMAS and self._wanted(schema, name):
                return f"it writes {_full((schema, name))}, which is captured"
        if written not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[written] = self._hidden(written)
        return self._known[written]


def hidden_writes(connection: Connection, written: Written) -> str:
    """``Hidden``, from the server's present triggers, views and functions. Raises: SourceFault"""
    for name in sorted(written.tables):
        if triggers := connection.rows(_TRIGGERS, name):
            return f"{_full(name)} has the trigger {_listed(triggers)}, which may write captured tables"
        if connection.rows(_VIEWS, name):
            return f"{_full(name)} is a view, which may be one of captured tables"
    if written.calls and (functions := connection.rows(_FUNCTIONS, (sorted(written.calls),))):
        return f"it names the function {_listed(functions)}, which may write captured tables"
    return ""


def _listed(names: Iterable[tuple[object, ...]]) -> str:
    return ", ".join(_full((str(one), str(two))) for one, two in names)


def _full(name: TableName) -> str:
    return f"{quoted(name[0])}.{quoted(name[1])}"
