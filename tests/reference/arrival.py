"""The reference in arrival mode: without watermarks each batch is applied at its end.

A hidden commit_ts and tombstones keep an older change from winning; a change without commit_ts follows the order of
offsets; a DDL waits until its copy was read from every partition of its topic, and what follows it waits with it.
Written apart from ``ticdc_spark.replicate.arrival``, which it judges.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from tests.reference.applier import Applier
from tests.reference.schemas import Effect, effects
from tests.reference.state import Key, Landed, Mark, Name, Place, Position, Progress
from ticdc_spark.model import Envelope, Row, SchemaChange
from ticdc_spark.mysql import handle_key

Waiting: TypeAlias = tuple[SchemaChange, dict[Place, int]]
"""A DDL and the offsets of its copies."""


class ArrivalApplier(Applier):
    """Applies what has arrived."""

    exact = True
    """Whether commit_ts is one, and not a millisecond (canal-json without extension)."""
    hides_deletes = False
    """Whether deletes come without commit_ts (Avro)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.held: dict[Name, dict[Key, tuple[int, int]]] = {}
        """Of each key that was ever there: its highest commit_ts, and 2 if a row came with it, 1 if a delete, 0 if
        something without commit_ts came later."""
        self.floors: dict[Name, int] = {}
        """Tables to the commit_ts of a DDL at or below which their rows are replays."""
        self.steps = 0

    # ---- land and advance

    def is_replay(self, progress: Progress, landed: Landed) -> bool:
        """Told row by row, when it is applied."""
        return False

    def queue(self, progress: Progress, change: SchemaChange, position: Position) -> None:
        """Note a DDL's copy; one that was applied is a replay."""
        identity = (change.commit_ts, change.query, change.schema, change.name)
        if identity not in progress.done:
            progress.ddls.setdefault(identity, change)
            copies = progress.copies.get(identity, {})
            progress.copies[identity] = {position[:2]: position[2], **copies}

    def advance(self, progress: Progress) -> int:
        """Nothing bounds a batch."""
        return max([progress.applied, *(row.envelope.commit_ts for row in progress.waiting)])

    def has_schema(self, progress: Progress, envelope: Envelope) -> bool:
        name = (envelope.schema, envelope.table)
        return name in self.lake.tables or (*name, "") in progress.schemas

    # ---- apply

    def apply(self, progress: Progress, resolved: int) -> None:
        rows = progress.waiting
        for change in self.due(progress, resolved):
            identity = (change.commit_ts, change.query, change.schema, change.name)
            copies = progress.copies.pop(identity)
            del progress.ddls[identity]
            progress.done.add(identity)
            # another topic's DDL does not bound the rows that wait for one of their own
            rows = self.apply_arrived(progress, rows, [(change, copies)])
            for effect in list(effects(change, self.lake.tables, self.lake.dropped)):
                self.steps += 1
                self.apply_ddl(effect, (change.commit_ts, self.steps))
        progress.waiting = self.apply_arrived(progress, rows, [])

    def queued(self, progress: Progress, row: Landed) -> list[Waiting]:
        """The DDLs of a row's topic that are not due."""
        return [
            (change, progress.copies[identity])
            for identity, change in progress.ddls.items()
            if any(topic == row.position[0] for topic, _ in progress.copies[identity])
        ]

    def due(self, progress: Progress, resolved: int) -> list[SchemaChange]:
        """DDLs whose copies were read from all partitions of their topics; a partition read to its end has no more."""
        ready = []
        for identity, change in progress.ddls.items():
            topics = {topic for topic, _ in progress.copies[identity]}
            places = {place for place in self.ends if place[0] in topics}
            unread = {place for place in places if progress.consumed.get(place, -1) < self.ends[place]}
            if not unread - progress.copies[identity].keys():
                ready.append(change)
        return sorted(ready, key=lambda change: change.commit_ts)

    def apply_arrived(self, progress: Progress, rows: list[Landed], due: list[Waiting]) -> list[Landed]:
        """Write the rows whose table is there and that follow no DDL that is ``due`` or waits; return the rest."""
        tables: dict[Name, list[Landed]] = {}
        later: list[Landed] = []
        blocked: set[tuple[Place, Name]] = set()
        for row in rows:
            name = (row.envelope.schema, row.envelope.table)
            # without a commit_ts a row stays behind what was sent before it, and what was sent after it behind it
            stays = (self.hides_deletes or not row.envelope.commit_ts) and (row.position[:2], name) in blocked
            if stays or any(
                self.follows(row, change, copies) for change, copies in [*due, *self.queued(progress, row)]
            ):
                later.append(row)
                blocked.add((row.position[:2], name))
            elif self.is_old(row, name):
                progress.replays += 1
            elif name in tables or self.has_schema(progress, row.envelope):
                tables.setdefault(name, []).append(row)
            else:
                later.append(row)
                blocked.add((row.position[:2], name))
        for name, ready in tables.items():
            self.write(progress, name, ready, self.lake.marks.get(name, (0, 0)))
        return later

    def follows(self, row: Landed, change: SchemaChange, copies: dict[Place, int]) -> bool:
        commit_ts = row.envelope.commit_ts
        if commit_ts and (self.exact or commit_ts != change.commit_ts):
            return commit_ts > change.commit_ts
        # the offset has to decide, in the row's own partition
        return row.position[2] > copies.get(row.position[:2], row.position[2])

    def is_old(self, row: Landed, name: Name) -> bool:
        """Whether a row precedes a DDL of its table: that waited for the rows before it, so this is a replay."""
        commit_ts, floor = row.envelope.commit_ts, self.floors.get(name, 0)
        if not commit_ts:
            return bool(floor) and name not in self.lake.tables
        return commit_ts <= (floor if self.exact else floor - 1)

    def write(self, progress: Progress, name: Name, due: list[Landed], mark: Mark) -> None:
        table, old = self.lake.tables.get(name) or (progress.schemas[*name, ""], {})
        rows, held = dict(old), self.held.setdefault(name, {})
        names = handle_key(table)

        def key_of(row: Row) -> Key:
            return tuple(row[name] for name in names) if names else tuple(row.values())

        for landed, before, after in self.read(progress, table, due):
            for key, image in self.expand(key_of, before, after):
                self.arrive(rows, held, key, image, landed.envelope.commit_ts)
        self.at_commit(self)
        self.lake.tables[name] = (table, rows)

    def arrive(
        self, rows: dict[Key, Row], held: dict[Key, tuple[int, int]], key: Key, image: Row | None, commit_ts: int
    ) -> None:
        """One change of one key, unless a newer one is there."""
        last = held.get(key, (0, 0))
        if commit_ts:
            # delete before insert at one commit_ts; within a millisecond only the offset decides
            new = (commit_ts, (1 if image is None else 2) if self.exact else 0)
            if new < last or (self.exact and new == last):
                return  # an equal one is a replay, whose image may be of an older schema
        else:
            new = (last[0], 0)
        held[key] = new
        if image is None:
            rows.pop(key, None)
        else:
            rows[key] = image

    def apply_ddl(self, effect: Effect, mark: Mark) -> None:
        """What is known of the keys goes with the rows; TRUNCATE, CREATE and DROP forget it."""
        held = self.held.pop(effect.before, {}) if effect.before else {}
        keys = list(self.lake.tables[effect.before][1]) if effect.before in self.lake.tables else []
        super().apply_ddl(effect, mark)
        for name in (effect.before, effect.after):
            # A replayed delete without commit_ts takes effect, so the insert behind it has to, too; it is forgotten
            # only where the rows are.
            kept = effect.keep_rows and effect.before and name == effect.after
            if name and not (kept and self.hides_deletes):
                self.floors[name] = mark[0]
        if effect.after and effect.keep_rows and effect.before:
            now = list(self.lake.tables[effect.after][1])
            moved = dict(zip(keys, now, strict=True)) if len(keys) == len(now) else {}
            self.held[effect.after] = {moved.get(key, key): known for key, known in held.items()}

    def forget(self, progress: Progress, resolved: int) -> None:
        progress.applied = resolved


class HiddenDeletes(ArrivalApplier):
    """For Avro with DDL."""

    hides_deletes = True


class Milliseconds(ArrivalApplier):
    """For canal-json without the TiDB extension."""

    exact = False
