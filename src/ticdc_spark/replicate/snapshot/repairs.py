"""Repairs of single rows: between two batches, the source's rows replace those with the same keys in the target.

A table takes them once it has applied what the whole job has, and the source's table is surely the job's. TiDB is read
as of that commit_ts. MySQL and MariaDB have only present rows, which may be newer than their table. It then settles as
after a full read. If rows cannot be replaced singly, the table is read in full.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import pyarrow as pa

from ticdc_spark import failpoints
from ticdc_spark.capture.snapshot.base import same_columns
from ticdc_spark.changes.given import GivenRows
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.histories import histories
from ticdc_spark.config.shards import is_merged
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import DecisionNeeded, MessageError
from ticdc_spark.model import Row, Table, TableName
from ticdc_spark.mysql import HIDDEN_NAMES, handle_key
from ticdc_spark.protocols import OWN_IMAGES, decoder, image_writer
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.apply.look import missing_columns
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.snapshot.loader import Found, Loader, Outcome
from ticdc_spark.replicate.snapshot.steps import next_mark, with_states
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.requests import Rebuild, Repair, Request, folded
from ticdc_spark.replicate.state.table import TableState, repair
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.mark import NO_MARK
from ticdc_spark.spark.decode.raw import ABOUT, RawRows
from ticdc_spark.spark.tasks import UnreadableRows
from ticdc_spark.spark.types import is_exact_key

log = logging.getLogger(__name__)
Save = Callable[[Progress, Sequence[Request]], None]


class NeedsFullRead(Exception):
    """Single rows of a table cannot be replaced, with the reason."""


class NotRepaired(Exception):
    """Nothing can be done for a request, with the reason. It is removed, so that it does not stop the job."""


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    """What the source has for some keys."""

    table: Table
    """The source's table."""
    gone: tuple[str, ...]
    """Images of the keys that it does not have."""
    found: tuple[Row, ...]
    """Its rows. The source compares keys by their collations, so some may have another key than those asked for."""
    upto: int
    """The highest commit_ts that the rows may be from; 0: they are as of the table's commit_ts."""


class Repairs:
    """The repairs of one job."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def step(self, progress: Progress, waiting: Sequence[Repair], save: Save) -> Outcome:
        """Do the repairs that can be done now. ``save``: stores the progress, and removes the requests that are done.

        Raises: DecisionNeeded, SinkFault, SourceFault
        """
        done: list[Repair] = []
        for request in waiting if is_resolving(progress.mode) and progress.applied else ():
            after, is_over = self._after(progress, request)
            if is_over or after is not progress:
                save(after, [request] if is_over else [])
                progress = after
            if is_over:
                done.append(request)
        return "worked" if done else "waits" if waiting else "idle"

    def _after(self, progress: Progress, request: Repair) -> tuple[Progress, bool]:
        """The progress after a request, and whether the request is over. Otherwise it waits."""
        (name,) = request.tables
        work = TimelineWork(batch=self._loader.batch(progress), promised=progress.states())
        before = work.mark(name)

        def reached() -> Progress:
            return progress if work.mark(name) == before else with_states(progress, work, work.batch.sink)

        try:
            state = self._repairable(work, name)
            is_over = state is not None and not _is_behind(progress, state) and self._repair(progress, work, request)
        except NotRepaired as why:
            log.error("`%s`.`%s`: rows are not read again: %s", *name, why)
            return reached(), True
        except (NeedsFullRead, MessageError, UnreadableRows) as why:
            log.warning("`%s`.`%s` is to be read in full, as its rows cannot be replaced singly: %s", *name, why)
            return folded(reached(), Rebuild(tables=(name,))), True
        return reached(), is_over

    def _repair(self, progress: Progress, work: TimelineWork, request: Repair) -> bool:
        """Replace the rows, some at a time. Returns: ``False`` if the source's table may not be the job's now"""
        (name,) = request.tables
        images = tuple(dict.fromkeys(request.keys))
        for first in range(0, len(images), _TOGETHER):
            if not self._repaired(progress, work, name, images[first : first + _TOGETHER]):
                return False
        log.info("`%s`.`%s`: %d rows are read again", *name, len(images))
        return True

    def _repairable(self, work: TimelineWork, name: TableName) -> TableState | None:
        """The table; ``None``: not yet. Raises: NotRepaired, NeedsFullRead"""
        state, job = work.state(name), work.batch.job
        if state is None or state.table is None or state.is_gone:
            raise NotRepaired("the job has no such table now")
        if work.mark(name) == NO_MARK:
            raise NotRepaired("the target lacks the table; `ticdc-spark rebuild` reads it")
        if not (is_merged(name) or table_filter(job.tables or ["*.*"])(*name)):
            raise NotRepaired("`tables` under [job] excludes the table")
        if self._loader.reader.fixed is not None:
            raise NotRepaired("[snapshot] names a dump. Name a database with `upstream`")
        if state.load is not None:
            return None
        self._stop_if_read_in_full(work, state)
        return state

    def _stop_if_read_in_full(self, work: TimelineWork, state: TableState) -> None:
        """Raises: NeedsFullRead"""
        name = state.full_name
        assert state.table is not None, "the job has the table"
        if state.is_quarantined:
            raise NeedsFullRead("the table is quarantined")
        if not handle_key(state.table):
            raise NeedsFullRead("the table has no key")
        if is_merged(name):
            raise NeedsFullRead("the table is merged from several")
        if histories(work.batch.job.histories).of(name) is not None:
            raise NeedsFullRead("the table has a history")
        columns = work.batch.columns_of(state)
        if not all(map(is_exact_key, (column for column in columns if column.key))):
            raise NeedsFullRead("its key has a FLOAT, DOUBLE or flag, by which a database does not find rows")
        if HIDDEN_NAMES & {column.source for column in columns}:
            raise NeedsFullRead("it has hidden columns of TiDB, which no query gives")
        if missing_columns(columns, work.batch.sink.columns(name)):
            raise NeedsFullRead("another writer dropped or renamed columns of it in the target")

    def _repaired(self, progress: Progress, work: TimelineWork, name: TableName, images: Sequence[str]) -> bool:
        """Replace some rows. Returns: ``False`` if the source's table may not be the job's now"""
        state = work.state(name)
        assert state is not None, "it is repairable"
        rows = self._read(progress, work, state, images)
        if rows is None:
            return False
        try:
            self._write(work, state, rows)
        except DecisionNeeded as error:
            raise NotRepaired(f"{error}. Then run `ticdc-spark verify` again") from error
        failpoints.point("repair")
        return True

    def _read(self, progress: Progress, work: TimelineWork, state: TableState, images: Sequence[str]) -> _Rows | None:
        """Ask the source for rows; ``None``: its table may not be the job's now.

        Raises: NotRepaired, NeedsFullRead, MessageError
        """
        there = self._found(progress, work, state)
        if there is None:
            return None
        assert state.table is not None, "it is repairable"
        if there.table is None:
            raise NeedsFullRead("the source has no such table")
        if not same_columns(work.batch.columns(state.table), work.batch.columns(there.table)):
            raise NeedsFullRead("the source has other columns")
        keys = _keys(there.table, images)
        upto, why = 0, ""
        try:
            rows = self._loader.source.rows(there.table, keys, there.base if there.exact else None)
        except MessageError as error:
            rows, why = [], str(error)
        if not there.exact:
            # The rows are of now: meanwhile the table may have been altered or replaced by another one.
            upto = self._loader.gathering.upper(progress)
            if self._found(progress, work, state) != there:
                return None
        if why:
            raise NeedsFullRead(why)
        names = handle_key(there.table)
        found = {tuple(row[name] for name in names) for row in rows}
        gone = (
            image for image, key in zip(images, keys, strict=True) if tuple(key[name] for name in names) not in found
        )
        return _Rows(table=there.table, gone=tuple(gone), found=tuple(rows), upto=upto)

    def _found(self, progress: Progress, work: TimelineWork, state: TableState) -> Found | None:
        try:
            return self._loader.found_at(progress, state.full_name, progress.applied, work)
        except DecisionNeeded as error:
            raise NotRepaired(f"the source's table cannot be read: {error.__cause__ or error}") from error

    def _write(self, work: TimelineWork, state: TableState, rows: _Rows) -> None:
        """Replace the rows in the target. Raises: MessageError, UnreadableRows, SinkFault, DecisionNeeded"""
        name, base = state.full_name, state.applied
        assert state.table is not None, "it is repairable"
        # Of this protocol, a table needs no registry.
        batch = replace(work.batch, protocol=OWN_IMAGES, registry=None)
        plan = batch.read_plan(state, {"": rows.table}, batch.columns_of(state))
        raw = _raw(rows, base)
        changes = TypedChanges(
            raw=GivenRows(raw, f"rows of {'.'.join(name)}"),
            plan=msgspec.structs.replace(plan, upstream=None, expects="nothing", options=_OPTIONS),
            others=raw.num_rows,
            scanned=raw.num_rows,
        )

        def write(stamp: Stamp) -> None:
            batch.sink.upsert(name, changes, stamp, None)

        work.commit(repair(state, rows.upto), next_mark(work, name, base), base, write)


_OPTIONS = ReadOptions(source_timezone="UTC")
_TOGETHER = 200
"""Keys that are asked for, and rows that are written, at once."""


def _is_behind(progress: Progress, state: TableState) -> bool:
    """Whether a table is not where the whole job is, or gets older rows."""
    late = any(one.late and one.full_name == state.full_name for one in progress.pending)
    return late or state.applied != progress.applied


def _keys(table: Table, images: Sequence[str]) -> list[Row]:
    """The keys of images. Raises: MessageError"""
    names = handle_key(table)
    places = {column.name: at for at, column in enumerate(table.columns)}
    read = decoder(OWN_IMAGES).row_reader(table, _OPTIONS, frozenset(names))([image.encode() for image in images])
    for why in read.bad.values():
        raise MessageError(why)
    keys = [{name: read.values[places[name]][at] for name in names} for at in range(len(images))]
    if any(None in key.values() for key in keys):
        raise MessageError("a key is NULL")
    return [*keys]


def _raw(rows: _Rows, base: int) -> RawRows:
    """The rows as changes at ``base``, as messages would have them: first what is gone, as keys that a target takes for
    equal may be in both. Raises: MessageError"""
    sent = [column.name for column in rows.table.columns if not column.virtual]
    write = image_writer(rows.table)
    after = [bytes(write({name: row[name] for name in sent if name in row})) for row in rows.found]
    before = [image.encode() for image in rows.gone]
    place = {"topic": "", "partition": 0, "seq": 0, "schema_key": "", "partial": False, "commit_ts": base}
    ops = ["delete"] * len(before) + ["update"] * len(after)
    about = [{**place, "offset": at, "op": op} for at, op in enumerate(ops)]
    return RawRows(
        pa.RecordBatch.from_pylist(about, schema=ABOUT),
        [*before, *([None] * len(after))],
        [*([None] * len(before)), *after],
    )
