"""Decide from the events of a batch how far tables may go, and which DDLs are due."""

import logging
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from ticdc_spark.config.histories import histories
from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.config.values import ModeName, OnReject
from ticdc_spark.errors import EnvironmentFault, RejectedMessage, UsageError
from ticdc_spark.model import SchemaChange, TableName
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.apply.rejects import ways_out
from ticdc_spark.replicate.letters import Letters
from ticdc_spark.replicate.missed import (
    MissedMessage,
    lacking_until,
    mark_known,
    note_excluded,
    skipped,
    unreadable,
    without_excluded,
)
from ticdc_spark.replicate.modes.base import Advanced, Rules, ScannedBatch, SchemaWaits
from ticdc_spark.replicate.modes.choose import MODES, as_read, hides, refuse_hidden
from ticdc_spark.replicate.modes.filters import at_the_filter, judge_left_out, leave_out, names_left_out, skip_to_known
from ticdc_spark.replicate.modes.late_rows import add_late_rows
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.modes.waiting import held_by_schemas, schema_needs
from ticdc_spark.replicate.modes.watermark import due
from ticdc_spark.replicate.plan.catch_up import bounds_of_late, waits_for_schema
from ticdc_spark.replicate.plan.ddl_actions import ENTERS, LEAVES, UNCERTAIN, is_of_partitions
from ticdc_spark.replicate.plan.merging import by_source, with_dropped_shards
from ticdc_spark.replicate.plan.names import model_of, tables_of
from ticdc_spark.replicate.plan.parked import parks
from ticdc_spark.replicate.plan.policy import Stop, first_stop, is_skipped
from ticdc_spark.replicate.plan.routes import NEEDS_WATERMARKS, stop_at_rules, with_hidden_partitions
from ticdc_spark.replicate.plan.timeline import identity
from ticdc_spark.replicate.plan.waiting_names import of_databases, with_topics_of_tables
from ticdc_spark.replicate.resources import Resources, RunEnd
from ticdc_spark.replicate.schemas.sql_ddl import SchemaRules, is_newer, named_after, with_schemas
from ticdc_spark.replicate.schemas.upstream import add_upstream_charsets, add_upstream_schemas
from ticdc_spark.replicate.skips import STAGE, left_out_places, skipped_of
from ticdc_spark.replicate.snapshot.wanted import reads_unknown
from ticdc_spark.replicate.state.progress import KnownSchema, Plan, Progress, QueuedDdl
from ticdc_spark.spark.decode.control import Reject, reject_of

log = logging.getLogger(__name__)
_ANY_TIME = 2**63 - 1


def _may_come(progress: Progress) -> Callable[[TableName, int], bool]:
    """Return a function: whether the job may not have read all DDLs of a table up to a commit_ts."""
    read_upto, late = _read_upto(progress), bounds_of_late(progress)

    def may_come(name: TableName, commit_ts: int) -> bool:
        return (read_upto is not None and commit_ts > read_upto) or commit_ts > late.get(name, commit_ts)

    return may_come


def _read_upto(progress: Progress) -> int | None:
    """The commit_ts up to which every partition that is not idle was read; ``None``: there are no watermarks."""
    if not is_resolving(progress.mode) or not any(state.watermark for state in progress.partitions):
        return None
    return min((state.watermark for state in progress.partitions if not state.idle), default=None)


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch will do."""

    mode: ModeName | None
    """``None`` until messages show it."""
    advanced: Advanced
    resolved: int
    ddls: list[QueuedDdl]
    """The due ones, in order, with their schemas."""
    refused: QueuedDdl | None
    """The first DDL that stops the job. The batch ends just before it."""
    stop: Stop | None = None
    """Why it stops the job."""
    missed: tuple[MissedMessage, ...] = ()
    """Messages that the batch does not apply."""
    on_reject: OnReject | Literal[""] = ""
    """The policy applied to messages that cannot be read; ``""``: there were none."""


class Decider:
    """The rules of one job. Keeps no state between calls."""

    def __init__(self, job: Job, letters: Letters, resources: Resources, protocol: str, end: RunEnd) -> None:
        self.job = job
        self.letters = letters
        self.sink, self.registry = resources.sink, resources.registry
        self.protocol = protocol
        self.end = end
        self._skips_to_known = skip_to_known(job.schema.skip_to_known)
        self._is_included = table_filter(job.tables)
        reader, keys = resources.reader, job.snapshot
        self._reads = None if reader is None or keys is None else reads_unknown(keys, job, reader.fixed)

    def decide(
        self, progress: Progress, mode: ModeName | None, scanned: ScannedBatch, plan: Plan | None, now: float
    ) -> Decided:
        """Fold the events of a batch into the progress. ``plan``: of an interrupted try of this batch.

        Raises: RejectedMessage, LateRow, DecisionNeeded, EnvironmentFault, SinkFault, SourceFault, RegistryFault
        """
        rules = Rules(
            idle_timeout=self.job.idle_partition_timeout,
            bounded=self.end.bounded,
            until_ts=self.end.until_ts,
            now=now,
            floor=0 if plan is None else plan.resolved,
        )
        controls, skipped_messages = skipped_of(scanned.controls)
        filtered = msgspec.structs.replace(scanned, controls=leave_out(controls, self.job.tables))
        mode, advanced = self._advance(progress, mode, filtered, rules)
        tables = judge_left_out(advanced.progress.tables, self.job.tables, progress.shards)
        # Queued DDLs, too: `tables` may change before they are due, and rows after them were already filtered by it.
        ddls = self._judge_queue(advanced.progress)
        judged = msgspec.structs.replace(advanced.progress, tables=tables, ddls=ddls)
        judged = note_excluded(judged, self.job.tables, names_left_out(controls, self.job.tables))
        judged = without_excluded(judged, self.job.tables)
        advanced = msgspec.structs.replace(advanced, progress=judged)
        # Tables may already have what the policy of the first try made of them.
        on_reject = (plan.on_reject if plan is not None else "") or self.job.on_reject
        databases = of_databases(progress)
        noted = with_topics_of_tables(advanced.progress, controls)
        noted = msgspec.structs.replace(noted, mode=mode or "", left_out=left_out_places(progress, skipped_messages))
        advanced = msgspec.structs.replace(advanced, progress=noted)
        missed = [skipped(event) for event in skipped_messages]
        if skipped_messages:
            self.letters.keep(scanned.number, STAGE, [reject_of(event) for event in skipped_messages], now)
        if advanced.rejects:
            self._keep_rejects(scanned.number, advanced.rejects, now, on_reject)
            missed += [unreadable(one, quarantine=on_reject == "quarantine") for one in advanced.rejects]
        marked = mark_known(advanced.progress, missed, databases)
        advanced = msgspec.structs.replace(advanced, progress=marked)
        if advanced.late:
            advanced = add_late_rows(self.job, self.letters.rows, scanned, progress, advanced)
        resolved = max(advanced.resolved, rules.floor)
        if plan is not None and not is_resolving(mode):
            resolved = plan.resolved
        waits = waits_for_schema(advanced.progress)
        due = self._due(advanced.progress, resolved, mode)
        found = self._first_stop(advanced.progress, [ddl for ddl in due if not waits(ddl)])
        refused = None if found is None else found[0]
        if refused is not None:
            resolved = min(resolved, refused.change.commit_ts - 1)
            if is_resolving(mode):
                # A table that a later DDL creates or renames is not there yet.
                resolved, _ = held_by_schemas(schema_needs(advanced.progress, self._waits()), resolved)
                resolved = max(resolved, progress.applied)
            # A late DDL is below the applied commit_ts and waits there: its tables do not go past it.
            due = [ddl for ddl in self._due(advanced.progress, resolved, mode) if ddl != refused]
        stop_at_rules(self.job, advanced.progress, [ddl for ddl in due if not is_skipped(self.job, ddl.change)])
        # A DDL that waits for a schema must not keep the one that it would get now, unless a model gives it.
        queued = {identity(ddl.change): ddl for ddl in advanced.progress.ddls}
        has_model = _has_model(advanced.progress)
        return Decided(
            mode=mode,
            advanced=advanced,
            resolved=resolved,
            ddls=[queued.get(identity(ddl.change), ddl) if waits(ddl) and not has_model(ddl) else ddl for ddl in due],
            refused=refused,
            stop=None if found is None else found[1],
            missed=tuple(missed),
            on_reject=on_reject if advanced.rejects else "",
        )

    def _waits(self, registered: Sequence[KnownSchema] | None = None) -> SchemaWaits:
        return SchemaWaits(self._skips_to_known, self._named_after, self._is_kept, self._reads, registered)

    def _is_kept(self, drop: SchemaChange) -> bool:
        return self._keeps(drop) or is_skipped(self.job, drop)

    def _named_after(self, ddls: Sequence[QueuedDdl]) -> frozenset[TableName]:
        return named_after(ddls, self._is_kept)

    def _keeps(self, drop: SchemaChange) -> bool:
        of, shaped = self.job.ddl.of, histories(self.job.histories)
        return any(
            of(name).drop_table == "keep" or parks(self.job, name) or shaped.of(name) is not None
            for name in tables_of(drop)
        )

    def check_mode(self, mode: ModeName | None) -> None:
        """Log the mode. Raises: UsageError when the run has an option that the mode does not support"""
        if not is_resolving(mode):
            log.warning(
                "mode %s: %s without watermarks. Tables follow the messages; while changes come, they equal the source "
                "at no known commitTs",
                mode,
                self.protocol,
            )
            if self.end.until_ts is not None:
                raise UsageError(f"--until-ts needs watermarks, and this job has none (mode {mode})")
            for section, is_there in (("[snapshot]", self.job.snapshot), ("[[history]]", self.job.histories)):
                if is_there:
                    raise UsageError(
                        f"{self.job.file}: {section} needs watermarks, and this job has received none (mode {mode}). "
                        "Remove the section, or let the changefeed send watermarks (enable-tidb-extension=true). If "
                        'they come later, set mode = "watermark" under [job]'
                    )
            if compiled(self.job.routes).merges:
                raise UsageError(f"{self.job.file}: {NEEDS_WATERMARKS}")

    def _advance(
        self, progress: Progress, mode: ModeName | None, scanned: ScannedBatch, rules: Rules
    ) -> tuple[ModeName | None, Advanced]:
        controls, end_offsets, latest_offsets = scanned.controls, scanned.end_offsets, scanned.latest_offsets
        waited = rules.now - (progress.hold.since or rules.now) >= self.job.idle_partition_timeout
        at_end = self.end.bounded and all(end_offsets.get(place, 0) >= end for place, end in latest_offsets.items())
        registered = None if self.registry is None else self.registry.tables(controls, scanned.names)
        waits = self._waits(registered)
        refuse_hidden(controls, mode)
        begun = progress
        if mode is None:
            open_yet = MODES["watermark"].advance(self._add_registered(progress, scanned, None), scanned, rules, waits)
            shown = as_read(open_yet.progress, at_end=at_end, waited=waited, hidden=hides(controls))
            self.check_mode(shown)
            mode = shown
        acting = MODES[mode or "watermark"]
        if acting.resolves:
            begun = self._add_registered(progress, scanned, mode)
        if mode is not None:
            begun, controls = acting.understood(begun, controls, self.protocol)
        read = msgspec.structs.replace(scanned, controls=controls)
        return mode, self._fold_with_upstream(begun, lambda progress: acting.advance(progress, read, rules, waits))

    def _fold_with_upstream(self, begun: Progress, fold: Callable[[Progress], Advanced]) -> Advanced:
        """Fold once, and again if schemas were missing, with those that the upstream has. Add the default character
        sets that it has."""
        advanced, upstream = fold(begun), self.job.source.upstream
        if upstream is None:
            return advanced
        if advanced.missing:
            advanced = fold(add_upstream_schemas(begun, advanced.missing, upstream))
        return msgspec.structs.replace(advanced, progress=add_upstream_charsets(advanced.progress, upstream))

    def _add_registered(self, progress: Progress, scanned: ScannedBatch, mode: ModeName | None) -> Progress:
        if self.registry is None:
            return progress
        return self.registry.add_schemas(progress, scanned.controls, mode, scanned.names)

    def _due(self, progress: Progress, resolved: int, mode: ModeName | None = None) -> list[QueuedDdl]:
        """The DDLs to apply, with their schemas."""
        states = progress.states()
        sanitised = PROTOCOLS[self.protocol].traits.sanitised_names
        ddls = due(progress.ddls, resolved, progress.tables)
        filled = with_schemas(
            ddls,
            states,
            progress.schemas,
            SchemaRules(
                sanitised=sanitised,
                is_included=self._is_included,
                is_skipped=lambda change: is_skipped(self.job, change) and not is_of_partitions(change),
                lacking=lacking_until(progress),
                may_come=_may_come(progress),
                has_partitions=is_resolving(mode),
                zone=self.job.ddl_zone,
                is_parking=lambda name: is_resolving(mode) and parks(self.job, name),
                charsets=progress.charsets,
                shards={name: one.table for name, one in by_source(progress.shards).items()},
            ),
        )
        filled = with_dropped_shards(filled, progress.shards, states)
        return at_the_filter(with_hidden_partitions(self.job, filled), self.job.tables)

    def _judge_queue(self, progress: Progress) -> tuple[QueuedDdl, ...]:
        if not self.job.tables or not progress.ddls:
            return progress.ddls
        kinds = {identity(ddl.change): ddl.change.kind for ddl in self._due(progress, _ANY_TIME)}
        return tuple(
            msgspec.structs.replace(ddl, change=msgspec.structs.replace(ddl.change, kind=kind))
            if (kind := kinds.get(identity(ddl.change))) in (ENTERS, LEAVES)
            else ddl
            for ddl in progress.ddls
        )

    def _first_stop(self, progress: Progress, due: Sequence[QueuedDdl]) -> tuple[QueuedDdl, Stop] | None:
        known = {
            state.full_name: state.table for state in progress.tables if state.table is not None and not state.is_gone
        }
        known |= {name: one.table for name, one in by_source(progress.shards).items()}
        return first_stop(self.job, due, known, self.sink.types)

    def _keep_rejects(self, number: int, rejects: Sequence[Reject], now: float, on_reject: OnReject) -> None:
        """Keep unreadable messages as dead letters. Raises: RejectedMessage, EnvironmentFault, by the policy"""
        first = rejects[0]
        where = f"topic {first.topic}, partition {first.partition}, offset {first.offset}"
        if len(rejects) > self.job.max_rejects:
            message = (
                f"{len(rejects)} messages of one batch cannot be read as {self.protocol}, more than "
                f"max-rejects = {self.job.max_rejects}. The first: {where}: {first.reason}"
            )
            raise EnvironmentFault(message)
        self.letters.keep(number, "decode", rejects, now)
        if on_reject == "stop":
            message = (
                f"a message cannot be read: {first.reason} ({where}); {len(rejects)} such in this batch, kept in "
                f"{self.letters.where}; nothing of the batch is applied. "
                f"{ways_out(self.job, ((at.topic, at.partition, at.offset) for at in rejects))}"
            )
            raise RejectedMessage(message)


def _has_model(progress: Progress) -> Callable[[QueuedDdl], bool]:
    """Return a function: whether a DDL is a CREATE … LIKE whose model has the columns of that time, whatever its own
    table waits for."""
    states = progress.states()
    until = {one.full_name: one.until for one in progress.catching_up if one.until}

    def has_model(ddl: QueuedDdl) -> bool:
        model, ts = model_of(ddl.change), ddl.change.commit_ts
        if model is None or until.get(model, ts) < ts:
            return False
        state = states.get(model)
        return ddl.change.kind != UNCERTAIN or (state is not None and not is_newer(state, ts))

    return has_model
