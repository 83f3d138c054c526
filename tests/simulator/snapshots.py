"""The source as full reads see it: a database as it is now, or as of a commit_ts, or a dump of it.

The seam is that of ``capture.snapshot.database``: a wave is planned by the table that has the name then, and each chunk
is read in a transaction of its own, after which the table's CREATE statement must be what it was. In between, people
may do anything (``Database.meanwhile``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
import pyarrow as pa

from tests.simulator.database import Database, Live, Name, State
from tests.simulator.letters import folded
from tests.simulator.seams import TableView
from ticdc_spark.capture.snapshot.base import TooOld, Wanted, Wave, has_wanted
from ticdc_spark.capture.snapshot.kept_rows import KeptRows
from ticdc_spark.capture.snapshot.typed import typed
from ticdc_spark.ddl import Comments
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, Table
from ticdc_spark.mysql import handle_key, tso_physical_ms
from ticdc_spark.spark.tasks import MOVED, ArrowTask, Counter, SourceMoved

_KEPT_MS = 60
"""What is older is garbage-collected."""


class DatabaseView:
    def __init__(self, database: Database, mode: Literal["", "now", "exact", "dump"], dumped: int) -> None:
        self.database, self.exact = database, mode == "exact"
        self.fixed = dumped if mode == "dump" else None

    def state(self, at: int | None) -> State:
        """The tables as of a commit_ts, or now. Raises: TooOld"""
        if self.fixed is not None:
            return self.database.truth_at(self.fixed)
        if at is None:
            return self.database.now
        if tso_physical_ms(self.database.ts) - tso_physical_ms(at) > _KEPT_MS:
            raise TooOld("GC life time is shorter than transaction duration")
        return self.database.truth_at(at)

    def tables(self) -> Sequence[Name]:
        return sorted((live.table.schema, live.table.name) for live in self.state(None).values())

    def schema(self, name: Name, at: int | None) -> Table | None:
        live = self.state(at).get(folded(name))
        if live is None:
            return None
        return msgspec.structs.replace(live.table, schema=name[0], version=None, table_id=None)

    def comments(self, name: Name, at: int | None) -> Comments:
        live = self.state(at).get(folded(name))
        return Comments() if live is None else live.comments

    def identity(self, name: Name) -> str:
        """TIDB_TABLE_ID: RENAME leaves it, and what makes or empties a table changes it."""
        live = None if self.fixed is not None else self.state(None).get(folded(name))
        return "" if live is None else str(live.table.table_id)

    def estimate(self, name: Name) -> int:
        return 7

    def now(self) -> int:
        return self.database.events[-1].ts

    def wave(self, wanted: Wanted) -> Wave:
        live = self.state(wanted.at).get(folded(wanted.name))
        if live is None:
            raise SourceMoved("the table is gone")
        if not has_wanted(live.table, wanted):
            raise SourceMoved("it has other columns, or another key")
        if self.fixed is None and wanted.at is None and self.is_another(wanted):
            raise SourceMoved("another table has its name now")
        todo = sorted(place for place in map(repr, live.rows) if place > wanted.upto)
        ends = todo[wanted.chunk_rows - 1 :: wanted.chunk_rows][: wanted.parts]
        if len(ends) < wanted.parts or ends[-1] == todo[-1]:
            ends = [*ends[: wanted.parts - 1], ""]
        read = _Read(self, live, tuple(zip((wanted.upto, *ends), ends, strict=False)), wanted)
        return Wave(parts=len(ends), read=read, upto=ends[-1], done=not ends[-1])

    def is_another(self, wanted: Wanted) -> bool:
        """Whether the table that is wanted is not the one that its read began with."""
        identity: str = getattr(wanted, "identity", "")
        return bool(identity) and identity != self.identity(wanted.name)

    def rows(self, table: Table, keys: Sequence[Row], at: int | None) -> list[Row]:
        live = self.state(at).get(folded(table.full_name))
        if live is None:
            raise MessageError(f"{table.full_name} is gone")
        wanted = {tuple(key[name] for name in handle_key(table)) for key in keys}
        found = [row for row in live.rows.values() if tuple(row[name] for name in handle_key(table)) in wanted]
        if at is None:
            meanwhile, self.database.meanwhile = self.database.meanwhile, None
            if meanwhile is not None:
                meanwhile()
        return found

    def close(self) -> None:
        return


class _Read:
    def __init__(self, view: DatabaseView, live: Live, ranges: Sequence[tuple[str, str]], wanted: Wanted) -> None:
        """``ranges``: what each part lies above, and where it ends; ``""``: it has no end."""
        self.view, self.live, self.ranges, self.wanted = view, live, ranges, wanted

    def __call__(self, zeros: Counter) -> ArrowTask:
        columns, kept = self.wanted.columns, KeptRows(self.wanted, self.live.table)
        virtual = {column.name for column in self.live.table.columns if column.virtual}

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    above, end = self.ranges[number]
                    found = self._now().rows.items()
                    rows = [row for key, row in found if above < repr(key) and (not end or repr(key) <= end)]
                    cells = [[None if name in virtual else row.get(name) for name in kept.columns] for row in rows]
                    if wanted := kept.of(cells):
                        yield typed(wanted, columns, self.wanted.lake, zeros)

        return run

    def _now(self) -> Live:
        """The table in the transaction of one chunk. Raises: MessageError where it is not what it was"""
        if self.view.fixed is not None or self.wanted.at is not None:
            return self.live
        meanwhile, self.view.database.meanwhile = self.view.database.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        live = self.view.state(None).get(folded(self.wanted.name))
        if live is None:
            raise MessageError(f"{MOVED}: the table is gone")
        if (live.table.columns, live.table.indexes) != (self.live.table.columns, self.live.table.indexes):
            raise MessageError(f"{MOVED}: it was altered")
        if self.view.is_another(self.wanted):
            raise MessageError(f"{MOVED}: another table has its name now")
        return live


def is_under_way(seen: TableView | None) -> bool:
    """Whether status says that a table is read in full, or was and changed meanwhile, and so is not at the others'
    commit_ts."""
    return seen is not None and (seen.condition == "snapshot" or "read while it changed" in seen.detail)
