"""The source as full reads see it: a database as it is now, or as of a commit_ts, or a dump of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
import pyarrow as pa

from tests.simulator.database import Database, Key, Live, Name, State
from tests.simulator.seams import TableView
from ticdc_spark.capture.snapshot.base import TooOld, Wanted, Wave, same_columns
from ticdc_spark.capture.snapshot.typed import typed
from ticdc_spark.model import Table
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.spark.tasks import ArrowTask, Counter, SourceMoved
from ticdc_spark.spark.types import lake_columns

_KEPT_MS = 60
"""What is older is garbage-collected."""


class DatabaseView:
    """See ``capture.snapshot.base.SnapshotReader``."""

    def __init__(self, database: Database, mode: Literal["", "now", "exact", "dump"], dumped: int) -> None:
        self.database, self.exact = database, mode == "exact"
        self.fixed = dumped if mode == "dump" else None

    def _state(self, at: int | None) -> State:
        if self.fixed is not None:
            return self.database.truth_at(self.fixed)
        if at is None:
            return self.database.now
        if tso_physical_ms(self.database.ts) - tso_physical_ms(at) > _KEPT_MS:
            raise TooOld("GC life time is shorter than transaction duration")
        return self.database.truth_at(at)

    def tables(self) -> Sequence[Name]:
        return sorted(self._state(None))

    def schema(self, name: Name, at: int | None) -> Table | None:
        live = self._state(at).get(name)
        return None if live is None else msgspec.structs.replace(live.table, version=None, table_id=None)

    def estimate(self, name: Name) -> int:
        return 7

    def now(self) -> int:
        return self.database.events[-1].ts

    def wave(self, wanted: Wanted) -> Wave:
        live = self._state(wanted.at).get(wanted.name)
        if live is None:
            raise SourceMoved("the table is gone")
        if not same_columns(wanted.columns, lake_columns(live.table, live.keys, wanted.lake)):
            raise SourceMoved("it has other columns, or another key")
        places = sorted(live.rows, key=repr)
        todo = [key for key in places if repr(key) > wanted.upto]
        size = wanted.chunk_rows * wanted.parts
        chunk, done = todo[:size], len(todo) <= size
        parts = [chunk[at :: wanted.parts] for at in range(wanted.parts)]
        return Wave(
            parts=wanted.parts, read=_Read(live, parts, wanted), upto="" if done else repr(chunk[-1]), done=done
        )

    def close(self) -> None:
        return


class _Read:
    def __init__(self, live: Live, parts: list[list[Key]], wanted: Wanted) -> None:
        self.live, self.parts, self.wanted = live, parts, wanted

    def __call__(self, zeros: Counter) -> ArrowTask:
        columns = self.wanted.columns
        virtual = {column.name for column in self.live.table.columns if column.virtual}

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    rows = [self.live.rows[key] for key in self.parts[number]]
                    cells = [
                        [None if column.source in virtual else row.get(column.source) for column in columns]
                        for row in rows
                    ]
                    if cells:
                        yield typed(cells, columns, self.wanted.lake, zeros)

        return run


def is_under_way(seen: TableView | None) -> bool:
    """Whether status says that a table is read in full, or was and changed meanwhile, and so is not at the others'
    commit_ts."""
    return seen is not None and (seen.condition == "snapshot" or "read in full" in seen.detail)


__all__ = ["DatabaseView", "is_under_way"]
