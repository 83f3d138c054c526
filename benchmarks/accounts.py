"""Eleven columns a table, in steady state: the rows that are there before, then changes that favour hot keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import msgspec
from tests.workload import WorkloadConfig
from tests.workload.columns import column_type

from ticdc_spark.model import Bootstrap, Change, Column, Index, Row, RowChange, SchemaChange, Table, Value, Watermark

_COLUMNS = {
    "id": "BIGINT",
    **dict.fromkeys(("branch", "owner", "kind", "state", "currency"), "VARCHAR(16)"),
    "visits": "INT",
    "score": "DOUBLE",
    "balance": "DECIMAL(20,2)",
    "seen": "DATETIME",
    "note": "VARCHAR(60)",
}
_SCATTER = 0x9E3779B97F4A7C15
_LOGICAL = 1 << 18


class AccountsConfig(msgspec.Struct, frozen=True, kw_only=True, tag="accounts"):
    """A workload. Two equal configurations give the same messages."""

    seed: int = 1
    tables: int = 4
    rows: int = 1_000_000
    """Before, in all tables together."""
    changes: int = 4_000_000
    insert_share: float = 0.2
    update_share: float = 0.7
    """The rest are deletes."""
    skew: float = 4.0
    """The row of a change has the rank u ** skew, u even in [0, 1)."""
    scattered: bool = False
    """Keys are spread over all of BIGINT, else they rise."""
    partitions: int = 2
    watermark_every: int = 100_000
    """Changes."""
    transaction: int = 1
    """Changes of one commit_ts; a watermark comes between transactions."""

    def delivery(self) -> WorkloadConfig:
        """How the events become messages."""
        return WorkloadConfig(seed=self.seed, changes=self.changes, partitions=self.partitions, topic="accounts")


class Accounts:
    """Iterates once over the events; ``rows`` has the live rows of each table, ``loaded`` is true behind those that the
    tables have before."""

    def __init__(self, config: AccountsConfig, clock: Callable[[], int] | None = None) -> None:
        """``clock``: gives each event its commit_ts; by default they lie close together."""
        self.config = config
        self._clock = clock
        self.loaded = False
        self.tables = tuple(_table(number) for number in range(config.tables))
        self.rows: list[list[Row]] = [[] for _ in self.tables]
        self._rand = Random(config.seed).random
        self._ts = 1_767_225_600_000 * _LOGICAL
        self._held: int | None = None
        """The commit_ts of the transaction that goes on."""
        self._number = 0

    def __iter__(self) -> Iterator[Change]:
        yield from self.before()
        size, every = self.config.transaction, max(self.config.transaction, self.config.watermark_every)
        for count in range(self.config.changes):
            if count % every == every - 1:
                yield Watermark(self._ts)
            self._held = None if count % size == 0 else self._held or self._ts
            yield self.change()
        self._held = None
        yield Watermark(self._tick())

    def before(self) -> Iterator[Change]:
        """The tables, and the rows that they have before."""
        yield from self._create()
        for count in range(self.config.rows):
            yield self._insert(count % len(self.tables))
        yield Watermark(self._tick())
        self.loaded = True

    def _create(self) -> Iterator[Change]:
        yield SchemaChange(commit_ts=self._tick(), query="CREATE DATABASE `bank`", kind="QUERY", schema="bank")
        for table in self.tables:
            columns = ",".join(f"`{name}` {sql}" for name, sql in _COLUMNS.items())
            query = f"CREATE TABLE `{table.name}` ({columns},PRIMARY KEY(`id`))"
            yield SchemaChange(commit_ts=self._tick(), query=query, kind="CREATE", schema="bank", table=table)
            yield Bootstrap(table)

    def _tick(self) -> int:
        if self._held is not None:
            return self._held
        if self._clock is not None:
            return self._clock()
        self._ts += _LOGICAL if self._rand() < 0.25 else 1
        return self._ts

    def change(self) -> Change:
        """The next change of a table."""
        rand, config = self._rand, self.config
        at = int(rand() * len(self.tables))
        rows, choice = self.rows[at], rand()
        if choice < config.insert_share or not rows:
            return self._insert(at)
        rank = int(rand() ** config.skew * len(rows))
        row, table = rows[rank], self.tables[at]
        if choice < config.insert_share + config.update_share:
            rows[rank] = after = self._updated(row)
            return RowChange(op="update", table=table, commit_ts=self._tick(), before=row, after=after)
        # The coldest row takes its place.
        rows[rank] = rows[-1]
        rows.pop()
        return RowChange(op="delete", table=table, commit_ts=self._tick(), before=row)

    def _insert(self, at: int) -> Change:
        self._number += 1
        number = self._number
        rand = self._rand
        key = (number * _SCATTER & 0xFFFFFFFFFFFFFFFF) - (1 << 63) if self.config.scattered else number
        row: dict[str, Value] = {
            "id": str(key),
            "branch": f"branch-{int(rand() * 900):03d}",
            "owner": f"owner{number % 100_000:05d}",
            "kind": ("current", "savings", "deposit", "credit")[int(rand() * 4)],
            "state": "open" if rand() < 0.9 else "blocked",
            "currency": ("EUR", "USD", "PLN", "CHF")[int(rand() * 4)],
            "visits": "0",
            "score": f"{int(rand() * 1000)}.5",
            "balance": f"{int(rand() * 10**7)}.{int(rand() * 100):02d}",
            "seen": _moment(rand()),
            "note": f"opened in branch {int(rand() * 900):03d} by clerk {int(rand() * 10**9):010d}",
        }
        self.rows[at].append(row)
        return RowChange(op="insert", table=self.tables[at], commit_ts=self._tick(), after=row)

    def _updated(self, row: Row) -> Row:
        rand = self._rand
        return {
            **row,
            "visits": str(int(str(row["visits"])) + 1),
            "balance": f"{int(rand() * 10**7)}.{int(rand() * 100):02d}",
            "seen": _moment(rand()),
        }


def _moment(share: float) -> str:
    second = int(share * 86400 * 28)
    day, second = divmod(second, 86400)
    return f"2026-03-{day + 1:02d} {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def _table(number: int) -> Table:
    columns = tuple(
        Column(name=name, type=column_type(sql), nullable=name != "id", default=None) for name, sql in _COLUMNS.items()
    )
    primary = Index(name="PRIMARY", unique=True, primary=True, nullable=False, columns=("id",))
    return Table(
        schema="bank",
        name=f"accounts_{number}",
        table_id=100 + number,
        version=1000 + number,
        columns=columns,
        indexes=(primary,),
    )
