"""A consumer as pipeline.md has it: what it ends with, and what it must never meet."""

from random import Random

from tests.changefeed.history import Tables
from tests.changefeed.world import Record, World, Wrong
from ticdc_spark.changefeed.actions import Place
from ticdc_spark.model import RowChange, SchemaChange, Table


class Consumer:
    """Reads the partitions of a world, one record at a time, in any order among them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._watermarks = dict.fromkeys(world.logs, 0)
        self._at_end: set[Place] = set()
        self._applied = 0
        self._rows: list[RowChange] = []
        self._ddls: dict[int, SchemaChange] = {}
        self._seen: set[int] = set()
        self._last: dict[Place, tuple[int, int]] = {}
        self._schemas: dict[Place, set[Table]] = {}
        self.tables: Tables = {table.name: {} for table in world.history.first.tables}

    def read(self, seed: int) -> None:
        """Read everything, and apply what the watermarks allow."""
        rand = Random(seed)
        logs = {place: iter(log) for place, log in self._world.logs.items()}
        while logs:
            place = rand.choice([*logs])
            for _ in range(rand.randint(1, 8)):
                record = next(logs[place], None)
                if record is None:
                    del logs[place]
                    self._at_end.add(place)
                    break
                self._take(place, record)
            self._advance()

    def _take(self, place: Place, record: Record) -> None:
        what = record.what
        if isinstance(what, int):
            if what < self._watermarks[place]:
                raise Wrong(f"watermarks of {place} go back to {what}")
            self._watermarks[place] = what
        elif isinstance(what, Table):
            self._schemas.setdefault(place, set()).add(what)
        else:
            if what.commit_ts < self._watermarks[place]:
                raise Wrong(f"{place}: {what.commit_ts} after the watermark {self._watermarks[place]}")
            life, ts = self._last.get(place, (0, 0))
            if life == record.life and what.commit_ts < ts:
                raise Wrong(f"{place}: {what.commit_ts} after {ts}")
            self._last[place] = (record.life, what.commit_ts)
            if isinstance(what, RowChange):
                self._row(place, record.life, what)
            else:
                self._ddl(place, what)

    def _row(self, place: Place, life: int, row: RowChange) -> None:
        self._check_schema(place, row.table)
        if id(row) in self._seen:
            return
        self._seen.add(id(row))
        if row.commit_ts <= self._applied:
            raise Wrong(f"a row at {row.commit_ts} is late: everything up to {self._applied} is applied")
        self._rows.append(row)

    def _check_schema(self, place: Place, table: Table) -> None:
        """Where BOOTSTRAP is sent, the version of a row's table is known before the row, in its own partition."""
        bootstrap = self._world.bootstrap
        if bootstrap is None or not bootstrap.to_all_partitions:
            return
        if table not in self._schemas.get(place, ()):
            raise Wrong(f"{place}: a row of {table.name}, version {table.version}, without its schema")

    def _ddl(self, place: Place, ddl: SchemaChange) -> None:
        if ddl.table is not None:
            self._schemas.setdefault(place, set()).add(ddl.table)
        if ddl.commit_ts > self._applied:
            self._ddls[ddl.commit_ts] = ddl

    def _advance(self) -> None:
        busy = [ts for place, ts in self._watermarks.items() if place not in self._at_end]
        resolved = (min(busy) if busy else max(self._watermarks.values())) - 1
        due: list[RowChange | SchemaChange] = [row for row in self._rows if row.commit_ts <= resolved]
        self._rows = [row for row in self._rows if row.commit_ts > resolved]
        due += [ddl for ts, ddl in self._ddls.items() if ts <= resolved]
        self._ddls = {ts: ddl for ts, ddl in self._ddls.items() if ts > resolved}
        for event in sorted(due, key=_order):
            if isinstance(event, RowChange):
                self._apply(event)
            else:
                self._alter(event)
        self._applied = max(self._applied, resolved)

    def _apply(self, row: RowChange) -> None:
        rows = self.tables.get(row.table.name)
        image = row.after or row.before or {}
        key = str(image["id"])
        if rows is None or (key in rows) != (row.op != "insert"):
            raise Wrong(f"{row.op} of {row.table.name}, id {key} at {row.commit_ts} does not fit what was applied")
        if row.after is None:
            del rows[key]
        else:
            rows[key] = next(value for name, value in row.after.items() if name != "id")

    def _alter(self, ddl: SchemaChange) -> None:
        before, after = ddl.pre_table, ddl.table
        if before is None:
            assert after is not None
            self.tables[after.name] = {}
        elif after is None:
            del self.tables[before.name]
        else:
            self.tables[after.name] = self.tables.pop(before.name)


def _order(event: RowChange | SchemaChange) -> tuple[int, int]:
    return event.commit_ts, (event.op != "delete") if isinstance(event, RowChange) else 2
