"""The servers that read the same SQL in different ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from ticdc_spark.ddl.lex import Backslash

Dialect: TypeAlias = Literal["tidb", "mysql", "mysql 9", "mariadb"]
"""The server that runs a statement. ``mysql 9``: MySQL from 9.0 on, which has the foreign keys of columns."""
NameCase: TypeAlias = Literal["folded", "exact", "lower"]
"""How a server compares names of databases and tables. ``folded``: ignoring case, as TiDB. ``exact``: with case
(MySQL's ``lower_case_table_names`` 0). ``lower``: it stores them in lower case (1)."""
Replacement: TypeAlias = tuple[int, int, str]
"""Start and end in a statement, and the text to put there."""


class Server(NamedTuple):
    """How a server reads SQL. By default as TiDB reads the SQL in TiCDC's messages."""

    dialect: Dialect = "tidb"
    case: NameCase = "folded"
    backslash: Backslash = "literal"


TIDB = Server()


def clarified(sql: str, replacements: Iterable[Replacement]) -> str:
    """A statement with replacements, from its last one to its first."""
    for start, end, text in sorted(replacements, reverse=True):
        before, after = sql[:start], sql[end:]
        sql = before + (text[1:] if text[:1] == " " and before[-1:].isspace() else text) + after
    return sql
