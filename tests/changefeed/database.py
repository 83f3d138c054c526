"""A database in memory that changes at random: its tables, its binlog, its clock, and its tables as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from ticdc_spark.capture.base import Captured, CapturedDdl, CaptureState, Resolved, Transaction
from ticdc_spark.capture.snapshot.keys import Range, read_key
from ticdc_spark.capture.snapshot.present import Present
from ticdc_spark.model import Column, ColumnType, Index, RowChange, SchemaChange, Table, TableName

Rows = dict[str, dict[str, str | None]]
"""By key."""
Tables = dict[TableName, Rows]
_PRIMARY = Index(name="PRIMARY", unique=True, primary=True, nullable=False, columns=("id",))
_INT = ColumnType(name="int")


def _table(name: TableName, more: Sequence[str] = ()) -> Table:
    columns = [Column(name="id", type=_INT, nullable=False), *(Column(name=one, type=_INT) for one in ("v", *more))]
    return Table(schema=name[0], name=name[1], columns=tuple(columns), indexes=(_PRIMARY,))


class Database:
    """Tables, their binlog, and a clock."""

    def __init__(self, rand: Random) -> None:
        self._rand = rand
        self.clock = 100
        """Whole seconds, as a binlog has them."""
        self.log: list[Captured] = []
        self.live: dict[TableName, Table] = {}
        self.ids: dict[TableName, int] = {}
        """What tells a table from all others, whatever its name."""
        self._former: list[TableName] = []
        self.rows: Tables = {}
        self.after: list[Tables] = []
        """The rows after each element of the log."""
        self._names, self._uids = iter(range(1000)), iter(range(1000))
        for at in range(rand.randint(1, 4)):
            name = ("d", f"t{at}")
            self.live[name] = _table(name)
            self.ids[name] = next(self._uids)
            self.rows[name] = {str(key): {"id": str(key), "v": "old"} for key in range(rand.randint(0, 12))}
        self.begun = dict(self.live)
        self.first = {name: dict(rows) for name, rows in self.rows.items()}

    @property
    def ts(self) -> int:
        return self.clock * 1000

    def begin(self) -> CaptureState:
        self.begun = dict(self.live)
        return CaptureState(position=str(len(self.log)), commit_ts=self.ts, tables=tuple(self.live.values()))

    def read(self, state: CaptureState) -> Iterator[Captured]:
        """As the binlog's source does: a commit_ts is the time of commit, or one above the last."""
        last, at = state.commit_ts, int(state.position)
        while True:
            while at < len(self.log):
                one, at = self.log[at], at + 1
                last = max(one.commit_ts, last + 1)
                changes = tuple(replace(change, commit_ts=last) for change in getattr(one, "changes", ()))
                yield replace(one, commit_ts=last, changes=changes, position=str(at))
            last, before = max(last, self.ts - 1001), last
            yield Resolved(commit_ts=last, position=str(at), from_clock=last > before)

    def contents(self, position: str) -> Tables:
        return self.after[int(position) - 1] if int(position) else self.first

    def change(self, most: int = 3) -> None:
        for _ in range(self._rand.randint(0, most)):
            self.clock += self._rand.choice((0, 0, 1, 5))
            element = self._ddl() if self._rand.random() < 0.06 or not self.live else self._transaction()
            if element is not None:
                self.log.append(element)
                self.after.append(
                    {name: {key: dict(row) for key, row in rows.items()} for name, rows in self.rows.items()}
                )

    def _transaction(self) -> Transaction | None:
        rand = self._rand
        name = rand.choice([*self.live])
        table, rows, key = self.live[name], self.rows[name], str(rand.randint(0, 14))
        before, changes = rows.get(key), []
        made: dict[str, str | None] = dict.fromkeys((column.name for column in table.columns), str(len(self.log)))
        if before is None or rand.random() < 0.5:
            rows[key] = after = {**made, "id": key}
            changes.append(self._row("update" if before else "insert", table, before, after))
        elif rand.random() < 0.6:
            del rows[key]
            changes.append(self._row("delete", table, before, None))
        else:  # its key changes
            other = str(rand.randint(0, 14))
            if other in rows:
                return None
            del rows[key]
            rows[other] = after = {**before, "id": other}
            changes.append(self._row("update", table, before, after))
        return Transaction(commit_ts=self.ts, changes=tuple(changes), position="")

    def _row(self, op: str, table: Table, before: Any, after: Any) -> RowChange:
        return RowChange(op=op, table=table, commit_ts=self.ts, before=before, after=after)  # type: ignore[arg-type]

    def _ddl(self) -> CapturedDdl:
        kinds = ("create table", "drop table", "rename table", "exchange names", "add column", "add column")
        kind = self._rand.choice(kinds)
        new = ("d", f"n{next(self._names)}")
        if kind == "create table" or not self.live:
            free = [name for name in self._former if name not in self.live]
            if free and self._rand.random() < 0.6:
                new = self._rand.choice(free)
            self.live[new], self.rows[new], self.ids[new] = _table(new), {}, next(self._uids)
            return self._made("create table", f"CREATE TABLE {new[1]} (id INT)", None, self.live[new])
        name = self._rand.choice([*self.live])
        if kind == "exchange names" and len(self.live) > 1:
            return self._exchanged(name, self._rand.choice([other for other in self.live if other != name]))
        table, rows, uid = self.live.pop(name), self.rows.pop(name), self.ids.pop(name)
        self._former.append(name)
        if kind == "drop table":
            return self._made(kind, f"DROP TABLE {name[1]}", table, None)
        if kind == "rename table":
            self.live[new], self.rows[new], self.ids[new] = replace(table, name=new[1]), rows, uid
            return self._made(kind, f"RENAME TABLE {name[1]} TO {new[1]}", table, self.live[new])
        column = f"c{new[1]}"
        self.live[name] = _table(name, [one.name for one in table.columns[2:]] + [column])
        self.ids[name] = uid
        self.rows[name] = {key: {**row, column: None} for key, row in rows.items()}
        return self._made("alter table", f"ALTER TABLE {name[1]} ADD {column} INT", table, self.live[name])

    def _exchanged(self, one: TableName, other: TableName) -> CapturedDdl:
        """Two tables get each other's name by one statement."""
        before = dict(self.live)
        for of in (self.live, self.rows, self.ids):
            of[one], of[other] = of[other], of[one]  # type: ignore[index]
        self.live |= {name: replace(self.live[name], name=name[1]) for name in (one, other)}
        query = f"RENAME TABLE {one[1]} TO x, {other[1]} TO {one[1]}, x TO {other[1]}"
        first = self._made("rename table", query, before[one], self.live[other])
        second = self._made("rename table", query, before[other], self.live[one])
        return replace(first, changes=(*first.changes, *second.changes))

    def _made(self, kind: str, query: str, before: Table | None, after: Table | None) -> CapturedDdl:
        named = before or after
        assert named is not None
        change = SchemaChange(
            commit_ts=self.ts, query=query, kind=kind, schema="d", name=named.name, table=after, pre_table=before
        )
        return CapturedDdl(commit_ts=self.ts, changes=(change,), position="")


class PresentNow:
    """The database's tables as they are now."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def look(self, name: TableName) -> Present | None:
        self._database.change(1)
        table = self._database.live.get(name)
        return None if table is None else Present(table, repr(table), identity=str(self._database.ids[name]))

    def check(self) -> None:
        return

    def identities(self, position: str, names: Sequence[TableName]) -> dict[TableName, str]:
        found = {name: str(self._database.ids[name]) for name in names if name in self._database.ids}
        self._database.change(1)
        since = [change for one in self._database.log[int(position) :] for change in getattr(one, "changes", ())]
        ddls = [change for change in since if isinstance(change, SchemaChange)]
        named = {(table.schema, table.name) for ddl in ddls for table in (ddl.pre_table, ddl.table) if table}
        return {name: identity for name, identity in found.items() if name not in named}

    def estimate(self, name: TableName) -> int:
        return 0

    def now(self) -> int:
        return self._database.ts + 1000

    def ranges(self, found: Present, upto: str, rows: int, count: int) -> Sequence[Range]:
        above = read_key(upto)
        keys = sorted(int(key) for key in self._database.rows.get((found.table.schema, found.table.name), {}))
        keys = [key for key in keys if above is None or key > int(str(above[0]))]
        ranges = []
        for _ in range(count):
            end = (str(keys[rows - 1]),) if len(keys) >= rows else None
            ranges.append(Range(above, end))
            keys, above = keys[rows:], end
            if end is None:
                break
        return ranges

    def close(self) -> None:
        return
