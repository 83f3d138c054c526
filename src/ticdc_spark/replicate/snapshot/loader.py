"""Full reads between batches: begins the requested ones, and lets those that have begun advance by a wave. The tables
themselves record how far a read is; the progress follows them."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.capture.snapshot.base import SnapshotReader, TooOld
from ticdc_spark.config.job import Job, SnapshotKeys
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.shards import is_merged
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.ddl import Comments
from ticdc_spark.errors import DecisionNeeded, MessageError
from ticdc_spark.model import Table, TableName
from ticdc_spark.mysql import handle_key, keep_hidden_columns, no_key, tso_physical_ms
from ticdc_spark.replicate.apply.batch import Batch, TimelineWork
from ticdc_spark.replicate.modes.next_progress import DROPPED_KEPT_MS
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.plan.routes import stop_at_rules
from ticdc_spark.replicate.plan.spelling import by_source
from ticdc_spark.replicate.snapshot.gather import Gathering, note_rows
from ticdc_spark.replicate.snapshot.merged import MergedTables, identity_with, with_shards_read
from ticdc_spark.replicate.snapshot.steps import as_known, begin, with_states
from ticdc_spark.replicate.snapshot.wanted import (
    Fate,
    is_unexplained,
    joined,
    needs_schema,
    nothing_to_read,
    reads_unknown,
    wanted_tables,
    with_joined,
    with_known_schemas,
    with_new_shards,
    with_new_tables,
    with_partial_tables,
    with_refused,
    with_unknown_tables,
    without,
    without_passed,
)
from ticdc_spark.replicate.state.conditions import Loading
from ticdc_spark.replicate.state.progress import Progress, WantedLoad
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mark import NO_MARK

log = logging.getLogger(__name__)
Outcome: TypeAlias = Literal["worked", "waits", "idle"]
"""``waits``: the reads of some tables can begin only once the job has applied more."""


class _Look(msgspec.Struct, frozen=True):
    """What the source had."""

    table: Table | None
    """``None``: it had no such table."""
    identity: str
    rejected: int
    """How many messages the job had rejected at the time of the look."""
    at: int
    """The commit_ts of the look."""


class Found(msgspec.Struct, frozen=True):
    """What a table is at the base of its read."""

    base: int
    table: Table | None
    """``None``: the source has no such table."""
    identity: str = ""
    exact: bool = True
    """Whether it can be read as of ``base``."""


class Loader:
    """The full reads of one job. See ``docs/how-to/snapshots.md``."""

    def __init__(
        self, job: Job, keys: SnapshotKeys, sink: Sink, reader: SnapshotReader, batch: Callable[[Progress], Batch]
    ) -> None:
        """``batch``: what a commit to a table needs, for a progress."""
        self.keys, self.batch = keys, batch
        self.job, self.parallel = job, job.parallel_tables
        self._routes = compiled(job.routes)
        self.reader = MergedTables(reader, job, Progress(job=job.name))
        self._wants, self._follows = wanted_tables(keys, job), table_filter(job.tables or ["*.*"])
        self._reads = reads_unknown(keys, job, reader.fixed)
        self.gathering = Gathering(job, keys, sink, reader)
        self.forget()

    @property
    def source(self) -> SnapshotReader:
        """The source, without merged tables."""
        return self.gathering.source

    def forget(self) -> None:
        """Forget what the source has, as at the start: a user who asks for a read may have changed it."""
        self._listed = False
        self._gone: set[tuple[TableName, int]] = set()
        """Tables that the source did not have, each with the commit_ts of its last applied DDL."""
        self._looks: dict[TableName, _Look] = {}
        """The last look at each table that waits."""
        self.gathering.forget()

    def step(self, progress: Progress, save: Callable[[Progress], None], *, in_batch: bool) -> Outcome:
        """Advance the reads as far as possible now. ``save``: stores the progress.

        ``in_batch``: an interrupted batch will be done again. It must give new tables the same names as before, so the
        list of tables to read must not change.

        Raises: DecisionNeeded, SinkFault, SourceFault
        """
        before = progress
        self.reader = MergedTables(self.source, self.job, progress)
        progress = progress if in_batch else self._want(progress)
        wanted = [one for one in progress.wanted if not one.from_topic and (one.asked or not in_batch)]
        if wanted and is_resolving(progress.mode) and (progress.mode or progress.applied):
            stop_at_rules(self.job, progress)
            progress = self._begin(progress, wanted, save, in_batch=in_batch)
        loading = [table for table in progress.tables if table.load is not None and not table.load.began]
        if progress != before:
            save(progress)
        if not loading:
            waits = any(not one.from_topic for one in progress.wanted)
            return "worked" if progress != before else "waits" if waits else "idle"
        work = TimelineWork(batch=self.batch(progress), promised=progress.states())
        self.gathering.gather(progress, work, loading[: self.parallel], save)
        return "worked"

    def _is_wanted(self, schema: str, name: str) -> bool:
        """Whether a table is read without a request. A merged table is if one of its shards is."""
        if is_merged((schema, name)):
            return any(self._wants(*shard) for shard in self.reader.names_of_shards((schema, name)))
        return self._wants(schema, name)

    def _want(self, progress: Progress) -> Progress:
        if not self._listed:
            self._listed = True
            known = by_source(progress, self.source.tables())
            _stop_at_twins({name: one for name, one in known.items() if self._wants(*one)})
            wanted = [one for one in by_source(progress, self.reader.tables()).values() if self._is_wanted(*one)]
            if not wanted:
                log.warning("%s; what comes later is not read before the next start", nothing_to_read(self.keys))
            before = (one.full_name for one in progress.wanted if not (one.asked or one.from_topic))
            excluded = {name for name in before if self._follows(*name) and not self._is_wanted(*name)}
            progress = without(progress, excluded)
            # A table may have got a key since.
            progress = msgspec.structs.replace(
                progress, refused=tuple(one for one in progress.refused if one.from_topic)
            )
            progress = with_new_tables(progress, wanted, self.reader.fixed or 0)
            progress = with_new_shards(progress, filter(is_merged, wanted), self.reader.names_of_shards)
        return self.with_partial(progress)

    def with_partial(self, progress: Progress) -> Progress:
        """Want tables whose first rows were not seen. A dump has only tables that were there when it was made."""
        if not is_resolving(progress.mode):
            return progress
        progress = with_unknown_tables(progress, self._reads, self.reader.fixed or 0)
        if self.reader.fixed:
            return progress
        return with_partial_tables(progress, self._gone, self._is_wanted)

    def _begin(
        self, progress: Progress, tables: Sequence[WantedLoad], save: Callable[[Progress], None], *, in_batch: bool
    ) -> Progress:
        work = TimelineWork(batch=self.batch(progress), promised=progress.states())
        under_way = sum(table.load is not None for table in progress.tables)
        over: set[TableName] = set()
        bases: dict[TableName, int] = {}
        for wanted in tables:
            name = wanted.full_name
            if under_way >= self.parallel:
                break
            # Before the time of the dump, the table may not be the one that the dump has.
            at_dump = progress.applied >= (self.reader.fixed or 0)
            state = work.state(name)
            if name in over or (at_dump and not wanted.asked and _needs_no_read(state, name)):
                over.add(name)
                if state is not None and state.load is not None:
                    bases[name] = state.load.base  # It began just before a restart.
                continue
            together = self._found(progress, wanted, work)
            if len(together) > 1 and in_batch:
                continue  # Some of the DDLs that join them may be applied.
            ready, readable = self._with_fates(progress, together)
            if ready != progress:
                # Saved before the first commit: a job that is killed behind it must not apply these DDLs.
                progress = ready
                save(progress)
            for one, found in together.items():
                state = work.state(one)
                over.add(one)
                if found.table is None or one not in readable:
                    self._gone.add((one, 0 if state is None else state.ddl_ts))
                    continue
                if is_merged(one):
                    shards = self.reader.shards(one, found.base if found.exact else None)
                    if not wanted.asked and _has_all(progress, state, shards):
                        continue
                    work.batch.where(found.table, shards)
                    found = msgspec.structs.replace(found, identity=identity_with(found.identity, shards))
                    # Saved before the next commit: a job that is killed behind it would forget them.
                    progress = with_shards_read(progress, one, shards)
                    save(progress)
                self._begin_one(progress, work, one, found)
                bases[one] = found.base
                under_way += 1
        # The lake may have other tables as an interrupted batch left them. That does not belong in the progress.
        work.known = {name: state for name, state in work.known.items() if state is not None and state.load is not None}
        return without_passed(without(with_states(progress, work), over), bases)

    def _found(self, progress: Progress, wanted: WantedLoad, work: TimelineWork) -> Mapping[TableName, Found]:
        """A table, and the tables that must be read with it at the same base; empty: they must wait.

        Raises: DecisionNeeded

        A waiting DDL such as a RENAME joins tables: behind the read of one, it would make another one of it. Once all
        are read, nothing needs the DDL any more. A quarantined table among them is only read if a person asks.
        """
        name = wanted.full_name
        base = self._base(progress, work.state(name), work, name)
        if base is None:
            return {}
        # A shard is the model of a CREATE TABLE … LIKE only: its own DDLs name the merged table.
        names = {one for one in joined(progress, name, base) if is_merged(one) or not self._routes.merged(one)}
        others = [one for one in progress.tables if one.full_name in names - {name}]
        if any(one.applied > base for one in others):
            names = {name}  # A DDL that came late. The dump is older than what these tables have.
        elif any(one.load is not None or (one.is_quarantined and not wanted.asked) for one in others):
            return {}
        found = {one: self.found_at(progress, one, base, work) for one in sorted(names)}
        ready = {one: there for one, there in found.items() if there is not None}
        if len(ready) < len(found):
            return {}
        for one, there in ready.items():
            if there.table is None and self._fate_of(one) == "gone" and is_unexplained(progress, one, base):
                raise DecisionNeeded(self._not_there(one, is_joined=len(names) > 1))
        return ready

    def _with_fates(
        self, progress: Progress, together: Mapping[TableName, Found]
    ) -> tuple[Progress, Collection[TableName]]:
        """The progress before the read of tables that DDLs join, and those of them that can be read."""
        readable = {one for one, found in together.items() if self._is_readable(one, found)}
        unread = {one: found for one, found in together.items() if one not in readable}
        there = {
            one: found.table
            for one, found in unread.items()
            if found.table is not None and needs_schema(progress, one, found.base)
        }
        if there and self.job.no_key != "skip":
            why = f"`{'`.`'.join(min(there))}` has no key; once it has one, restart the job"
            for name in sorted(together):
                progress = with_refused(progress, name, why, from_topic=False)
            return progress, ()
        if len(together) < 2 and not there and all(found.table is not None for found in together.values()):
            return progress, readable
        base = max(found.base for found in together.values())
        fates: dict[TableName, Fate] = dict.fromkeys(together, "read")
        fates |= {one: "excluded" if found.table is not None else self._fate_of(one) for one, found in unread.items()}
        return with_known_schemas(with_joined(progress, base, fates), there, base), readable

    def _not_there(self, name: TableName, *, is_joined: bool) -> str:
        snapshot = "If only its rows from before may be missing, exclude it with `tables` under [snapshot]"
        where = f"the dump {self.keys.path}" if self.reader.fixed else "the database under [snapshot]"
        return (
            f"`{name[0]}`.`{name[1]}`: its messages come, but {where} does not show it, and no DROP or RENAME of it "
            "came. Let the user of the database read the table (SELECT), or exclude it with `tables` under [job]. "
            f"{'A waiting DDL joins it with another table' if is_joined else snapshot}"
        )

    def _fate_of(self, name: TableName) -> Fate:
        """Of a table that is not read."""
        return "gone" if is_merged(name) or self._follows(*name) else "excluded"

    def _is_readable(self, name: TableName, found: Found) -> bool:
        """Raises: DecisionNeeded where a table without a key stops the job"""
        if found.table is None:
            why = "the source does not have this table (any more)"
            why = why if self._fate_of(name) == "gone" else "`tables` under [job] excludes it"
            log.warning("`%s`.`%s`: %s; nothing is read", *name, why)
            return False
        if handle_key(found.table) or (found.exact and self._counts(name)):
            return True
        if self.job.no_key == "stop":
            raise no_key(f"`{name[0]}`.`{name[1]}`", "[snapshot] or [job]")
        log.warning("`%s`.`%s` has no key: it is not read in full", *name)
        return False

    def _begin_one(self, progress: Progress, work: TimelineWork, name: TableName, found: Found) -> None:
        base, table = found.base, found.table
        assert table is not None, "it is readable"
        token = f"{progress.batch}.{base}.{work.mark(name)[1]}"
        # Messages that could not be read marked the tables that were known, perhaps without this one.
        lacks = progress.counters.rejected > 0 and self.reader.fixed is not None
        load = Loading(base=base, token=token, exact=found.exact, identity=found.identity)
        begin(work, name, table, load, self._comments(name, found), lacks=lacks)
        log.info("`%s`.`%s`: a full read begins, at %d", *name, base)
        note_rows(work, name, LoadNote(token=""), self.reader.estimate(name))
        self._looks.pop(name, None)

    def _comments(self, name: TableName, found: Found) -> Comments:
        try:
            return self.reader.comments(name, found.base if found.exact else None)
        except (TooOld, MessageError) as error:
            log.warning("`%s`.`%s` gets no comments: %s", *name, error)
            return Comments()

    def _counts(self, name: TableName) -> bool:
        """Whether the job counts the rows of a table if it has no key. Such a table can be read in full only as of one
        commit_ts: from a read of the present, the feed would bring the latest rows a second time."""
        return self.job.no_key == "apply" and not is_merged(name)

    def _base(self, progress: Progress, state: TableState | None, work: TimelineWork, name: TableName) -> int | None:
        """Where a table can begin now; ``None``: nowhere yet."""
        applied, at = progress.applied, self.reader.fixed
        if at is None:
            return None if not applied or work.mark(name)[0] > applied else applied
        # Also if a user has dropped the table in the target: the job has consumed its changes since the dump.
        if state is not None and state.applied > at and not (state.is_gone and work.mark(name) == NO_MARK):
            raise DecisionNeeded(
                f"`{name[0]}`.`{name[1]}` is at {state.applied}, and the dump {self.keys.path} is of {at}: its changes "
                "since then are applied. Take a newer dump, or name a database with `upstream` under [snapshot]"
            )
        return at if applied >= at else None

    def found_at(self, progress: Progress, name: TableName, base: int, work: TimelineWork) -> Found | None:
        """What a table is at ``base``; ``None``: not known yet. Raises: as ``step``"""
        if self._fate_of(name) == "excluded":
            return Found(base, None)
        state = work.state(name)
        if self._base(progress, state, work, name) != base:
            return None
        if self.reader.fixed is not None:
            table = None if _may_be_dropped(progress, state, base) else self._asked(name, base)
            return Found(base, table and as_known(table, state, work))
        # What the job has read, and perhaps skipped, is older than the source's present. If the source's schema is not
        # the lake's, its DDL comes before this moment, or was never sent.
        look = self._look(progress, name, 0 if state is None else state.ddl_ts)
        if look is None or base < look.at:
            return None
        table, exact = look.table, self.reader.exact
        if exact:
            try:
                table = self._asked(name, base)
            except TooOld as error:
                if table is not None and not handle_key(table) and self._counts(name):
                    return None  # A later base will do.
                log.warning("`%s`.`%s` as of %d: %s; it is read as it is now", *name, base, error)
                exact = False
        if table is None:
            return Found(base, None)
        if is_merged(name):
            before = None if state is None else state.table
            table = table if before is None else keep_hidden_columns(table, before)
        else:
            table = as_known(table, state, work)
        return Found(base, table, look.identity, exact)

    def _look(self, progress: Progress, name: TableName, ddl_ts: int) -> _Look | None:
        """The look since which the source has had the same table; ``None``: it begins now.

        ``ddl_ts``: of the last DDL that was applied to the table. A newer DDL than the look may have brought another
        table, and a later one taken it away again.
        """
        before = self._looks.get(name)
        same = (self._asked(name, None), self.reader.identity(name), progress.counters.rejected)
        if before is not None and (before.table, before.identity, before.rejected) == same and ddl_ts <= before.at:
            return before
        self._looks[name] = _Look(*same, at=self.reader.now())
        return None

    def _asked(self, name: TableName, at: int | None) -> Table | None:
        try:
            return self.reader.schema(name, at)
        except MessageError as error:
            cure = "one of them with `tables` under [job]" if is_merged(name) else "it with `tables` under [snapshot]"
            raise DecisionNeeded(f"`{name[0]}`.`{name[1]}` cannot be read in full: {error}. Exclude {cure}") from error


def _has_all(progress: Progress, state: TableState | None, shards: Sequence[Table]) -> bool:
    """Whether the rows of all shards came with their CREATE TABLE, or were read before."""
    known = {one.table.full_name for one in progress.shards}
    return _was_read(state) and known >= {one.full_name for one in shards}


def _needs_no_read(state: TableState | None, name: TableName) -> bool:
    """Whether a read had begun before a restart, or the table came with its CREATE TABLE meanwhile, or was read."""
    if state is not None and state.load is not None:
        return True
    return _was_read(state) and not is_merged(name)  # which may lack a shard


def _was_read(state: TableState | None) -> bool:
    return state is not None and (state.is_clean or state.origin == "snapshot")


def _stop_at_twins(names: Mapping[TableName, TableName]) -> None:
    """Stop if a source has two tables of one name. ``names``: the source's names, each with the job's name.

    Raises: DecisionNeeded
    """
    first: dict[TableName, TableName] = {}
    for name, one in names.items():
        if (other := first.setdefault(one, name)) != name:
            raise DecisionNeeded(
                f"`{other[0]}`.`{other[1]}` and `{name[0]}`.`{name[1]}` at the source differ only in upper and lower "
                "case. The job compares names without case, as TiDB does. Rename one of them at the source, or exclude "
                "both with `tables` under [job]"
            )


def _may_be_dropped(progress: Progress, state: TableState | None, at: int) -> bool:
    """Whether the job has applied a DDL that dropped or renamed a table of a dump, or may have and does not remember.
    ``at``: the commit_ts of the dump."""
    if state is None:
        return tso_physical_ms(progress.applied) - tso_physical_ms(at) >= DROPPED_KEPT_MS
    return state.is_gone and state.ddl_ts > at
