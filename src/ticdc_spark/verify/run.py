"""Compares the tables of a job with its source, one after the other, and saves the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ticdc_spark.capture.snapshot.base import TooOld
from ticdc_spark.capture.snapshot.database import DatabaseReader
from ticdc_spark.clients.mysql import as_of, quoted
from ticdc_spark.config.job import Job
from ticdc_spark.config.load import load_identity
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.row_filters import source_condition
from ticdc_spark.config.shards import is_merged
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Table, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.operate.status import job_status
from ticdc_spark.operate.table_status import table_status
from ticdc_spark.replicate.apply.look import rebuild_line
from ticdc_spark.replicate.plan.parked import is_parked
from ticdc_spark.replicate.plan.spelling import by_source
from ticdc_spark.replicate.snapshot.merged import MergedTables
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.mark import NO_MARK
from ticdc_spark.verify.cells import Key
from ticdc_spark.verify.columns import NO_KEY, NOT_JUDGED, Pair, TablePlan, columns_gone, plan_of, without
from ticdc_spark.verify.database import DatabaseTable, Place
from ticdc_spark.verify.dialects import Mysql
from ticdc_spark.verify.merged import Shards, uneven, union
from ticdc_spark.verify.options import Options, Watcher
from ticdc_spark.verify.report import Kept, Report, TableReport, load, name_text, save
from ticdc_spark.verify.sessions import Altered, MysqlSessions, too_old
from ticdc_spark.verify.settle import Settled, settle
from ticdc_spark.verify.sides import Side
from ticdc_spark.verify.table import Both, Comparison
from ticdc_spark.verify.target import Target, View

_NOT_COMPARED = ("quarantined", "snapshot", "skipped", "kept")
_DDL = "a DDL changed it during the comparison, or it was dropped: run `verify` again"


def verify(job: Job, options: Options, path: Path, watcher: Watcher) -> Report:
    """Compare a job's tables with its source. ``path``: of the report; an interrupted run is continued.

    Raises: UsageError for a job without an upstream or in arrival mode, and if no table matches the rules; SourceFault,
    SinkFault, EnvironmentFault, DecisionNeeded, OSError
    """
    upstream = (job.snapshot.upstream if job.snapshot is not None else None) or job.source.upstream
    if upstream is None:
        raise UsageError(
            f"{job.file}: [snapshot] upstream: missing; it names the database that the target should equal"
        )
    with ExitStack() as stack:
        ends = _Ends(
            job=job,
            upstream=upstream,
            target=stack.enter_context(closing(Target(job, watcher.starting))),
            reader=stack.enter_context(closing(DatabaseReader(upstream))),
            pool=stack.enter_context(ThreadPoolExecutor(options.parallel, "verify")),
            beside=stack.enter_context(ThreadPoolExecutor(1, "verify-source")),
        )
        return _Run(ends, options, path, watcher).run()


class _Ends(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides of a job's comparison."""

    job: Job
    upstream: str
    target: Target
    reader: DatabaseReader
    pool: ThreadPoolExecutor
    beside: ThreadPoolExecutor


class _Run:
    def __init__(self, ends: _Ends, options: Options, path: Path, watcher: Watcher) -> None:
        self._ends, self._options, self._path, self._watcher = ends, options, path, watcher
        self._report = _begun(ends.job.name, options, path)
        self._tables = MergedTables(ends.reader, ends.job, Progress(job=ends.job.name))
        self._shards: dict[TableName, Shards] = {}

    def run(self) -> Report:
        first = self._ends.target.view()
        try:
            self._tables = MergedTables(self._ends.reader, self._ends.job, first.progress)
            named = {known: name for name, known in by_source(first.progress, self._tables.tables()).items()}
            every = table_filter([*self._options.tables] or ["*.*"])
            names = [one.full_name for one in first.progress.tables if _is_there(one)]
            absent = [name for name in self._absent(first.progress, named) if every(*name)]
            names = [name for name in names if every(*name)]
            if not names and not absent:
                raise UsageError("no table of the job matches these rules; `ticdc-spark status` lists them")
            done = {one.table for one in self._report.tables}
            for name in names:
                if name_text(name) not in done:
                    with self._view(first) as view:
                        self._add(self._table(name, named.get(name), view))
            for name in absent:
                if name_text(name) not in done:
                    self._add(_not(name, name, "", "the job has no such table: no message about it has arrived"))
        finally:
            first.close()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._keep(msgspec.structs.replace(self._report, finished=now))
        return self._report

    @contextmanager
    def _view(self, first: View) -> Iterator[View]:
        """A lake is read as of one commit. A database has a transaction for each table, so that none stays open
        long."""
        if self._ends.target.is_lake:
            yield first
            return
        first.close()
        view = self._ends.target.view()
        try:
            yield view
        finally:
            view.close()

    def _table(self, name: TableName, source: TableName | None, view: View) -> TableReport:
        state, target = view.table(name), compiled(view.progress.routes).target(name)
        if state is None or not _is_there(state):
            return _undecided(name, target, _DDL)
        behind = "it is behind the others" if state.applied < view.progress.applied else None
        status = table_status(state, behind=behind)
        if status.condition in _NOT_COMPARED:
            return _not(name, target, status.condition, status.detail)
        began = time.monotonic()
        try:
            plan = self._plan(state, source, view.progress, target)
            if isinstance(plan, TablePlan):
                found = self._compared(plan, state, view)
            else:
                found = _not(name, target, "", plan) if plan in (NO_KEY, NOT_JUDGED) else _undecided(name, target, plan)
        except Altered as error:
            found = _undecided(name, target, f"{_DDL} ({error})")
        except TooOld as error:
            raise too_old(str(error)) from error
        except MessageError as error:
            found = _undecided(name, target, str(error))
        seconds = round(time.monotonic() - began, 1)
        return msgspec.structs.replace(found, condition=status.condition, seconds=seconds)

    def _plan(
        self, state: TableState, source: TableName | None, progress: Progress, target: TableName
    ) -> TablePlan | str:
        at = state.applied if self._ends.reader.exact else None
        table = None if source is None else self._tables.schema(source, at)
        if table is None or state.table is None:
            return "the source has no such table: a DDL is not applied yet, or [snapshot] upstream is another server"
        types, lake = self._ends.target.types(progress), self._ends.target.lake
        named = msgspec.structs.replace(table, schema=state.schema, name=state.name)
        here, there = (types.columns(one, handle_key(one), lake) for one in (named, state.table))
        protocol = self._ends.job.source.protocol or progress.protocol
        computed = [name for name, _ in state.computed]
        plan = plan_of((table, state.table), (here, there), lake, protocol, computed)
        if isinstance(plan, str):
            return plan
        where = _where(progress, state.table, tidb=self._ends.reader.exact)
        if where is None:
            return NOT_JUDGED
        kept = {one.column.name: "kept after the source dropped it" for one in state.kept_columns}
        if is_merged(plan.source):
            self._shards[plan.source] = self._tables.by_source(plan.source, at)
            found = without(plan, uneven(self._shards[plan.source]))
            if isinstance(found, str):
                return found
            plan = found
        return msgspec.structs.replace(plan, target=target, skipped=plan.skipped | kept, where=where)

    def _compared(self, plan: TablePlan, state: TableState, view: View) -> TableReport:
        ends, name = self._ends, name_text(plan.name)
        is_exact, opened = ends.reader.exact, view.opened(plan, state)
        if gone := columns_gone(plan, opened.columns):
            return self._lacking(plan, gone, state, view)
        is_final = self._options.still or (is_exact and opened.is_commit)
        with (
            closing(self._sessions(plan, (as_of(state.applied),) if is_exact else ())) as then,
            closing(self._sessions(plan)) as now,
        ):
            both = Both(
                source=self._source(plan, then),
                target=opened.side,
                commit_ts=state.applied,
                snapshot=opened.snapshot,
                rows=self._tables.estimate(plan.source),
                settle=None if is_final else lambda keys: self._settled(plan, keys, self._source(plan, now), state),
                beside=ends.beside,
            )
            comparison = Comparison(plan, both, self._options, lambda kept: self._keep_one(name, kept))
            return comparison.run(self._report.kept.get(name), self._watcher)

    def _lacking(self, plan: TablePlan, gone: Sequence[Pair], state: TableState, view: View) -> TableReport:
        """The report for a table that lacks columns which the job and the source have."""
        ends, target = self._ends, compiled(view.progress.routes).target(plan.name)
        now = MergedTables(ends.reader, ends.job, view.progress).schema(plan.source, None)
        there = set() if now is None else {column.name.casefold() for column in now.columns}
        if any(pair.name.casefold() not in there for pair in gone):
            return _undecided(plan.name, target, _DDL)  # the source has dropped it since
        names = ", ".join(f"`{pair.target.name}`" for pair in gone)
        add = ends.target.types(view.progress).add_columns([pair.target for pair in gone])
        why = (
            f"the target has no column {names}: it was dropped or renamed there. Add it ({add}), then "
            f"{rebuild_line(ends.job, plan.name)} and start the job"
        )
        found = msgspec.structs.replace(_undecided(plan.name, target, why), result="different")
        return msgspec.structs.replace(found, commit_ts=state.applied)

    def _sessions(self, plan: TablePlan, begin: Sequence[str] = ()) -> MysqlSessions:
        return MysqlSessions(self._ends.upstream, plan.lake, begin, tidb=self._ends.reader.exact)

    def _source(self, plan: TablePlan, sessions: MysqlSessions) -> DatabaseTable:
        name = self._rows_of(plan)
        place = Place(sessions, Mysql(tidb=self._ends.reader.exact, charsets=True), name)
        return DatabaseTable(plan, [pair.source for pair in plan.pairs], place, self._ends.pool)

    def _rows_of(self, plan: TablePlan) -> str:
        """The SQL that replaces the table's name in queries of the source."""
        if is_merged(plan.source):
            origin = compiled(self._ends.job.routes).origin(plan.source)
            columns = [pair.source.name for pair in plan.pairs if pair.source.name not in origin]
            return union(self._shards[plan.source], origin, columns, plan.where)
        name = ".".join(map(quoted, plan.source))
        return f"(SELECT * FROM {name} WHERE {plan.where}) AS kept" if plan.where else name

    def _settled(self, plan: TablePlan, keys: Collection[Key], source: Side, state: TableState) -> Settled:
        closes = list[Callable[[], None]]()

        def target(moment: int) -> Side | str:
            while closes:
                closes.pop()()
            found = self._later(state, moment)
            if isinstance(found, str):
                return found
            closes.append(found.close)
            now = found.table(plan.name)
            if now is None or now.table != state.table:
                raise Altered("its columns have changed")
            return found.opened(plan, now).side

        try:
            return settle(plan, keys, source, self._ends.reader.now, target)
        finally:
            while closes:
                closes.pop()()

    def _later(self, state: TableState, moment: int) -> View | str:
        """The target once the job has committed everything of a table up to a moment; a text says why it has not."""
        deadline, name = time.monotonic() + self._options.wait, state.full_name
        while True:
            view = self._ends.target.view()
            found = view.table(name)
            if found is None or found.applied >= moment:
                return view
            view.close()
            if not job_status(load_identity(self._ends.job.file)).running:
                return "the job does not run, so it is not known which changes are not applied yet: start it"
            if time.monotonic() > deadline:
                return f"the job did not get that far within {self._options.wait:.0f} s: look at `ticdc-spark status`"
            time.sleep(self._ends.target.pause)

    def _absent(self, progress: Progress, there: Collection[TableName]) -> list[TableName]:
        """Tables of the source that the job lacks, in databases that it knows."""
        known = {one.full_name for one in progress.tables if not one.is_gone}
        schemas, follows = {schema for schema, _ in known}, table_filter([*self._ends.job.tables] or ["*.*"])
        routes = compiled(self._ends.job.routes)
        found = (name for name in {*there} - known if name[0] in schemas and follows(*name))
        return sorted(name for name in found if routes.merged(name) is None)

    def _add(self, report: TableReport) -> None:
        self._keep(msgspec.structs.replace(self._report, tables=(*self._report.tables, report)))
        self._watcher.table(report)

    def _keep_one(self, name: str, kept: Kept) -> None:
        self._keep(msgspec.structs.replace(self._report, kept={**self._report.kept, name: kept}))

    def _keep(self, report: Report) -> None:
        self._report = report
        save(self._path, report)


def _begun(job: str, options: Options, path: Path) -> Report:
    """The report to continue: an interrupted one with the same options. From another one, only checksums are reused."""
    before, now = load(path), datetime.now(UTC).isoformat(timespec="seconds")
    if before is None or before.job != job:
        return Report(job=job, started=now, options=options.named)
    if not before.finished and before.options == options.named:
        return before
    kept = {name: msgspec.structs.replace(one, done=0, suspects=(), report=None) for name, one in before.kept.items()}
    return Report(job=job, started=now, options=options.named, kept=kept)


def _where(progress: Progress, table: Table, *, tidb: bool) -> str | None:
    """The condition of a table's rows, ``""`` for all; ``None``: the source may evaluate it differently than the
    job."""
    rule = compiled(progress.routes).rule(table.full_name)
    return source_condition(rule.where, table, tidb=tidb) if rule is not None and rule.where else ""


def _is_there(state: TableState) -> bool:
    return state.mark != NO_MARK and not state.is_dropped and not is_parked(state.full_name)


def _not(name: TableName, target: TableName, condition: str, why: str) -> TableReport:
    return TableReport(
        table=name_text(name), target=name_text(target), result="not compared", condition=condition, why=why
    )


def _undecided(name: TableName, target: TableName, why: str) -> TableReport:
    return msgspec.structs.replace(_not(name, target, "", why), result="undecided")
