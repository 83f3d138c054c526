"""A bank whose tables are read while a job writes them: its changes, the truth at each commitTs, the judge, readers.

Each transaction moves money from a table of accounts to another one, opens an account with a child that names it, and
closes an older one with its child. DDL goes on all three tables meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.spark.deaths import Death
from tests.spark.simple_topic import INT, ddl, insert, table
from ticdc_spark import failpoints
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Change, Column, RowChange, Table, Watermark
from ticdc_spark.replicate import loop

Rows = list[dict[str, Any]]
MONEY = 1000
"""Of each of three accounts in each of two tables, at first."""
FIXED = (1, 2, 3)
"""The accounts that pay and stay."""
OPEN = 4
"""So many steps, and an account that was opened is closed."""
OPENED = 20
"""The commitTs of the first money."""
V, NOTE = Column(name="v", type=INT), Column(name="note", type=INT, default="7")
LABELS = ("a", "b", "moves")


@dataclass(frozen=True)
class Held:
    """A table at a commitTs."""

    name: str
    rows: Rows

    @property
    def columns(self) -> set[str]:
        return {name for row in self.rows for name in row}


@dataclass(frozen=True)
class Seen:
    """What a reader found: the tables by ``LABELS``, and the commitTs that it read with them."""

    commit_ts: int
    tables: dict[str, Held]


def judge(a: Rows, b: Rows, moves: Rows) -> str:
    """What is wrong with the rows of three tables, whenever they are of; ``""``: nothing."""
    total, paid = sum(one["v"] for one in (*a, *b)), 3 * MONEY - sum(one["v"] for one in a)
    steps = max((one["id"] for one in moves), default=0)
    parents, named = {one["id"] for one in a} - {*FIXED}, {one["account"] for one in moves}
    if (total, paid) == (6 * MONEY, steps) and parents == named and len(moves) == min(steps, OPEN):
        return ""
    return f"{total} in all, {paid} paid in {steps} steps, {named - parents} no accounts, {parents - named} no children"


class Bank:
    """The changes of a story, in ``sent``. A step is at the hundreds of the commitTs, DDL between two."""

    def __init__(self) -> None:
        self.sent: list[Change] = []
        self.of: dict[str, Table] = {
            "a": table(10, V, name="a"),
            "b": table(10, V, name="b"),
            "moves": table(10, Column(name="account", type=INT), name="moves"),
        }
        self.held: dict[str, dict[int, dict[str, Any]]] = {label: {} for label in LABELS}
        self.truth: list[tuple[int, dict[str, Held]]] = []
        """After each commitTs."""
        self.ddls: dict[str, set[int]] = {label: {10} for label in LABELS}
        """The commitTs of the DDL of each table."""
        self.steps = 0
        self.sent += [ddl("CREATE", 10, f"CREATE TABLE `{one.name}` (`id` INT PRIMARY KEY)", one) for one in self._all]
        self._note(10)
        for label in ("a", "b"):
            for key in FIXED:
                self._insert(label, OPENED, id=key, v=MONEY)
        self._end(OPENED)

    @property
    def _all(self) -> list[Table]:
        return [self.of[label] for label in LABELS]

    def step(self, times: int = 1) -> None:
        """Transactions."""
        for _ in range(times):
            self.steps += 1
            ts, key, opened = 100 * self.steps, FIXED[self.steps % 3], 10 + self.steps
            self._update("a", ts, key, -1)
            self._update("b", ts, key, +1)
            self._insert("moves", ts, id=self.steps, account=opened)
            self._insert("a", ts, id=opened, v=0)
            if self.steps > OPEN:
                self._delete("a", ts, opened - OPEN)
                self._delete("moves", ts, self.steps - OPEN)
            self._end(ts)

    def widen(self, label: str) -> None:
        """Add a column with a default."""
        ts, before = self._now, self.of[label]
        self.of[label] = msgspec.structs.replace(before, columns=(*before.columns, NOTE), version=ts)
        query = f"ALTER TABLE `{before.name}` ADD COLUMN `note` INT DEFAULT 7"
        self.sent.append(ddl("ALTER", ts, query, self.of[label], before))
        self.held[label] = {key: {**row, "note": 7} for key, row in self.held[label].items()}
        self.ddls[label].add(ts)
        self._end(ts)

    def rename(self, label: str, name: str) -> None:
        ts, before = self._now, self.of[label]
        self.of[label] = msgspec.structs.replace(before, name=name, version=ts)
        self.sent.append(ddl("RENAME", ts, f"RENAME TABLE `{before.name}` TO `{name}`", self.of[label], before))
        self.ddls[label].add(ts)
        self._end(ts)

    def refill(self, label: str, how: str = "truncate") -> None:
        """Empty a table, and put its rows back before the next watermark. ``drop``: by DROP and CREATE."""
        ts, before, rows = self._now, self.of[label], [*self.held[label].values()]
        after = self.of[label] = msgspec.structs.replace(before, version=ts + 2, table_id=ts)
        if how == "drop":
            self.sent.append(ddl("ERASE", ts, f"DROP TABLE `s`.`{before.name}`", before, before))
            self.sent.append(ddl("CREATE", ts + 2, f"CREATE TABLE `{after.name}` (`id` INT PRIMARY KEY)", after))
        else:
            self.sent.append(ddl("TRUNCATE", ts + 2, f"TRUNCATE TABLE `{before.name}`", after, before))
        self.held[label].clear()
        self.ddls[label].add(ts + 2)
        self._note(ts + 2)
        for row in rows:
            self._insert(label, ts + 4, **row)
        self._end(ts + 4)

    def at(self, ts: int) -> dict[str, Held]:
        """The truth at a commitTs."""
        return [tables for at, tables in self.truth if at <= ts][-1]

    def wrong(self, seen: Seen) -> str:
        """What is wrong with the tables that a reader saw at once; ``""``: nothing."""
        found = judge(*(seen.tables[label].rows for label in LABELS))
        if found and seen.commit_ts >= OPENED:
            return f"at {seen.commit_ts}: {found}"
        wanted = self.at(seen.commit_ts)
        other = [label for label in LABELS if seen.tables[label] != wanted[label]]
        return f"at {seen.commit_ts}: {[(seen.tables[one], wanted[one]) for one in other]}" if other else ""

    @property
    def _now(self) -> int:
        """A commitTs for DDL after the last step, later than that of other DDL."""
        return max(100 * self.steps, self.truth[-1][0]) + 10

    def _insert(self, label: str, ts: int, **row: int) -> None:
        row = {"note": 7} | row if len(self.of[label].columns) > 2 else row
        self.held[label][row["id"]] = row
        self.sent.append(insert(self.of[label], ts, **_text(row)))

    def _update(self, label: str, ts: int, key: int, more: int) -> None:
        before = self.held[label][key]
        after = self.held[label][key] = before | {"v": before["v"] + more}
        one = RowChange(op="update", table=self.of[label], commit_ts=ts, before=_text(before), after=_text(after))
        self.sent.append(one)

    def _delete(self, label: str, ts: int, key: int) -> None:
        row = self.held[label].pop(key)
        self.sent.append(RowChange(op="delete", table=self.of[label], commit_ts=ts, before=_text(row)))

    def _end(self, ts: int) -> None:
        self.sent.append(Watermark(ts + 1))
        self._note(ts)

    def _note(self, ts: int) -> None:
        held = {label: Held(self.of[label].name, by_id(self.held[label].values())) for label in LABELS}
        self.truth.append((ts, held))


def by_id(rows: Any) -> Rows:
    """Rows in the order of their key, as dicts of their own."""
    return sorted((dict(row) for row in rows), key=lambda row: int(row["id"]))


def _text(row: dict[str, Any]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in row.items()}


def story() -> Bank:
    """Ten steps. A column comes, a table gets another name, one is emptied and filled, and one is made anew."""
    bank = Bank()
    bank.step(2)
    bank.widen("a")
    bank.step(2)
    bank.rename("b", "b2")
    bank.step(2)
    bank.refill("a")
    bank.step(2)
    bank.refill("moves", "drop")
    bank.step(2)
    return bank


def short_story(*, names: bool = True) -> tuple[list[Change], Bank]:
    """How it begins, and the same DDL in one batch, for a target whose commits take long.

    ``names``: a table gets another name, too, and one more is emptied and filled.
    """
    bank = Bank()
    bank.step(2)
    first = [*bank.sent]
    bank.refill("moves", "drop")
    bank.widen("a")
    if names:
        bank.rename("b", "b2")
        bank.refill("a")
    bank.step()
    return first, bank


@dataclass
class Reader:
    """Reads all the time, in a thread, while its context is open.

    ``read``: gives what was found, or ``None`` where the page of the target says to begin again.
    ``wrong``: judges it.
    """

    read: Callable[[], Seen | None]
    wrong: Callable[[Seen], str]
    pause: float = 0.0
    """Between two reads, in seconds: one that goes on without a pause takes a core."""
    patience: float = 10.0
    """How long a job waits for a reader, in seconds: one that a DDL keeps waiting goes on after it."""
    found: list[str] = field(default_factory=list)
    """What was wrong."""
    times: list[int] = field(default_factory=list)
    """The commitTs of each read."""
    again: int = 0
    """How often it had to begin again."""

    def __enter__(self) -> Reader:
        self._over, self._began, self._done = threading.Event(), 0, 0
        self._changed = threading.Condition()
        self._pool = ThreadPoolExecutor(1)
        self._end = self._pool.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._end.result(60)
        self._pool.shutdown()

    def _run(self) -> None:
        try:
            while not self._over.wait(self.pause):
                with self._changed:
                    self._began += 1
                seen = self.read()
                if seen is None:
                    self.again += 1
                else:
                    self.times.append(seen.commit_ts)
                    self.found += filter(None, [self.wrong(seen)])
                with self._changed:
                    self._done = self._began
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._over.set()
                self._changed.notify_all()

    def catch_up(self) -> None:
        """Wait until a read that began after this call has ended."""
        with self._changed:
            wanted = self._began + 1
            self._changed.wait_for(lambda: self._done >= wanted or self._over.is_set(), self.patience)


def run_while_read(
    job_file: Path, reader: Reader, dies: Callable[[str], bool], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Run a job to its end, with a whole read at each point of it, dying where ``dies`` says so; returns where."""
    died: list[str] = []

    def point(name: str) -> None:
        reader.catch_up()
        if dies(name):
            died.append(name)
            raise Death(name)

    with monkeypatch.context() as patch, reader:
        patch.setattr(failpoints, "point", point)
        while True:
            try:
                assert loop.run(load_job(job_file), once=True).finished
            except Death:
                reader.catch_up()
                continue
            reader.catch_up()
            return died
