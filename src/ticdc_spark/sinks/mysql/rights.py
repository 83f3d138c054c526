"""The rights of a MySQL sink's user, from the server's texts. Pure."""

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from ticdc_spark.clients.mysql import quoted

RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "INDEX")
"""The rights that the job needs in each database that it writes."""
DENIED = (1044, 1142, 1143, 1227)
"""Error codes: the user may not use a database, table or column, or lacks a right on the server."""
_ON_DATABASE = re.compile(r"GRANT (.+?) ON (\*|`(?:[^`]|``)+`|[^`\s.]+)\.\* TO ", re.IGNORECASE)
_ROLE = re.compile(r"GRANT (?:(?! ON ).)+ TO ", re.IGNORECASE)
_USER = re.compile(r"user ('[^']*')@'[^']*'")
_DATABASE = re.compile(r"to database '([^']+)'|for table `([^`]+)`\.")


class _Grant(NamedTuple):
    rights: frozenset[str]
    database: str
    """A shell pattern; ``*``: every database."""


def missing_rights(grants: Iterable[str], databases: Collection[str]) -> list[str]:
    """The databases in which a user lacks a right. ``grants``: lines of ``SHOW GRANTS``.

    Empty if a role may give the missing rights.
    """
    lines = [*grants]
    if any(_ROLE.match(line) and " ON " not in line for line in lines):
        return []
    given = [_Grant(_rights(found[1]), _pattern(found[2])) for line in lines if (found := _ON_DATABASE.match(line))]
    return [one for one in databases if not _has_all(given, one.casefold())]


def _has_all(given: Iterable[_Grant], database: str) -> bool:
    rights = {right for grant in given if fnmatchcase(database, grant.database) for right in grant.rights}
    return bool(rights & {"ALL PRIVILEGES", "ALL"}) or rights >= set(RIGHTS)


def _rights(text: str) -> frozenset[str]:
    return frozenset(one.strip().upper() for one in text.split(","))


def _pattern(name: str) -> str:
    """The name in a grant, where ``%`` and ``_`` match any letters unless a backslash precedes them."""
    if name == "*":
        return "*"
    plain = name[1:-1].replace("``", "`") if name.startswith("`") else name
    return re.sub(r"\\(.)|(.)", lambda at: _letter(at[1], at[2]), plain.casefold(), flags=re.DOTALL)


def _letter(escaped: str | None, plain: str | None) -> str:
    if escaped is None and plain in ("%", "_"):
        return "*" if plain == "%" else "?"
    letter = escaped or plain or ""
    return f"[{letter}]" if letter in "*?[" else letter


def grants_of(databases: Collection[str], user: str) -> str:
    """The statements that grant a user the missing rights. ``user``: as SQL."""
    return "; ".join(f"GRANT {', '.join(RIGHTS)} ON {quoted(name)}.* TO {user}" for name in databases)


def cure_of(text: str) -> str:
    """The statement that grants what the server denied. ``text``: the server's error, which has the host that the user
    comes from, and not that of the account."""
    user, database = _USER.search(text), _DATABASE.search(text)
    if user is None or database is None:
        return f"the user needs {', '.join(RIGHTS)} on the copied databases and on `_ticdc_spark`"
    account = f"{user[1]}@HOST, where SELECT CURRENT_USER() shows HOST"
    return grants_of([database[1] or database[2]], account)
