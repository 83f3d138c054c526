"""Repairs of single rows: between two batches, the rows of some keys are replaced by those of the source.

A table can take them when it is where the whole job is, and when the source's table is surely the job's. TiDB is read
as of that commit_ts. MySQL and MariaDB are read as they are now: rows may be newer than their table, which settles
as after a full read. What no repair can do, a full read does.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec
import pyarrow as pa

from ticdc_spark import failpoints
from ticdc_spark.capture.snapshot.base import same_columns
from ticdc_spark.changes.given import GivenRows
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.histories import histories
from ticdc_spark.config.shards import is_merged
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, Table
from ticdc_spark.mysql import HIDDEN_NAMES, handle_key
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.simple.rows import row_reader, row_writer
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.apply.look import missing_columns
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.snapshot.loader import Loader, Outcome
from ticdc_spark.replicate.snapshot.steps import next_mark, with_states
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.requests import Rebuild, Repair, Request, folded
from ticdc_spark.replicate.state.table import TableState, repair
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.mark import NO_MARK
from ticdc_spark.spark.decode.raw import ABOUT, RawRows
from ticdc_spark.spark.tasks import UnreadableRows

log = logging.getLogger(__name__)
PROTOCOL, ZONE = "simple", "UTC"
"""In which the job writes the source's rows for its own row reader."""
Save = Callable[[Progress, Sequence[Request]], None]


class NeedsFullRead(Exception):
    """Single rows of a table cannot be replaced, with the reason."""


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    """What the source has for some keys."""

    table: Table
    """The source's table."""
    found: tuple[tuple[str, Row | None], ...]
    """Images of keys, each with its row; ``None``: the source has none."""
    upto: int
    """The highest commit_ts that the rows may be from; 0: they are as of the table's."""


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
            after = self._repaired(progress, request)
            if after is not None:
                progress = after
                done.append(request)
                save(progress, [request])
        return "worked" if done else "waits" if waiting else "idle"

    def _repaired(self, progress: Progress, request: Repair) -> Progress | None:
        """The progress after a repair; ``None``: it must wait."""
        (name,) = request.tables
        work = TimelineWork(batch=self._loader.batch(progress), promised=progress.states())
        state = work.state(name)
        if state is None or state.table is None or state.is_gone or work.mark(name) == NO_MARK:
            log.warning("`%s`.`%s`: no rows are read again, as the job has no such table now", *name)
            return progress
        try:
            self._stop_if_not_repairable(work, state)
            rows = None if _is_behind(progress, state) else self._read(progress, work, state, request)
            if rows is None:
                return None
            self._write(work, state, rows)
        except (NeedsFullRead, MessageError, UnreadableRows) as why:
            log.warning("`%s`.`%s` is read in full, as its rows cannot be replaced singly: %s", *name, why)
            return folded(progress, Rebuild(tables=(name,)))
        failpoints.point("repair")
        gone = sum(row is None for _, row in rows.found)
        log.info("`%s`.`%s`: %d rows are read again, and %d removed", *name, len(rows.found) - gone, gone)
        return with_states(progress, work, work.batch.sink)

    def _stop_if_not_repairable(self, work: TimelineWork, state: TableState) -> None:
        """Raises: NeedsFullRead"""
        name, job = state.full_name, work.batch.job
        assert state.table is not None, "the job has the table"
        if state.is_quarantined or state.load is not None:
            raise NeedsFullRead("it is quarantined, or a full read of it is under way")
        if self._loader.reader.fixed is not None:
            raise NeedsFullRead("[snapshot] names a dump")
        if is_merged(name) or not handle_key(state.table) or histories(job.histories).of(name) is not None:
            raise NeedsFullRead("it is merged from several tables, has no key, or has a history table")
        columns = work.batch.columns_of(state)
        if HIDDEN_NAMES & {column.source for column in columns}:
            raise NeedsFullRead("it has hidden columns of TiDB, which no query gives")
        if missing_columns(columns, work.batch.sink.columns(name)):
            raise NeedsFullRead("another writer dropped or renamed columns of it in the target")

    def _read(self, progress: Progress, work: TimelineWork, state: TableState, request: Repair) -> _Rows | None:
        """Ask the source for the rows; ``None``: its table may not be the job's. Raises: NeedsFullRead, MessageError"""
        name, base = state.full_name, progress.applied
        there = self._loader.found_at(progress, name, base, work)
        if there is None:
            return None
        assert state.table is not None, "the job has the table"
        if there.table is None:
            raise NeedsFullRead("the source has no such table")
        if not same_columns(work.batch.columns(state.table), work.batch.columns(there.table)):
            raise NeedsFullRead("the source has other columns")
        images = tuple(dict.fromkeys(request.keys))
        rows = self._loader.source.lookup(there.table, _keys(there.table, images), there.base if there.exact else None)
        # As it is now, the table may have been altered, or be another one of this name.
        if not there.exact and self._loader.found_at(progress, name, base, work) != there:
            return None
        upto = 0 if there.exact else self._loader.gathering.upper(progress)
        return _Rows(table=there.table, found=tuple(zip(images, rows, strict=True)), upto=upto)

    def _write(self, work: TimelineWork, state: TableState, rows: _Rows) -> None:
        """Replace the rows in the target. Raises: MessageError, UnreadableRows, SinkFault"""
        name, base = state.full_name, state.applied
        assert state.table is not None, "the job has the table"
        # Of this protocol, a table needs no registry.
        batch = replace(work.batch, protocol=PROTOCOL, registry=None)
        plan = batch.read_plan(state.table, {"": rows.table}, batch.columns_of(state))
        changes = TypedChanges(
            raw=GivenRows(_raw(rows, base), f"rows of {'.'.join(name)}"),
            plan=msgspec.structs.replace(plan, upstream=None, expects="nothing", options=_OPTIONS),
            others=len(rows.found),
            scanned=len(rows.found),
        )

        def write(stamp: Stamp) -> None:
            batch.sink.upsert(name, changes, stamp, None)

        work.commit(repair(state, rows.upto), next_mark(work, name, base), base, write)


_OPTIONS = ReadOptions(source_timezone=ZONE)


def _is_behind(progress: Progress, state: TableState) -> bool:
    """Whether a table is not where the whole job is, or gets older rows."""
    late = any(one.late and one.full_name == state.full_name for one in progress.pending)
    return late or state.applied != progress.applied


def _keys(table: Table, images: Sequence[str]) -> list[Row]:
    """The keys of images. Raises: MessageError"""
    names = handle_key(table)
    places = {column.name: at for at, column in enumerate(table.columns)}
    read = row_reader(table, _OPTIONS, frozenset(names))([image.encode() for image in images])
    for why in read.bad.values():
        raise MessageError(why)
    keys = [{name: read.values[places[name]][at] for name in names} for at in range(len(images))]
    if any(None in key.values() for key in keys):
        raise MessageError("a key is NULL")
    return [*keys]


def _raw(rows: _Rows, base: int) -> RawRows:
    """The rows as changes at ``base``, as messages would have them. Raises: MessageError"""
    sent = [column.name for column in rows.table.columns if not column.virtual]
    write = row_writer(rows.table, ZONE)
    before: list[bytes | None] = []
    after: list[bytes | None] = []
    about: list[Mapping[str, object]] = []
    for at, (image, row) in enumerate(rows.found):
        place = {"topic": "", "partition": 0, "offset": at, "seq": 0, "schema_key": "", "partial": False}
        about.append({**place, "op": "delete" if row is None else "update", "commit_ts": base})
        before.append(image.encode() if row is None else None)
        after.append(None if row is None else bytes(write({name: row[name] for name in sent if name in row})))
    return RawRows(pa.RecordBatch.from_pylist(about, schema=ABOUT), before, after)
