"""Which parts of a DDL decide the kind of TiDB's job for it."""

import re

from ticdc_spark.ddl.statements import Alteration, AlterTable, Charset, NoEffect

_NO_PART = re.compile(r"\s*(algorithm|lock)\b", re.IGNORECASE)
_COMMENT = re.compile(r"/\*(?!T?!).*?\*/|/\*T?!(?:\[[^\]]*\])?\d*|\*/", re.DOTALL)
_WHO = r"(?:`[^`]*`|'[^']*'|\"[^\"]*\"|[\w$.%]+)"
_VIEW = re.compile(
    r"\s*(?:create\s+(?:or\s+replace\s+)?(?:algorithm\s*=\s*\w+\s+)?"
    rf"(?:definer\s*=\s*{_WHO}(?:\s*@\s*{_WHO}|\s*\(\s*\))?\s+)?(?:sql\s+security\s+\w+\s+)?view|(drop)\s+view)\b",
    re.IGNORECASE,
)


def job_parts(statement: AlterTable) -> tuple[Alteration, ...]:
    """The parts of an ALTER TABLE that TiDB counts. Several make one job of several changes.

    ALGORITHM and LOCK do not count. Charset and collation are one part.
    """
    parts = tuple(one for one in statement.parts if not (isinstance(one, NoEffect) and _NO_PART.match(one.what)))
    return parts[:1] if all(isinstance(one, Charset) for one in parts) else parts


def view_event(sql: str) -> str:
    """``create view`` or ``drop view``; ``""`` for all other statements."""
    found = _VIEW.match(_COMMENT.sub(" ", sql))
    return "" if found is None else "drop view" if found[1] else "create view"
