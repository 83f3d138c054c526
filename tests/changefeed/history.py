"""A random source for the simulator: transactions, DDL and the clock, and what they come to."""

from collections.abc import Iterator
from random import Random

from msgspec.structs import replace

from ticdc_spark.capture.base import Captured, CapturedDdl, CaptureState, Resolved, Transaction
from ticdc_spark.model import Column, ColumnType, Index, RowChange, SchemaChange, Table

Rows = dict[str, str | None]
Tables = dict[str, Rows]

_ID = Column(name="id", type=ColumnType(name="int"), nullable=False)
_PRIMARY = Index(name="PRIMARY", unique=True, primary=True, nullable=False, columns=("id",))


def table(name: str, version: int) -> Table:
    columns = (_ID, Column(name=f"v{version}", type=ColumnType(name="int")))
    return Table(schema="s", name=name, columns=columns, indexes=(_PRIMARY,), version=version)


class History:
    """Elements in the order of their commit_ts, the same for the same seed."""

    def __init__(self, seed: int, length: int = 60, *, clock: bool = False) -> None:
        self._rand = Random(seed)
        self._clock = clock
        self._ts = 100
        self._live: dict[str, Table] = {}
        self._rows: Tables = {}
        self._names = iter(range(1000))
        start = [self._create() for _ in range(self._rand.randint(1, 3))]
        self.first = CaptureState(
            position="0", commit_ts=self._ts, tables=tuple(table for table in self._live.values())
        )
        self.given_tables = {change.table.name for ddl in start for change in ddl.changes if change.table}
        self.elements: list[Captured] = []
        for _ in range(length):
            self.elements.append(self._element())
        self.truth = self._rows
        self.last_ts = self._ts

    def read(self, state: CaptureState) -> Iterator[Captured]:
        yield from self.elements[int(state.position) :]

    def _tick(self) -> int:
        self._ts += self._rand.choice((1, 1, 2, 7))
        return self._ts

    def _position(self) -> str:
        return str(len(self.elements) + 1)

    def _element(self) -> Captured:
        kind = self._rand.random()
        if kind < 0.12:
            return Resolved(commit_ts=self._tick(), position=self._position(), from_clock=self._clock)
        if kind < 0.32 or not self._live:
            return self._ddl()
        return self._transaction()

    def _transaction(self) -> Transaction:
        rand, ts = self._rand, self._tick()
        changes = []
        for name in rand.choices([*self._live], k=rand.randint(1, 3)):
            rows, of = self._rows[name], self._live[name]
            key = str(rand.randint(0, 5))
            if any(change.table is of and (change.after or change.before or {}).get("id") == key for change in changes):
                continue
            old = rows.get(key)
            value = of.columns[1].name
            before = {"id": key, value: old} if key in rows else None
            after: dict[str, str | None] | None = {"id": key, value: str(ts)}
            if before is not None and rand.random() < 0.3:
                after = None
                del rows[key]
            else:
                rows[key] = str(ts)
            op = "delete" if after is None else "update" if before else "insert"
            changes.append(RowChange(op=op, table=of, commit_ts=ts, before=before, after=after))  # type: ignore[arg-type]
        return Transaction(commit_ts=ts, changes=tuple(changes), position=self._position())

    def _ddl(self) -> CapturedDdl:
        kind = self._rand.choice(("create", "drop", "rename", "alter", "alter", "hidden"))
        if kind == "create" or not self._live:
            return self._create()
        name = self._rand.choice([*self._live])
        before, ts = self._live[name], self._tick()
        if kind == "drop":
            del self._live[name], self._rows[name]
            return self._made(ts, "drop table", before, None)
        if kind == "rename":
            new = f"t{next(self._names)}"
            after = replace(before, name=new)
            self._live[new] = after
            self._rows[new] = self._rows.pop(name)
            del self._live[name]
            return self._made(ts, "rename table", before, after)
        after = self._live[name] = table(name, ts)
        return self._made(ts, "alter table", before, after, query="hidden" if kind == "hidden" else "")

    def _create(self) -> CapturedDdl:
        ts, name = self._tick(), f"t{next(self._names)}"
        self._live[name] = made = table(name, ts)
        self._rows[name] = {}
        return self._made(ts, "create table", None, made)

    def _made(self, ts: int, kind: str, before: Table | None, after: Table | None, query: str = "") -> CapturedDdl:
        named = before or after
        assert named is not None
        change = SchemaChange(
            commit_ts=ts,
            query=query or f"{kind} {ts}",
            kind=kind,
            schema="s",
            name=named.name,
            table=after,
            pre_table=before,
        )
        position = self._position() if hasattr(self, "elements") else "0"
        return CapturedDdl(commit_ts=ts, changes=(change,), position=position)
