"""Gathers the rows of full reads: reads a wave of chunks of each table, and brings in the tables that are complete."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.capture.snapshot.base import SnapshotReader, TooOld, Wanted, Wave
from ticdc_spark.config.job import Job, SnapshotKeys
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.shards import is_merged
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import TableName
from ticdc_spark.mysql import HIDDEN_NAMES, handle_key
from ticdc_spark.replicate.apply.batch import Batch, TimelineWork
from ticdc_spark.replicate.apply.look import missing_columns, vanished
from ticdc_spark.replicate.snapshot.merged import Merged, wave_of_shards
from ticdc_spark.replicate.snapshot.steps import bring_in, give_up, with_states
from ticdc_spark.replicate.state.conditions import Loading
from ticdc_spark.replicate.state.progress import Counters, Progress, WantedLoad
from ticdc_spark.replicate.state.table import TableState, gather
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mark import NO_MARK
from ticdc_spark.spark.decode.versions import fill_of
from ticdc_spark.spark.tasks import SourceMoved, UnreadableRows
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)


class Gathering:
    """The full reads of a job that have begun."""

    def __init__(self, job: Job, keys: SnapshotKeys, sink: Sink, source: SnapshotReader) -> None:
        self._job, self._keys, self._sink, self.source = job, keys, sink, source
        self._routes = compiled(job.routes)
        self._asking = Lock()
        """Held to ask the source, which serves one thread, while several tables are gathered."""
        self.forget()

    def forget(self) -> None:
        """Forget what the source has, as at the start."""
        self._stale: set[str] = set()
        """Reads whose base the database has garbage-collected."""

    def gather(
        self, progress: Progress, work: TimelineWork, tables: Sequence[TableState], save: Callable[[Progress], None]
    ) -> None:
        """Read a wave of each table. Raises: DecisionNeeded, SinkFault, SourceFault"""
        waves: list[tuple[TableState, LoadNote, Wave]] = []
        complete: list[tuple[TableName, LoadNote]] = []
        moved: dict[TableName, str] = {}
        for promised in tables:
            name = promised.full_name
            state = work.state(name)
            if state is None or state.load is None:
                continue  # it was brought in before a restart
            if work.mark(name) == NO_MARK:
                raise DecisionNeeded(vanished(self._job, name))
            note = self._gathered(name, state.load)
            try:
                self._stop_if_columns_are_gone(work, state)
                if note.done:
                    complete.append((name, note))
                else:
                    waves.append((state, note, self._wave(work, state, note)))
            except SourceMoved as error:
                moved[name] = str(error)
        with ThreadPoolExecutor(max(1, len(waves)), "load") as pool:
            for state, done in zip(
                (wave[0] for wave in waves), pool.map(lambda one: self._load(progress, work, *one), waves), strict=True
            ):
                name = state.full_name
                if isinstance(done, str):
                    moved[name] = done
                    continue
                note_rows(work, name, done)
                if done.done:
                    complete.append((name, done))
        if moved:
            # Saved before the next commit: a job that is killed behind it would forget to read them again.
            again = tuple(WantedLoad(schema=schema, name=name, asked=True) for schema, name in moved)
            progress = msgspec.structs.replace(progress, wanted=(*progress.wanted, *again))
            save(progress)
        for name, why in moved.items():
            log.warning("`%s`.`%s`: its full read ends and starts over: %s", *name, why)
            give_up(work, name)
        for name, note in complete:
            bring_in(work, name, note)
            log.info("`%s`.`%s`: %d rows are read and brought in", *name, note.rows)
        read = Counters(
            rows=sum(note.rows for _, note in complete), zero_dates=sum(note.zero_dates for _, note in complete)
        )
        save(msgspec.structs.replace(with_states(progress, work, self._sink), counters=progress.counters + read))

    def _gathered(self, name: TableName, load: Loading) -> LoadNote:
        """How far a read is; it begins to gather where it has not. Raises: SinkFault"""
        note = self._sink.load_note(name)
        if note is None or note.token != load.token:
            note = LoadNote(token=load.token)
            self._sink.begin_load(name, note)
        return note

    def _stop_if_columns_are_gone(self, work: TimelineWork, state: TableState) -> None:
        if missing_columns(self._columns(work, state), self._sink.columns(state.full_name)):
            raise SourceMoved("another writer dropped or renamed columns of it in the target")

    def _columns(self, work: TimelineWork, state: TableState) -> tuple[LakeColumn, ...]:
        """What is read of a table: no query gives TiDB's hidden columns."""
        assert state.table is not None, "its read is under way"
        return tuple(column for column in work.batch.columns(state.table) if column.source not in HIDDEN_NAMES)

    def _wave(self, work: TimelineWork, state: TableState, note: LoadNote) -> Wave:
        load, name = state.load, state.full_name
        assert load is not None, "its read is under way"
        columns = self._columns(work, state)
        sources = frozenset(column.source for column in columns)
        wanted = Wanted(
            name=name,
            columns=columns,
            left_out=frozenset(column.name for column in state.table.columns) - sources if state.table else frozenset(),
            where=work.batch.where(state.table) if state.table else "",
            computed=state.computed,
            lake=work.batch.lake,
            at=load.base if load.exact and load.token not in self._stale else None,
            upto=note.upto,
            chunk_rows=self._keys.chunk_rows,
            parts=self._keys.parallelism,
            identity=load.identity,
        )
        try:
            return self._wave_of(work.batch, state, wanted)
        except TooOld as error:
            if state.table is None or not handle_key(state.table):
                raise SourceMoved(f"as of {load.base}: {error}") from error
            log.warning("`%s`.`%s` as of %d: %s; the rest is read as it is now", *name, load.base, error)
            self._stale.add(load.token)
            return self._wave_of(work.batch, state, msgspec.structs.replace(wanted, at=None))

    def _wave_of(self, batch: Batch, state: TableState, wanted: Wanted) -> Wave:
        if not is_merged(wanted.name):
            return self.source.wave(wanted)
        assert state.table is not None, "its read is under way"
        # The source says defaults in UTC.
        options = msgspec.structs.replace(batch.read_options(), default_timezone=None)
        merged = Merged(
            table=state.table,
            origin=self._routes.origin(wanted.name),
            columns_of=batch.columns,
            filled=lambda column: fill_of(column, options),
        )
        return wave_of_shards(self.source, wanted, merged)

    def _load(
        self, progress: Progress, work: TimelineWork, state: TableState, before: LoadNote, wave: Wave
    ) -> LoadNote | str:
        """Gather a wave; a text: why the table is not what it was."""
        name, load = state.full_name, state.load
        assert load is not None, "its read is under way"
        # A shard that was dropped behind the base, and before the shards were listed, is not read.
        exact = load.exact and load.token not in self._stale and not is_merged(name)

        def note(rows: int, zeros: int) -> LoadNote:
            return msgspec.structs.replace(
                before,
                upto=wave.upto,
                rows=before.rows + rows,
                zero_dates=before.zero_dates + zeros,
                settles=before.settles if exact else max(before.settles, self.upper(progress)),
                done=wave.done,
            )

        try:
            done = self._sink.load(name, self._columns(work, state), wave.read, wave.parts, note)
        except SourceMoved as moved:
            return str(moved)
        except UnreadableRows as error:
            raise DecisionNeeded(
                f"`{name[0]}`.`{name[1]}` cannot be read in full: {error}. Correct the value at the source, or exclude "
                "the table with `tables` under [snapshot]"
            ) from error
        failpoints.point("gather")
        return done

    def upper(self, progress: Progress) -> int:
        """A commit_ts that everything read so far is at or below. Raises: SourceFault"""
        marks = [one.watermark - 1 for one in progress.partitions]
        with self._asking:
            now = self.source.now()
        return max(now, progress.newest, *marks, 0)


def note_rows(work: TimelineWork, name: TableName, note: LoadNote, expected: int | None = None) -> None:
    """Put the number of gathered rows into the state of a table. ``expected``: an estimate of all rows."""
    state = work.state(name)
    assert state is not None, "its read is under way"
    work.put(gather(state, note.rows, expected))
