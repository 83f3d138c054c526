"""A statement with other names for its tables, otherwise unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ticdc_spark.ddl.lex import Cursor, Name, Named
from ticdc_spark.ddl.parse import read_statement
from ticdc_spark.ddl.statements import OtherDdl, Unsupported
from ticdc_spark.errors import MessageError
from ticdc_spark.model import TableName


def named_in(sql: str) -> Sequence[Named]:
    """The tables and databases that a statement names, in order, also in foreign keys.

    Raises: MessageError if the SQL cannot be read, or names are not searched in statements of its kind (a view).
    """
    cur = Cursor(sql)
    statement = read_statement(cur)
    if isinstance(statement, OtherDdl | Unsupported):
        raise MessageError("it is a statement in which ticdc-spark does not look for the names of tables")
    found = dict(cur.named)
    words = Cursor(sql)
    while words.peek().kind != "end":
        if words.accept("references"):
            words.table()
        else:
            words.next()
    return [one for _, one in sorted((found | words.named).items())]


def with_table_names(
    sql: str, meant: Callable[[int, Name], TableName], rename: Callable[[TableName], TableName]
) -> str:
    """The statement with another name, qualified by its database, for every table; the same text if no name changes.

    ``meant``: from the position of a name among those of the statement, and the name as written, to the table.
    ``rename``: for a database, the table is ``""``. Raises: MessageError as ``named_in`` does
    """
    parts: list[str] = []
    at, changes = 0, False
    for place, (start, end, name) in enumerate(named_in(sql)):
        old = meant(place, name)
        new = rename(old)
        changes |= new != old
        parts += [sql[at:start], quoted(new)]
        at = end
    return "".join([*parts, sql[at:]]) if changes else sql


def quoted(name: TableName) -> str:
    """A table's name as SQL has it; without its schema if that is not known."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in name if part)
