"""Typed changes: what a sink receives of a table's rows. Where they come from, and how they are decoded, is in here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.changes import windows
from ticdc_spark.changes.counted import counts, counts_ddl
from ticdc_spark.changes.events import H_OP, H_TIME, H_TS, every_change, history_rows
from ticdc_spark.changes.net import combine, net_of_keys
from ticdc_spark.changes.raw import RawChanges
from ticdc_spark.changes.spread import can_spread
from ticdc_spark.changes.tries import Begin, numbered_tries
from ticdc_spark.errors import SourceChanged
from ticdc_spark.spark.decode.places import Place, Places
from ticdc_spark.spark.decode.raw import RawRows, RawTask
from ticdc_spark.spark.decode.rows import BAD, TS, BadRow, read_rows, rows_ddl, without_befores
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.faults import spark_faults
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.tasks import ArrowTask, Count, Misplaced, chain, counted, is_small
from ticdc_spark.spark.types import LakeColumn, arrow_type


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of changes."""

    zero_dates: int = 0
    """Zero or impossible dates that became NULL."""
    rows: int | None = None
    """Row changes; ``None``: nothing was read yet."""


class Deletes(msgspec.Struct, frozen=True):
    """Row changes that came earlier, for the deletes among them, and how their keys are read."""

    raw: RawChanges
    plan: ReadPlan

    def read(self) -> RawTask:
        """The task that reads them; what cannot be read is left out by whoever asks."""
        read = read_rows(msgspec.structs.replace(self.plan, strict=False))
        if self.plan.schemas is not None:
            return read
        # Keys are read by the table as it is now, whatever rows were made of.
        return chain(_as_version(next(iter(self.plan.tables))), read)


def _as_version(key: str) -> Callable[[Iterable[RawRows]], Iterator[RawRows]]:
    """Return a function over raw changes, to the same with one schema key."""

    def run(batches: Iterable[RawRows]) -> Iterator[RawRows]:
        for batch in batches:
            at = batch.about.schema.get_field_index("schema_key")
            keys = pa.repeat(pa.scalar(key), batch.num_rows)
            yield batch._replace(about=batch.about.set_column(at, "schema_key", keys))

    return run


@dataclass(kw_only=True)
class TypedChanges:
    """Row changes of one table that are to be applied: of each key the net change, in columns of the table's types.

    A **net change** has the column ``OP`` (``changes.columns``) and ``columns``, one row a key. Of a table without a
    key it has ``COUNT`` and ``columns``, one for each whole row of which copies come or go.
    Nothing is read before ``write`` or ``dataframe`` is called; each call reads again.
    """

    raw: RawChanges
    plan: ReadPlan
    inserts: int = 0
    """How many of the changes are inserts, as far as is known."""
    others: int = 0
    """How many are not."""
    share: float = 0.0
    """Of all changes that are applied together, for a sink that does large ones by several tasks."""
    new_keys: bool = False
    """Whether a key whose first event is an insert has no row in the table, if no other writer changed it since the
    job looked at it (``Stamp.seen``)."""
    leave_out_unreadable: bool = False
    """Rows that cannot be read are left out; otherwise nothing is applied when there is one."""
    ordered_by: LakeColumn | None = None
    """The column of the table with the commit_ts of each row's last change: a change is applied only where the table
    has no newer one. ``None``: every change is newer than what the table has."""
    scanned: int = 0
    """At least so many rows were there when the topic was scanned."""
    is_late: bool = False
    """Some of them may be older than what the table has, and some of what it has is among them."""
    deletes: Deletes | None = None
    """With ``ordered_by``: deletes that came earlier, of keys that the table has no row of, count too."""
    places: frozenset[Place] = frozenset()
    """What is known of where the rows of physical ids lie, and what the last ``write`` or ``dataframe`` has found."""
    begins: tuple[Begin, ...] = ()
    """Of a table without a key: where the tries begin in which its rows were sent (``changes.tries``)."""
    collector: Places | None = field(default=None, init=False, repr=False, compare=False)
    """What collects places while tasks read; ``None``: the plan has no partitions."""
    _zeros: Count | None = field(default=None, init=False, repr=False, compare=False)
    _rows: Count | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def columns(self) -> tuple[LakeColumn, ...]:
        """The columns that the changes have values for, keys marked; the last is ``ordered_by``."""
        return self.plan.columns if self.ordered_by is None else (*self.plan.columns, self.ordered_by)

    @property
    def size(self) -> int | None:
        """About the bytes of the messages that tasks read for ``write``; ``None``: tasks cannot, only Spark can."""
        return None if self.ordered_by is not None else self.raw.size

    @property
    def is_counted(self) -> bool:
        """Whether the table has no key, so that net changes are counts of whole rows."""
        return self.plan.is_keyless

    @property
    def can_spread(self) -> bool:
        """Whether several tasks can share the keys."""
        return can_spread([arrow_type(column.type) for column in self.columns if column.key or self.is_counted])

    @property
    def counts(self) -> Counts:
        """What the last ``write`` or ``dataframe`` has read."""
        zeros, rows = self._zeros, self._rows
        return Counts(zero_dates=0 if zeros is None else zeros.value, rows=None if rows is None else rows.value)

    def begin(self) -> tuple[ReadPlan, Count, Count]:
        """Begin to read: the plan, and counters for zero dates and for rows, which ``counts`` reads."""
        self._zeros, self._rows = self.raw.count(), self.raw.count()
        self.collector = None if self.plan.partitioned is None else self.raw.places()
        return msgspec.structs.replace(self.plan, strict=not self.leave_out_unreadable), self._zeros, self._rows

    def write(self, task: ArrowTask, *, tasks: int = 1, keep_first: bool = False) -> list[bytes]:
        """Run the sink's own task over the net changes; in the driver where they are few, else in Spark's tasks.

        ``task``: gets the net changes of its keys in batches, or none, and gives one column of bytes, which come back.
        It runs ``tasks`` times side by side, each for keys of its own; more than one needs ``can_spread``.
        ``keep_first``: net changes have the column ``FIRST``, too. Ordered ones have ``TIES`` and ``ALWAYS``, and their
        commit_ts in ``ordered_by``.

        Raises: SinkFault, SourceFault, SourceChanged; UnreadableRows when there are some that are not to be left out
        """
        if self.size is None:
            return self._write_by_spark(task, tasks, keep_first=keep_first)
        if self.is_counted:
            return self._run(_as_they_are, chain(counts(self._names, self.begins), task), tasks)
        net = net_of_keys(self._keys, self._names, keep_first=keep_first)
        return self._run(combine(self._keys, keep_first=keep_first), chain(net, task), tasks)

    def write_events(self, task: ArrowTask, above: int, *, tasks: int = 1) -> list[bytes]:
        """Run the sink's own task over every change above a commit_ts, as rows of a history table. As ``write``.

        Raises: as ``write``
        """
        if self.size is None:
            with spark_faults("changes cannot be written"), self.events(None, above) as rows:
                return [bytes(row[0]) for row in rows.coalesce(1).mapInArrow(task, "part binary").collect()]
        then = chain(history_rows(self._keys, self._names, above), task)
        return self._run(every_change(self._keys, above), then, tasks, befores=True)

    def _run(self, first: ArrowTask, then: ArrowTask, tasks: int, *, befores: bool = False) -> list[bytes]:
        """Read, and run ``then`` over the rows of its keys. ``first``: what leaves out rows before they cross."""
        read, rows = self._read(befores=befores)
        if self.raw.is_here:
            found = self.raw.run(chain(read, then))
        else:
            found = self.raw.run_spread(chain(read, first), self._keys, then, tasks)
        self.stop_if_fewer(rows.value)
        return found

    def _read(self, *, befores: bool = False) -> tuple[ArrowTask, Count]:
        """What reads raw rows, and counts them. ``befores``: with what updates replace, if the plan has it."""
        plan, zeros, rows = self.begin()
        read = chain(counted(rows), read_rows(plan, zeros, self.collector))
        if plan.has_befores and not befores:
            read = chain(read, without_befores)
        return (chain(numbered_tries(self.begins), read) if self.is_counted else read), rows

    def stop_if_fewer(self, rows: int) -> None:
        """Stop before anything is committed if fewer rows were read than the scan counted, or if the rows of one
        physical id lie in two partitions. Raises: SourceChanged, Misplaced"""
        if self.collector is not None:
            self.places |= self.collector.value
            stop_if_misplaced(self.places)
        if rows < self.scanned:
            raise SourceChanged(
                f"{rows} rows were read, and the topic had {self.scanned} when it was scanned. Nothing is committed. "
                "Either Kafka removed messages (check that cleanup.policy of the topic is delete), or this is a fault "
                "of ticdc-spark"
            )

    def _write_by_spark(self, task: ArrowTask, tasks: int, *, keep_first: bool) -> list[bytes]:
        with spark_faults("changes cannot be written"), self.dataframe(keep_first=keep_first) as net:
            cut = net.repartition(tasks, *map(quote, self._keys))
            return [bytes(row[0]) for row in cut.mapInArrow(task, "part binary").collect()]

    @contextmanager
    def dataframe(self, session: SparkSession | None = None, *, keep_first: bool = False) -> Iterator[DataFrame]:
        """The net changes for a sink that merges by Spark SQL, with ``FIRST``, or ordered ones. Spark reads the topic
        once and keeps them meanwhile.

        Raises: as ``write``
        """
        read, rows = self._read()
        with self._held(self._net(read, session, keep_first=keep_first), rows) as net:
            yield net

    @contextmanager
    def events(self, session: SparkSession | None, above: int) -> Iterator[DataFrame]:
        """Every change above a commit_ts, as rows of a history table. Otherwise as ``dataframe``."""
        read, rows = self._read(befores=True)
        ddl = rows_ddl(self.plan.columns)
        typed = self.raw.map(chain(read, every_change(self._keys, above)), ddl, session)
        cut = typed.repartition(*map(quote, self._keys))
        task = history_rows(self._keys, self._names, above)
        with self._held(cut.mapInArrow(task, history_ddl(self.plan.columns)), rows) as found:
            yield found

    @contextmanager
    def _held(self, found: DataFrame, rows: Count) -> Iterator[DataFrame]:
        """What was read, kept by Spark meanwhile."""
        held = found.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with spark_faults("changes cannot be read"):
                held.count()
            self.stop_if_fewer(rows.value)
            # Few rows in several tasks would make several deletion vectors of one file, which Iceberg joins: the first
            # ones stay behind.
            yield held.coalesce(1) if is_small(rows.value) else held
        finally:
            held.unpersist()

    def _net(self, read: RawTask, session: SparkSession | None, *, keep_first: bool) -> DataFrame:
        ddl = rows_ddl(self.plan.columns)
        if self.is_counted:
            cut = self.raw.map(read, ddl, session).repartition(*map(quote, self._names))
            return cut.mapInArrow(counts(self._names, self.begins), counts_ddl(self.plan.columns))
        if self.ordered_by is None:
            typed = self.raw.map(chain(read, combine(self._keys, keep_first=keep_first)), ddl, session)
        else:
            typed = self.raw.map(read, ddl, session)
        if self.leave_out_unreadable:
            typed = windows.readable(typed)
        if self.ordered_by is None:
            return windows.net_changes(typed, self.plan.columns)
        newest = windows.newest_changes(typed, self.plan.columns)
        if self.deletes is not None:
            deleted = self.deletes.raw.map(self.deletes.read(), ddl, session)
            newest = windows.not_deleted_since(
                newest, windows.last_deletes(deleted, self.plan.columns), self.plan.columns
            )
        return newest.withColumnRenamed(TS, self.ordered_by.name)

    def unreadable(self, limit: int) -> list[BadRow]:
        """At most ``limit`` rows that cannot be read, each once, though a change of a key is two. Raises: SinkFault"""
        loosely = read_rows(msgspec.structs.replace(self.plan, strict=False))
        found = dict.fromkeys(self.raw.collect(chain(loosely, _bad_rows(limit))))
        return [msgspec.json.decode(one, type=BadRow) for one in list(found)[:limit]]

    @property
    def _keys(self) -> list[str]:
        """By which rows are spread over tasks."""
        return [column.name for column in self.columns if column.key or self.is_counted]

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.columns]


def _as_they_are(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def history_ddl(columns: Sequence[LakeColumn]) -> str:
    """Rows of a history table, in Spark's words."""
    quoted = (f"{quote(column.name)} {column.type.spark}" for column in columns)
    return ", ".join([f"`{H_OP}` string", f"`{H_TS}` bigint", f"`{H_TIME}` timestamp", *quoted])


def stop_if_misplaced(places: Iterable[Place]) -> None:
    """Raises: Misplaced where the rows of one physical id lie in two partitions"""
    names: dict[int, str] = {}
    for number, name in sorted(places):
        other = names.setdefault(number, name)
        if other != name:
            raise Misplaced(
                f"rows with the physical id {number} lie in {other} and in {name} by the partition expression, so that "
                "it is not evaluated as the source does"
            )


def _bad_rows(limit: int) -> ArrowTask:
    """Return a function over typed rows, to at most ``limit`` of those that cannot be read, each once."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen: dict[str, None] = {}
        for batch in batches:
            bad = batch.column(BAD)
            if bad.null_count < len(bad) and len(seen) < limit:
                seen |= dict.fromkeys(pc.drop_null(bad).to_pylist())
        if seen:
            yield pa.record_batch([pa.array([one.encode() for one in seen][:limit], pa.binary())], ["bad"])

    return run
