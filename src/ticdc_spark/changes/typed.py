"""Typed changes: what a sink gets of a table's rows. They hide where rows come from and how they are decoded."""

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
    """Counts of what was read."""

    zero_dates: int = 0
    """Zero or impossible dates that became NULL."""
    rows: int | None = None
    """Row changes; ``None``: nothing is read yet."""


class Deletes(msgspec.Struct, frozen=True):
    """Earlier row changes, and how to read their keys. Only the deletes among them count."""

    raw: RawChanges
    plan: ReadPlan

    def read(self) -> RawTask:
        """The task that reads them. The caller drops rows that cannot be read."""
        read = read_rows(msgspec.structs.replace(self.plan, strict=False))
        if self.plan.schemas is not None:
            return read
        # Keys are read with the table's current schema, whatever schema the rows had.
        return chain(_as_version(next(iter(self.plan.tables))), read)


def _as_version(key: str) -> Callable[[Iterable[RawRows]], Iterator[RawRows]]:
    """Return a function that gives all raw changes one schema key."""

    def run(batches: Iterable[RawRows]) -> Iterator[RawRows]:
        for batch in batches:
            at = batch.about.schema.get_field_index("schema_key")
            keys = pa.repeat(pa.scalar(key), batch.num_rows)
            yield batch._replace(about=batch.about.set_column(at, "schema_key", keys))

    return run


@dataclass(kw_only=True)
class TypedChanges:
    """Row changes of one table to apply: the net change of each key, in columns of the table's types.

    **Net changes** have the column ``OP`` (``changes.columns``) and ``columns``, with one row per key. For a table
    without a key, they have ``COUNT`` and ``columns``, with one row for each distinct row whose copies are added or
    removed. Nothing is read before ``write`` or ``dataframe`` is called. Each call reads again.
    """

    raw: RawChanges
    plan: ReadPlan
    inserts: int = 0
    """How many of the changes are inserts, if known."""
    others: int = 0
    """How many are not inserts."""
    share: float = 0.0
    """Their part of all changes that are applied together. A sink may use several tasks for a large part."""
    new_keys: bool = False
    """Whether a key whose first event is an insert has no row in the table, provided that no other writer has changed
    it since the job looked at it (``Stamp.seen``)."""
    leave_out_unreadable: bool = False
    """Skip rows that cannot be read. Otherwise, nothing is applied if there is one."""
    ordered_by: LakeColumn | None = None
    """The column of the table with the commit_ts of each row's last change: a change is applied only where the table
    has no newer one. ``None``: every change is newer than what the table has."""
    scanned: int = 0
    """A lower bound of the rows that the scan of the topic counted."""
    is_late: bool = False
    """Some changes may be older than the table's rows, and some may be in the table already."""
    deletes: Deletes | None = None
    """With ``ordered_by``: earlier deletes, which count for keys without a row in the table."""
    places: frozenset[Place] = frozenset()
    """The known partitions of physical ids, also from the last ``write`` or ``dataframe``."""
    begins: tuple[Begin, ...] = ()
    """For a table without a key: where the tries of its rows begin (``changes.tries``)."""
    collector: Places | None = field(default=None, init=False, repr=False, compare=False)
    """Collects places while tasks read; ``None``: the plan has no partitions."""
    _zeros: Count | None = field(default=None, init=False, repr=False, compare=False)
    _rows: Count | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def columns(self) -> tuple[LakeColumn, ...]:
        """The columns of the changes, with keys marked. The last one is ``ordered_by``, if it is set."""
        return self.plan.columns if self.ordered_by is None else (*self.plan.columns, self.ordered_by)

    @property
    def size(self) -> int | None:
        """Approximate bytes of the messages that tasks read for ``write``; ``None``: only Spark can read them."""
        return None if self.ordered_by is not None else self.raw.size

    @property
    def is_counted(self) -> bool:
        """Whether the table has no key, so that net changes are counts of equal rows."""
        return self.plan.is_keyless

    @property
    def can_spread(self) -> bool:
        """Whether the keys can be spread over several tasks."""
        return can_spread([arrow_type(column.type) for column in self.columns if column.key or self.is_counted])

    @property
    def counts(self) -> Counts:
        """What the last ``write`` or ``dataframe`` read."""
        zeros, rows = self._zeros, self._rows
        return Counts(zero_dates=0 if zeros is None else zeros.value, rows=None if rows is None else rows.value)

    def begin(self) -> tuple[ReadPlan, Count, Count]:
        """Begin to read. Returns: the plan, and the counters of zero dates and of rows that ``counts`` shows"""
        self._zeros, self._rows = self.raw.count(), self.raw.count()
        self.collector = None if self.plan.partitioned is None else self.raw.places()
        return msgspec.structs.replace(self.plan, strict=not self.leave_out_unreadable), self._zeros, self._rows

    def write(self, task: ArrowTask, *, tasks: int = 1, keep_first: bool = False) -> list[bytes]:
        """Run the sink's own task over the net changes: in the driver if they are few, else in Spark's tasks.

        ``task``: gets the net changes of its keys in batches, possibly none, and returns one column of bytes, which
        this method returns. It runs ``tasks`` times in parallel, each with its own keys; more than once needs
        ``can_spread``.
        ``keep_first``: net changes also have the column ``FIRST``. Ordered ones have ``TIES`` and ``ALWAYS``, and their
        commit_ts in ``ordered_by``.

        Raises: SinkFault, SourceFault, SourceChanged; UnreadableRows when there are some that must not be skipped
        """
        if self.size is None:
            return self._write_by_spark(task, tasks, keep_first=keep_first)
        if self.is_counted:
            return self._run(_as_they_are, chain(counts(self._names, self.begins), task), tasks)
        net = net_of_keys(self._keys, self._names, keep_first=keep_first)
        return self._run(combine(self._keys, keep_first=keep_first), chain(net, task), tasks)

    def write_events(self, task: ArrowTask, above: int, *, tasks: int = 1) -> list[bytes]:
        """As ``write``, but over every change above a commit_ts, as rows of a history table.

        Raises: as ``write``
        """
        if self.size is None:
            with spark_faults("changes cannot be written"), self.events(None, above) as rows:
                return [bytes(row[0]) for row in rows.coalesce(1).mapInArrow(task, "part binary").collect()]
        then = chain(history_rows(self._keys, self._names, above), task)
        return self._run(every_change(self._keys, above), then, tasks, befores=True)

    def _run(self, first: ArrowTask, then: ArrowTask, tasks: int, *, befores: bool = False) -> list[bytes]:
        """Read, and run ``then`` over the rows of its keys. ``first``: drops rows before they go to other tasks."""
        read, rows = self._read(befores=befores)
        if self.raw.is_here:
            found = self.raw.run(chain(read, then))
        else:
            found = self.raw.run_spread(chain(read, first), self._keys, then, tasks)
        self.stop_if_fewer(rows.value)
        return found

    def _read(self, *, befores: bool = False) -> tuple[ArrowTask, Count]:
        """The task that reads raw rows, and their counter. ``befores``: with the rows that updates replace, if the plan
        has them."""
        plan, zeros, rows = self.begin()
        read = chain(counted(rows), read_rows(plan, zeros, self.collector))
        if plan.has_befores and not befores:
            read = chain(read, without_befores)
        return (chain(numbered_tries(self.begins), read) if self.is_counted else read), rows

    def stop_if_fewer(self, rows: int) -> None:
        """Stop before a commit if fewer rows were read than the scan counted, or if the rows of one physical id are in
        two partitions. Raises: SourceChanged, Misplaced"""
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
        """The net changes for a sink that merges with Spark SQL: with ``FIRST``, or ordered. Spark reads the topic
        once, and caches the rows in this context.

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
        """Cache rows in Spark for the duration of the context."""
        held = found.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with spark_faults("changes cannot be read"):
                held.count()
            self.stop_if_fewer(rows.value)
            # Few rows in several tasks would make several deletion vectors for one file. Iceberg joins them, but
            # leaves the first ones behind.
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
        """At most ``limit`` rows that cannot be read, each once, although a change of a key is two rows.

        Raises: SinkFault
        """
        loosely = read_rows(msgspec.structs.replace(self.plan, strict=False))
        found = dict.fromkeys(self.raw.collect(chain(loosely, _bad_rows(limit))))
        return [msgspec.json.decode(one, type=BadRow) for one in list(found)[:limit]]

    @property
    def _keys(self) -> list[str]:
        """The columns by which rows are spread over tasks."""
        return [column.name for column in self.columns if column.key or self.is_counted]

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.columns]


def _as_they_are(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def history_ddl(columns: Sequence[LakeColumn]) -> str:
    """The Spark schema of rows of a history table."""
    quoted = (f"{quote(column.name)} {column.type.spark}" for column in columns)
    return ", ".join([f"`{H_OP}` string", f"`{H_TS}` bigint", f"`{H_TIME}` timestamp", *quoted])


def stop_if_misplaced(places: Iterable[Place]) -> None:
    """Raises: Misplaced when the rows of one physical id are in two partitions"""
    names: dict[int, str] = {}
    for number, name in sorted(places):
        other = names.setdefault(number, name)
        if other != name:
            raise Misplaced(
                f"rows with the physical id {number} lie in {other} and in {name} by the partition expression, so that "
                "it is not evaluated as the source does"
            )


def _bad_rows(limit: int) -> ArrowTask:
    """Return a function from typed rows to at most ``limit`` unreadable ones, each once."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen: dict[str, None] = {}
        for batch in batches:
            bad = batch.column(BAD)
            if bad.null_count < len(bad) and len(seen) < limit:
                seen |= dict.fromkeys(pc.drop_null(bad).to_pylist())
        if seen:
            yield pa.record_batch([pa.array([one.encode() for one in seen][:limit], pa.binary())], ["bad"])

    return run
