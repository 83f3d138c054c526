"""A small MySQL-like database with its whole history: transactions, and what TiCDC may send of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

import msgspec

from tests.simulator.columns import KEY_KINDS, Spec, make_value
from tests.simulator.letters import Letters, folded
from ticdc_spark.ddl import Comments
from ticdc_spark.model import Column, Op, Row, RowChange, SchemaChange, Table, Value
from ticdc_spark.mysql import handle_key

Name: TypeAlias = tuple[str, str]
"""(schema, table), in small letters whatever its table's own are."""
Key: TypeAlias = tuple[Value, ...]
Uid: TypeAlias = int
"""A table's identity: it survives RENAME and TRUNCATE, and no other table ever has it."""

_LOGICAL = 1 << 18
_START = 1_767_225_600_000 * _LOGICAL
_MOST_ROWS = 8
_NAMING = ("CREATE", "RENAME")
_RANK: dict[Op, int] = {"delete": 0, "update": 1, "insert": 2, "upsert": 2}


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """A table at one moment. Nothing of it is ever changed in place."""

    uid: Uid
    table: Table
    specs: tuple[Spec, ...]
    keys: tuple[str, ...]
    """Columns of the handle key."""
    rows: dict[Key, Row]
    """Of a table without a key, by what nobody sees."""
    comments: Comments = Comments()

    @property
    def name(self) -> Name:
        return folded((self.table.schema, self.table.name))

    def key(self, row: Row) -> Key:
        return tuple([row[name] for name in self.keys])


State: TypeAlias = dict[Name, Live]
"""All tables at one moment."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What TiCDC learns at one commit_ts: the rows of a transaction, or one schema change."""

    ts: int
    rows: tuple[tuple[Uid, RowChange], ...] = ()
    change: SchemaChange | None = None
    uids: tuple[Uid, ...] = ()
    """Tables that the schema change is about."""
    live: tuple[tuple[Uid, Name], ...] = ()
    """After a schema change: tables that exist."""
    refused: bool = False
    """A schema change that no message replays (EXCHANGE PARTITION)."""


class Database:
    """The source. ``now`` is its present, ``truth_at`` its past."""

    def __init__(
        self, *, zone: str = "UTC", plain: bool = False, raw_key_changes: bool = False, generated: bool = False
    ) -> None:
        """``plain``: leaves out what only MySQL's own conversions give (lossy MODIFY, a TIMESTAMP's default).
        ``generated``: tables may have virtual columns."""
        self.generated = generated
        self.zone, self.plain, self.raw_key_changes = zone, plain, raw_key_changes
        self.letters: Letters | None = None
        """``None``: everybody types names in small letters."""
        self.ts = _START
        self.now: State = {}
        self.databases: list[str] = []
        self.events: list[Event] = []
        self.versions: dict[Uid, Live] = {}
        """The last state of every table that ever was."""
        self.names: dict[Uid, set[Name]] = {}
        """Every name that a table has had."""
        self.keyless: Uid = -1
        """The table that is made without a key; -1: none."""
        self.hidden_drops: dict[Uid, list[tuple[int, str]]] = {}
        """Columns that were dropped by a DDL that is not sent, by table: when, and their names."""
        self.meanwhile: Callable[[], None] | None = None
        """What people do, once, while a full read is between two of its chunks."""
        self._moments: list[int] = [0]
        self._states: list[State] = [{}]
        self._number = 0
        self._uid = -1

    def new_uid(self) -> Uid:
        """The identity of the next table: 0, 1, 2 …"""
        self._uid += 1
        return self._uid

    def is_next(self, uid: Uid) -> bool:
        """Whether the next table has this identity."""
        return uid == self._uid + 1

    def fresh(self) -> int:
        """A number that was not used before."""
        self._number += 1
        return self._number

    def tick(self, rand: Random) -> int:
        """The next commit_ts; some share the millisecond of the one before."""
        if rand.random() < 0.5:
            self.ts += 1 + rand.randrange(4)
        else:
            self.ts = (self.ts // _LOGICAL + 1 + rand.randrange(3)) * _LOGICAL + rand.randrange(5)
        return self.ts

    def truth_at(self, ts: int) -> State:
        """All tables as of ``ts``, that commit included."""
        return self._states[bisect_right(self._moments, ts) - 1]

    def truth_before(self, ts: int) -> State:
        """All tables just before ``ts``."""
        return self.truth_at(ts - 1)

    def commit(self, ts: int, state: State, *events: Event) -> None:
        """Make ``state`` the present as of ``ts``."""
        self.now = state
        self.versions.update({live.uid: live for live in state.values()})
        for name, live in state.items():
            self.names.setdefault(live.uid, set()).add(name)
        self._moments.append(ts)
        self._states.append(state)
        self.events.extend(events)

    def commit_ddl(self, state: State, *changes: SchemaChange, uids: tuple[Uid, ...], refused: bool = False) -> None:
        """Commit the schema changes of one statement, each with an event of its own."""
        if self.letters is not None:
            changes = tuple(self.letters.statement(changes))
            state = _renamed_in(state, changes)
            if self.letters.where == "messages":
                changes = tuple(map(self.letters.sent, changes))
        live = tuple((table.uid, name) for name, table in state.items())
        events = [
            Event(ts=change.commit_ts, change=change, uids=of, live=live, refused=refused)
            for change, of in zip(changes, _shares(uids, len(changes)), strict=True)
        ]
        self.commit(changes[0].commit_ts, state, *events)

    def transaction(self, rand: Random) -> None:
        """Some row operations over some tables, at most one net change a key."""
        if not self.now:
            return
        ts = self.tick(rand)
        work = _Transaction(rand, ts, self.now, raw=self.raw_key_changes)
        for _ in range(1 + rand.randrange(4)):
            work.operate()
        if work.changes:
            # As TiCDC sorts them: table by table; deletes, updates, inserts.
            rows = sorted(work.changes, key=lambda item: (item[0], _RANK[item[1].op]))
            self.commit(ts, work.state(), Event(ts=ts, rows=tuple(rows)))


def virtual_columns(live: Live) -> tuple[Column, ...]:
    """The columns of a table that no row has."""
    return tuple(column for column in live.table.columns if column.virtual)


def columns_of(specs: Sequence[Spec], virtual: Sequence[Column]) -> tuple[Column, ...]:
    """All columns of a table: those that rows have, then the others."""
    return (*(one.column for one in specs), *virtual)


def has_number(specs: Sequence[Spec]) -> bool:
    """Whether a virtual column can be computed of ``id``."""
    return any(one.column.name == "id" and one.kind in ("int", "bigint") for one in specs)


def live_table(uid: Uid, table: Table, specs: tuple[Spec, ...], rows: dict[Key, Row]) -> Live:
    """A table with its handle key looked up."""
    return Live(uid=uid, table=table, specs=specs, keys=handle_key(table), rows=rows)


class _Transaction:
    """A transaction under way."""

    def __init__(self, rand: Random, ts: int, before: State, *, raw: bool) -> None:
        self.rand, self.ts, self.raw = rand, ts, raw
        self.before = before
        self.rows: dict[Name, dict[Key, Row]] = {}
        self.touched: set[tuple[Name, Key]] = set()
        self.changes: list[tuple[Uid, RowChange]] = []

    def state(self) -> State:
        new = dict(self.before)
        for name, rows in self.rows.items():
            new[name] = msgspec.structs.replace(new[name], rows=rows)
        return new

    def operate(self) -> None:
        rand = self.rand
        name = rand.choice(tuple(self.before))
        live = self.before[name]
        rows = self.rows.get(name)
        if rows is None:
            rows = self.rows[name] = dict(live.rows)
        dice = rand.random()
        if not rows or (dice < 0.4 and len(rows) < _MOST_ROWS):
            if live.keys:
                self._insert(live, rows)
            else:
                self._insert_copy(live, rows)
            return
        key = rand.choice(tuple(rows))
        if (name, key) in self.touched:
            return
        row = rows[key]
        if not live.keys:
            self._change_copy(live, rows, key)
        elif dice < 0.7:
            after = {**row, **{item.column.name: make_value(rand, item) for item in self._free(live)}}
            self._note(live, "update", row, after)
            rows[key] = after
        elif dice < 0.8:
            self._change_key(live, rows, row)
        elif dice < 0.88:
            after = self._make(live, key)
            self._note(live, "delete", row, None)
            self._note(live, "insert", None, after)
            rows[key] = after
        else:
            self._note(live, "delete", row, None)
            del rows[key]

    def _insert(self, live: Live, rows: dict[Key, Row]) -> None:
        key = self._fresh_key(live, rows)
        if key is not None:
            rows[key] = row = self._make(live, key)
            self._note(live, "insert", None, row)

    def _insert_copy(self, live: Live, rows: dict[Key, Row]) -> None:
        """A row of a table without a key, often one that equals another."""
        row = self.rand.choice(tuple(rows.values())) if rows and self.rand.random() < 0.7 else self._make(live, ())
        if self._is_noted(live, "insert", None, row):
            rows[str(self.ts), str(len(self.changes))] = row

    def _change_copy(self, live: Live, rows: dict[Key, Row], key: Key) -> None:
        row, after = rows[key], None
        if self.rand.random() < 0.6:
            after = self.rand.choice(tuple(rows.values())) if self.rand.random() < 0.4 else self._make(live, ())
        if not self._is_noted(live, "delete" if after is None else "update", row, after):
            return
        del rows[key]
        if after is not None:
            rows[str(self.ts), str(len(self.changes))] = after

    def _is_noted(self, live: Live, op: Op, before: Row | None, after: Row | None) -> bool:
        """Note a change, unless the transaction has an equal one: it could be one that is sent again."""
        change = RowChange(op=op, table=live.table, commit_ts=self.ts, before=before, after=after)
        if (live.uid, change) in self.changes:
            return False
        self.changes.append((live.uid, change))
        return True

    def _change_key(self, live: Live, rows: dict[Key, Row], row: Row) -> None:
        """One row gets a new key; now and then another row takes the key that became free."""
        old, new = live.key(row), self._fresh_key(live, rows)
        if new is None:
            return
        pairs = [(row, {**row, **dict(zip(live.keys, new, strict=True))})]
        heir_key = self.rand.choice(tuple(rows))
        if self.rand.random() < 0.5 and heir_key != old and (live.name, heir_key) not in self.touched:
            heir = rows[heir_key]
            pairs.append((heir, {**heir, **dict(zip(live.keys, old, strict=True))}))
        for before, _ in pairs:
            del rows[live.key(before)]
        for _, after in pairs:
            rows[live.key(after)] = after
        if self.raw:
            for before, after in pairs if self.rand.random() < 0.5 else pairs[::-1]:
                self._note(live, "update", before, after)
            return
        for before, _ in pairs:
            self._note(live, "delete", before, None)
        for _, after in pairs:
            self._note(live, "insert", None, after)

    def _note(self, live: Live, op: Op, before: Row | None, after: Row | None) -> None:
        for row in (before, after):
            if row is not None:
                self.touched.add((live.name, live.key(row)))
        change = RowChange(op=op, table=live.table, commit_ts=self.ts, before=before, after=after)
        self.changes.append((live.uid, change))

    def _fresh_key(self, live: Live, rows: dict[Key, Row]) -> Key | None:
        kinds = {item.column.name: item.kind for item in live.specs}
        for _ in range(3):
            key = tuple([self.rand.choice(KEY_KINDS[kinds[name]]) for name in live.keys])
            if key not in rows and (live.name, key) not in self.touched:
                return key
        return None

    def _free(self, live: Live) -> list[Spec]:
        free = [item for item in live.specs if item.column.name not in live.keys]
        return [self.rand.choice(free)] if free else []

    def _make(self, live: Live, key: Key) -> dict[str, Value]:
        given = dict(zip(live.keys, key, strict=True))
        return {
            item.column.name: given[item.column.name] if item.column.name in given else make_value(self.rand, item)
            for item in live.specs
        }


def _renamed_in(state: State, changes: Sequence[SchemaChange]) -> State:
    """The tables with the names that schema changes gave them, letter by letter."""
    state = dict(state)
    for table in [change.table for change in changes if change.table and change.kind in _NAMING]:
        name = folded((table.schema, table.name))
        if name in state:
            new = msgspec.structs.replace(state[name].table, schema=table.schema, name=table.name)
            state[name] = msgspec.structs.replace(state[name], table=new)
    return state


def _shares(uids: tuple[Uid, ...], changes: int) -> list[tuple[Uid, ...]]:
    """Which tables each of a statement's events is about: one each where it has several events."""
    return [uids] if changes == 1 else [(uid,) for uid in uids]
