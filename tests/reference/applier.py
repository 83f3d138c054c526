"""The reference applier: how messages become tables, in plain Python on dicts.

It is the executable form of the pipeline's rules and the judge of the Spark pipeline. A run goes batch by batch:
land, advance, apply, commit. ``Progress`` is what survives from batch to batch and is stored last; the ``Lake`` is
written step by step, each step with its mark. ``Applier`` is one method a rule, so that a test can break one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tests.reference.schemas import Effect, alter, effects
from tests.reference.state import Key, Lake, Landed, Mark, Name, Place, Position, Progress, Read, identity_of
from ticdc_spark.errors import LateRow, RejectedMessage, SchemaMissing, UnsupportedDdl
from ticdc_spark.model import Bootstrap, Column, Envelope, Message, Rejected, Row, SchemaChange, Table, Value, Watermark
from ticdc_spark.mysql import NO_CONSTANT, default_value, handle_key
from ticdc_spark.protocols.base import Decoder, ReadOptions


class Applier:
    """Applies messages to a lake. ``ends`` has the last offset of every partition of the (bounded) run."""

    def __init__(
        self, decoder: Decoder, options: ReadOptions, ends: dict[Place, int], *, keep_rejects: bool = False
    ) -> None:
        self.decoder, self.options, self.ends, self.keep_rejects = decoder, options, ends, keep_rejects
        self.rejects: list[str] = []
        """Reasons of the messages and rows that could not be read, with ``keep_rejects``."""
        self.progress, self.lake = Progress(), Lake()
        self.log: set[tuple[Any, ...]] = set()
        """Identities of applied rows: the change log, as far as replays need it."""
        self.at_commit: Callable[[Applier], None] = lambda _applier: None
        """Called before every commit to the lake or to the progress; raises to simulate a kill."""

    def batch(self, messages: Sequence[Message]) -> None:
        """Land, advance, apply, commit. After a kill, call it again with the same messages."""
        progress = self.progress.copy()
        for message in messages:
            self.land(progress, message)
        resolved = self.advance(progress)
        self.apply(progress, resolved)
        self.forget(progress, resolved)
        self.at_commit(self)
        self.progress = progress

    # ---- land

    def land(self, progress: Progress, message: Message) -> None:
        """Open one message into log, schemas, queue and watermarks."""
        place = (message.topic, message.partition)
        for seq, event in enumerate(self.decoder.open_message(message.key, message.value)):
            match event:
                case Rejected():
                    self.reject(f"{place} offset {message.offset}: {event.reason}")
                case Watermark():
                    self.rise(progress, place, event.commit_ts)
                case Bootstrap():
                    self.remember(progress, event.table)
                case SchemaChange():
                    self.queue(progress, event, (*place, message.offset, seq))
                case Envelope():
                    landed = Landed((*place, message.offset, seq), event)
                    if event.commit_ts > progress.applied or not self.is_replay(progress, landed):
                        progress.waiting.append(landed)
                    else:
                        progress.replays += 1
        progress.consumed[place] = max(message.offset, progress.consumed.get(place, -1))

    def reject(self, reason: str) -> None:
        """Keep what cannot be read, or stop.

        Raises: RejectedMessage.
        """
        if not self.keep_rejects:
            raise RejectedMessage(reason)
        self.rejects.append(reason)

    def rise(self, progress: Progress, place: Place, watermark: int) -> None:
        """Watermarks rise and never fall: after a restart of TiCDC older ones come again."""
        progress.watermarks[place] = max(watermark, progress.watermarks.get(place, 0))

    def remember(self, progress: Progress, table: Table) -> None:
        """Keep a schema; RENAME keeps the version, hence the name in the key."""
        progress.schemas[table.schema, table.name, str(table.version)] = table

    def queue(self, progress: Progress, change: SchemaChange, position: Position) -> None:
        """A DDL comes once a partition and again after restarts; at or below ``applied`` it is a replay."""
        for table in (change.table, change.pre_table):
            if table is not None:
                self.remember(progress, table)
        if change.commit_ts > progress.applied:
            identity = (change.commit_ts, change.query, change.schema, change.name)
            progress.ddls.setdefault(identity, change)

    def is_replay(self, progress: Progress, landed: Landed) -> bool:
        """Whether a row at or below ``applied`` was applied before; a table never seen starts from 0.

        Raises: LateRow.
        """
        envelope, place = landed.envelope, landed.position[:2]
        if envelope.commit_ts < progress.watermarks.get(place, 0) or identity_of(envelope) in self.log:
            return True
        if (envelope.schema, envelope.table) not in self.lake.marks:
            return False
        raise LateRow(f"{landed.position}: {envelope.schema}.{envelope.table} at {envelope.commit_ts}")

    # ---- advance

    def advance(self, progress: Progress) -> int:
        """The barrier: min over partitions of the watermark, minus 1; lower where a row still lacks its schema."""
        watermarks = [self.watermark(progress, place) for place in self.ends]
        resolved = max(min(watermarks, default=0) - 1, progress.applied)
        lacking = [row.envelope.commit_ts for row in progress.waiting if not self.has_schema(progress, row.envelope)]
        return max(min([resolved, *(ts - 1 for ts in lacking)]), progress.applied)

    def watermark(self, progress: Progress, place: Place) -> int:
        """A partition's watermark; one that was read to its end counts as the newest of all."""
        if progress.consumed.get(place, -1) >= self.ends[place]:
            return max(progress.watermarks.values(), default=0)
        return progress.watermarks.get(place, 0)

    def has_schema(self, progress: Progress, envelope: Envelope) -> bool:
        """Whether the row can be read; without a schema key the table's own timeline decides."""
        key = (envelope.schema, envelope.table, envelope.schema_key)
        return not envelope.schema_key or key in progress.schemas

    # ---- apply

    def apply(self, progress: Progress, resolved: int) -> None:
        """Each table's rows up to ``resolved``, cut at the DDLs that name it; each step skipped if its mark is there.

        Tables are independent, so that going from DDL to DDL over all of them gives the same.
        """
        rows = [row for row in progress.waiting if row.envelope.commit_ts <= resolved]
        ddls = self.due(progress, resolved)
        for step, change in enumerate(ddls, 1):
            rows = self.apply_rows(progress, rows, change.commit_ts)
            for effect in list(effects(change, self.lake.tables, self.lake.dropped)):
                self.apply_ddl(effect, (change.commit_ts, step))
        self.apply_rows(progress, rows, resolved)

    def due(self, progress: Progress, resolved: int) -> list[SchemaChange]:
        """DDLs to apply now, in order: those whose commit_ts every partition has passed."""
        ddls = [change for change in progress.ddls.values() if change.commit_ts <= resolved]
        return sorted(ddls, key=lambda change: change.commit_ts)

    def apply_rows(self, progress: Progress, rows: list[Landed], upto: int) -> list[Landed]:
        """Write what lies at or below ``upto``, one net change a key and table; return the rows above it."""
        tables: dict[Name, list[Landed]] = {}
        above: list[Landed] = []
        for row in rows:
            name = (row.envelope.schema, row.envelope.table)
            (tables.setdefault(name, []) if row.envelope.commit_ts <= upto else above).append(row)
        for name, due in tables.items():
            mark = self.lake.marks.get(name, (0, 0))
            due = [row for row in due if (row.envelope.commit_ts, 0) > mark]
            if due:
                self.write(progress, name, due, (upto, 0))
        return above

    def write(self, progress: Progress, name: Name, due: list[Landed], mark: Mark) -> None:
        """One commit: the net changes of a table, with its mark."""
        table, old = self.lake.tables.get(name, (None, {}))
        first = due[0].envelope
        table = table or progress.schemas.get((*name, first.schema_key))
        if table is None:
            raise SchemaMissing(f"`{name[0]}`.`{name[1]}` at {first.commit_ts}")
        rows = dict(old)
        for key, after in self.net(table, self.read(progress, table, due)).items():
            if after is None:
                rows.pop(key, None)
            else:
                rows[key] = after
        self.at_commit(self)
        self.lake.tables[name] = (table, rows)
        self.lake.marks[name] = mark
        self.log.update(identity_of(row.envelope) for row in due)

    def read(
        self, progress: Progress, table: Table, due: list[Landed]
    ) -> Iterator[tuple[Landed, Row | None, Row | None]]:
        """Read the images, each by the schema that was valid for it."""
        by_key: dict[str, list[Landed]] = {}
        for row in due:
            by_key.setdefault(row.envelope.schema_key, []).append(row)
        for schema_key, group in by_key.items():
            valid = progress.schemas[table.schema, table.name, schema_key] if schema_key else table
            reader = self.decoder.row_reader(valid, self.options)
            images = [image for row in group for image in (row.envelope.before, row.envelope.after)]
            read = reader(images)
            for reason in read.bad.values():
                self.reject(reason)
            absent = {name: set(rows) for name, rows in read.absent.items()}
            for at, row in enumerate(group):
                if {2 * at, 2 * at + 1} & read.bad.keys():
                    continue
                before, after = (
                    {
                        column.name: cells[image]
                        for column, cells in zip(valid.columns, read.values, strict=True)
                        if image not in absent.get(column.name, ())
                    }
                    for image in (2 * at, 2 * at + 1)
                )
                envelope = row.envelope
                yield row, None if envelope.before is None else before, None if envelope.after is None else after

    def net(self, table: Table, read: Iterable[Read]) -> dict[Key, Row | None]:
        """One last image a key; ``None``: deleted."""
        names = handle_key(table)

        def key_of(row: Row) -> Key:
            # without a handle key the whole row has to do; equal rows fall together
            return tuple(row[name] for name in names) if names else tuple(row.values())

        changes: list[tuple[tuple[Any, ...], Key, Row | None]] = []
        for landed, before, after in read:
            for key, image in self.expand(key_of, before, after):
                changes.append((self.order(landed, image), key, image))
        changes.sort(key=lambda change: change[0])
        return {key: image for _, key, image in changes}

    def order(self, landed: Landed, image: Row | None) -> tuple[Any, ...]:
        """What orders the changes of a key: commit_ts as a number, delete before insert, offset."""
        return landed.envelope.commit_ts, image is not None, landed.position

    def expand(
        self, key_of: Callable[[Row], Key], before: Row | None, after: Row | None
    ) -> Iterator[tuple[Key, Row | None]]:
        """A row change as (key, last image); a raw key change deletes its old key."""
        if before is not None and (after is None or key_of(before) != key_of(after)):
            yield key_of(before), None
        if after is not None:
            yield key_of(after), after

    def apply_ddl(self, effect: Effect, mark: Mark) -> None:
        """One commit: what a DDL does to one table, with the mark on every name that it touches."""
        names = {name for name in (effect.before, effect.after) if name is not None}
        if any(self.lake.marks.get(name, (0, 0)) >= mark for name in names):
            return
        self.at_commit(self)
        old = self.lake.tables.pop(effect.before, None) if effect.before else None
        if old and effect.before and not effect.after:
            self.lake.dropped[effect.before] = old[0]
        if effect.after and effect.table:
            rows = old[1] if old and effect.keep_rows else {}
            changed = {key: alter(effect, row, self.fill) for key, row in rows.items()}
            if columns := handle_key(effect.table):
                changed = {tuple(row[name] for name in columns): row for row in changed.values()}
            self.lake.tables[effect.after] = (effect.table, changed)
        self.lake.marks.update(dict.fromkeys(names, mark))

    def fill(self, column: Column) -> Value:
        """What ADD COLUMN gives to the rows that are there.

        Raises: UnsupportedDdl where only the database has it (CURRENT_TIMESTAMP).
        """
        value = default_value(column)
        if value is NO_CONSTANT:
            raise UnsupportedDdl(f"`{column.name}`: the default is no constant, and there are rows")
        return value

    def forget(self, progress: Progress, resolved: int) -> None:
        """Record what is applied; only afterwards is it not waited for any more."""
        progress.applied = resolved
        progress.waiting = [row for row in progress.waiting if row.envelope.commit_ts > resolved]
        progress.ddls = {key: change for key, change in progress.ddls.items() if change.commit_ts > resolved}


def ends_of(messages: Iterable[Message]) -> dict[Place, int]:
    """The last offset of every partition."""
    ends: dict[Place, int] = {}
    for message in messages:
        place = (message.topic, message.partition)
        ends[place] = max(message.offset, ends.get(place, -1))
    return ends


def run(
    messages: Sequence[Message],
    decoder: Decoder,
    options: ReadOptions | None = None,
    *,
    batch_size: int | None = None,
    applier: type[Applier] = Applier,
    keep_rejects: bool = False,
    schemas: Iterable[Table] = (),
) -> Applier:
    """Apply a whole recorded topic, in batches of ``batch_size`` messages in the order given.

    ``schemas``, as from a file, are for tables that no message describes.

    Raises: SchemaMissing if rows still wait for their schema at the end.
    """
    working = applier(decoder, options or ReadOptions(), ends_of(messages), keep_rejects=keep_rejects)
    working.progress.schemas = {(table.schema, table.name, ""): table for table in schemas}
    size = batch_size or max(len(messages), 1)
    for at in range(0, len(messages), size):
        working.batch(messages[at : at + size])
    lacking = [
        row.envelope for row in working.progress.waiting if not working.has_schema(working.progress, row.envelope)
    ]
    if lacking:
        raise SchemaMissing(f"`{lacking[0].schema}`.`{lacking[0].table}` version {lacking[0].schema_key}")
    return working
