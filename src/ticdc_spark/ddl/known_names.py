"""Names of tables and databases as somebody writes them, and what is known by them.

TiDB compares names without case, and TiCDC passes SQL on as it was typed. In its messages the case of a database may
change, too: some of its versions take the name from a DDL's job, where it is in lower case (tiflow#10047). So a name
means what is known by exactly that name, else what is known by it without case, and keeps the case in which it was met
first. Two names of different case are two only where a table, or a database, comes while the other one is there, which
no server does that compares without case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from ticdc_spark.model import TableName


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The names that are known, as tasks get them."""

    live: tuple[TableName, ...] = ()
    """Tables that are there."""
    gone: tuple[TableName, ...] = ()
    """Tables that were dropped, or renamed away."""
    databases: tuple[str, ...] = ()
    """Databases that are there: another one that comes beside them is another one."""
    seen: tuple[str, ...] = ()
    """Databases of rows whose table is not known; those of ``live`` and ``gone`` need not be among them."""
    exact: bool = False
    """Whether rows, and what comes by DDL, have the names of a server that may tell case apart."""


NO_NAMES = Names()
"""Nothing is known."""


class KnownNames:
    """The names that are known, to look others up in; they follow DDL."""

    def __init__(self, names: Names) -> None:
        self._exact = names.exact
        self._live: dict[TableName, None] = dict.fromkeys(names.live)
        self._gone: dict[TableName, None] = dict.fromkeys(names.gone)
        self._index: dict[TableName, list[TableName]] | None = None
        """Names by the same without case; made when one is looked up that is not known exactly."""
        self._databases: dict[str, None] = dict.fromkeys(names.databases)
        self._past: dict[str, None] = dict.fromkeys(
            [*names.seen, *(schema for schema, _ in (*names.live, *names.gone))]
        )
        """Databases of which nothing else is known than their name."""

    def names(self) -> Names:
        """What is known, for tasks."""
        seen = tuple(name for name in self._past if name not in self._databases)
        live, gone = tuple(self._live), tuple(self._gone)
        databases = tuple(self._databases)
        return Names(live=live, gone=gone, databases=databases, seen=seen, exact=self._exact)

    def of_rows(self, name: TableName) -> TableName:
        """The table that rows are of, by the name that they have."""
        return name if self._exact else self.table(name)

    def table(self, name: TableName) -> TableName:
        """The table that is meant by a name; one that is not known keeps it, in its database."""
        return self.find(name) or (self.database(name[0]), name[1])

    def find(self, name: TableName) -> TableName | None:
        """The table that is meant by a name; ``None``: it is not known."""
        if name in self._live:
            return name
        same = self._alike(name)
        if name[0] in self._databases:
            same = [one for one in same if one[0] == name[0]]
        there = [one for one in same if one in self._live]
        if there:
            return _nearest(name, there)
        return name if name in self._gone else _nearest(name, same)

    def find_anywhere(self, table: str) -> TableName | None:
        """The one table that has a name, in whatever database; ``None``: there is none, or several."""
        exact = [name for name in self._live if name[1] == table]
        found = exact or [name for name in self._live if name[1].lower() == table.lower()]
        return found[0] if len(found) == 1 else None

    def new(self, name: TableName, freed: Collection[TableName] = (), *, is_taken_over: bool = False) -> TableName:
        """The name under which a table comes.

        ``freed``: names that other tables give up at the same moment, also of tables that are not known.
        ``is_taken_over``: it comes by a RENAME. The DDL by which another table gives that name up may be of the same
        moment, and in a topic that is read later: it is that name, and not one beside it.
        """
        if self._exact:
            return name
        name = (self.database(name[0]), name[1])
        if name in self._live or name in self._gone:
            return name
        alike = {*self._alike(name), *(one for one in freed if is_same_name(one, name))}
        same = [one for one in alike if one[0] == name[0]]
        if not is_taken_over and any(one in self._live and one not in freed for one in same):
            return name  # The server has both.
        return _nearest(name, same) or name

    def database(self, name: str) -> str:
        """The database that is meant by a name; one that is not known keeps it."""
        for known in (self._databases, self._past):
            same = name if name in known else min((one for one in known if _is_same(one, name)), default=None)
            if same is not None:
                return same
        return name

    def new_database(self, name: str) -> str:
        """The name under which a database comes."""
        if self._exact or name in self._databases or any(_is_same(one, name) for one in self._databases):
            return name
        return self.database(name)

    def add(self, name: TableName) -> None:
        """A table is there."""
        self._put(name)
        self._gone.pop(name, None)
        self._live[name] = None
        self._databases[name[0]] = None

    def note(self, name: TableName) -> None:
        """A table was there, or may be: its name is known."""
        self._put(name)
        if name not in self._live:
            self._gone[name] = None
        self._past[name[0]] = None

    def remove(self, name: TableName) -> None:
        """A table is gone. One that was not known is known by its name from here on: rows have come, or may."""
        self.note(name)
        self._live.pop(name, None)
        self._gone[name] = None

    def see(self, name: TableName) -> None:
        """Rows have a name: what is not known of it is known by its database from here on."""
        if not self._exact and self.find(name) is None:
            self._past[self.database(name[0])] = None

    def meet(self, name: TableName) -> None:
        """A DDL changes a table, which is there: one that is not known is known by this name from here on."""
        if not self._exact and self.find(name) is None:
            self.add(name)

    def add_database(self, name: str) -> None:
        """A database is there."""
        self._databases[name] = None

    def remove_database(self, name: str) -> None:
        """A database is gone, with its tables."""
        for one in [one for one in self._live if one[0] == name]:
            self.remove(one)
        self._databases.pop(name, None)
        self._past[name] = None

    def _put(self, name: TableName) -> None:
        if self._index is not None and name not in self._live and name not in self._gone:
            self._index.setdefault(_folded(name), []).append(name)

    def _alike(self, name: TableName) -> Sequence[TableName]:
        if self._index is None:
            self._index = {}
            for one in {**self._live, **self._gone}:
                self._index.setdefault(_folded(one), []).append(one)
        return self._index.get(_folded(name), ())


def is_same_name(one: TableName, other: TableName) -> bool:
    """Whether two names are one but for case."""
    return _folded(one) == _folded(other)


def _folded(name: TableName) -> TableName:
    return name[0].lower(), name[1].lower()


def _is_same(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def _nearest(name: TableName, found: Iterable[TableName]) -> TableName | None:
    """Of names that are one but for case, always the same; rather one of its very database."""
    return min(found, key=lambda one: (one[0] != name[0], one), default=None)
