"""The text of statements in the binlog: the executed part, with uniform quotes, and its first words."""

from __future__ import annotations

import re

from ticdc_spark.capture.binlog.wire.events import ANSI_QUOTES, NO_BACKSLASH_ESCAPES
from ticdc_spark.clients.mysql import quoted

_SKIPPED = re.compile(r"(?:\s+|/\*(?!!).*?\*/|--\s[^\n]*\n|#[^\n]*\n)*", re.DOTALL)
_DML = re.compile(r"(?i)(insert|update|delete|replace|load|with)\b")


def words(sql: str) -> str:
    """The first words of a statement in lower case, without comments before them."""
    start = _SKIPPED.match(sql)
    return " ".join(sql[start.end() if start else 0 :][:80].lower().split())


def is_dml(sql: str) -> bool:
    """Whether a statement changes rows. It was logged instead of the rows."""
    return _DML.match(words(sql)) is not None


_CONTROL = re.compile(r"(begin|commit|rollback|savepoint|xa)\b")


def is_control(sql: str) -> bool:
    """Whether a statement begins, divides or ends a transaction."""
    return _CONTROL.match(words(sql)) is not None


_QUOTED = {
    mode: re.compile(
        rf"""'(?P<string>{body}*)'|"(?P<double>{body.replace("'", '"')}*)"|`(?:[^`]|``)*`"""
        r"""|/\*(?!!).*?\*/|--(?=\s)[^\n]*|\#[^\n]*|(?P<versioning>\bWITH\s+SYSTEM\s+VERSIONING\b)""",
        re.DOTALL | re.IGNORECASE,
    )
    for mode, body in ((0, r"(?:[^'\\]|\\.|'')"), (NO_BACKSLASH_ESCAPES, r"(?:[^']|'')"))
}


def plain_sql(sql: str, sql_mode: int) -> str:
    """A statement as written under an empty sql_mode: names in backquotes, strings in single quotes.

    WITH SYSTEM VERSIONING is removed: rows of such tables are refused when they arrive.
    """
    literal = sql_mode & NO_BACKSLASH_ESCAPES

    def string(text: str) -> str:
        return "'" + (text.replace("\\", "\\\\") if literal else text) + "'"

    def plain(found: re.Match[str]) -> str:
        if found["versioning"]:
            return ""
        if found["string"] is not None:
            return string(found["string"])
        double = found["double"]
        if double is None:
            return found[0]
        if sql_mode & ANSI_QUOTES:
            return quoted(double.replace('""', '"'))
        return string(double.replace('""', '"').replace("'", "''"))

    return _QUOTED[literal].sub(plain, sql)


_STRINGS = {
    0: r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`""",
    NO_BACKSLASH_ESCAPES: r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`""",
}
_PIECES = {
    mode: re.compile(
        rf"(?P<bracket>/\*M!\d*)|(?P<other>/\*!\d*)|(?P<close>\*/)|{strings}|/\*.*?\*/|--(?=\s)[^\n]*|\#[^\n]*",
        re.DOTALL,
    )
    for mode, strings in _STRINGS.items()
}
_START = {
    mode: re.compile(rf"{strings}|(?P<start>\) START TRANSACTION\b)", re.DOTALL) for mode, strings in _STRINGS.items()
}
_SET_STATEMENT = re.compile(r"(?i)set\s+statement\b")
_TO_FOR = {
    mode: re.compile(rf"{strings}|/\*.*?\*/|--(?=\s)[^\n]*|\#[^\n]*|(?P<word>[\w$@]+)|(?P<bracket>[()])", re.DOTALL)
    for mode, strings in _STRINGS.items()
}


def executed(sql: str, sql_mode: int, *, mariadb: bool) -> str:
    """The part of a statement that the server executed: without ``SET STATEMENT … FOR`` before it, and without the
    brackets of MariaDB's executable comments ``/*M!100301 … */``. MySQL and TiDB ignore those comments. MySQL logs
    CREATE TABLE … SELECT as a CREATE with START TRANSACTION behind its columns, which only its replicas understand.

    The binlog has a space for the ``!`` of a comment for another version, so all remaining ones were executed.
    """
    literal = sql_mode & NO_BACKSLASH_ESCAPES
    if mariadb and "/*M!" in sql:
        sql = _without_brackets(sql, literal)
    if not mariadb:
        return _START[literal].sub(lambda found: ")" if found["start"] else found[0], sql) if _starts(sql) else sql
    while (start := _SKIPPED.match(sql)) and (found := _SET_STATEMENT.match(sql, start.end())):
        rest = _behind_for(sql, found.end(), literal)
        if not rest:
            break
        sql = sql[rest:].lstrip()
    return sql


def _starts(sql: str) -> bool:
    return ") START TRANSACTION" in sql and words(sql).startswith("create table ")


def _without_brackets(sql: str, literal: int) -> str:
    opened: list[str] = []

    def piece(found: re.Match[str]) -> str:
        if found["bracket"] or found["other"]:
            opened.append(found.lastgroup or "")
            return found[0] if found["other"] else " "
        if found["close"]:
            return " " if opened and opened.pop() == "bracket" else found[0]
        return found[0]

    return _PIECES[literal].sub(piece, sql)


def _behind_for(sql: str, start: int, literal: int) -> int:
    """Where the statement begins after ``SET STATEMENT a = (… FOR …), b = 'for' FOR``; 0 if there is none."""
    depth = 0
    for found in _TO_FOR[literal].finditer(sql, start):
        if found["bracket"]:
            depth += 1 if found[0] == "(" else -1
        elif depth == 0 and found["word"] and found["word"].lower() == "for":
            return found.end()
    return 0
