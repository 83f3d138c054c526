"""Read merged tables (``config.shards``) in full: their shards, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from ticdc_spark.capture.snapshot.base import SnapshotReader, Wanted, Wave
from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled, shown
from ticdc_spark.config.shards import is_merged, merged_table
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.ddl import Comments
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Table, TableName, Value
from ticdc_spark.replicate.plan.merging import Misfit, merged_of, stop_if_alike, with_shard
from ticdc_spark.replicate.plan.spelling import by_source
from ticdc_spark.replicate.state.progress import Progress, Shard
from ticdc_spark.spark.tasks import UNREADABLE, ArrowTask, Counter, ReadParts, SourceMoved
from ticdc_spark.spark.types import LakeColumn, LakeOptions, arrow_type, to_arrow


class ShardRead(msgspec.Struct, frozen=True, array_like=True):
    """A shard whose rows are read."""

    source: TableName
    """Its name at the source."""
    name: TableName
    """The name that the job uses, and that its rows have in their origin columns."""
    identity: str
    schema: str
    """A digest of its current schema."""


class MergedTables:
    """The tables of a source, with merged tables in place of their shards. Like ``SnapshotReader``, without ``wave``.

    It looks at a merged table's current shards only once: each shard is listed once, and its schema is read once.
    """

    def __init__(self, reader: SnapshotReader, job: Job, progress: Progress) -> None:
        self.fixed, self.source = reader.fixed, reader
        self._routes, self._includes, self._progress = compiled(job.routes), table_filter(job.tables), progress
        self._now: dict[TableName, list[tuple[TableName, Table]]] = {}

    @property
    def exact(self) -> bool:
        return self.source.exact

    def tables(self) -> Sequence[TableName]:
        merged = self._merged
        shards = {source for found in merged.values() for source, _ in found}
        return [*(name for name in self.source.tables() if name not in shards), *merged]

    def names_of_shards(self, name: TableName) -> list[TableName]:
        """The shards of a merged table that the source has now, by the names that the job uses.

        Raises: SourceFault
        """
        return [known for _, known in self._merged.get(name, [])]

    def schema(self, name: TableName, at: int | None) -> Table | None:
        if not is_merged(name):
            return self.source.schema(name, at)
        shards, origin = self.shards(name, at), self._routes.origin(name)
        try:
            for one in shards:
                stop_if_alike(origin, one.full_name, [other.full_name for other in shards])
            return merged_of(name, origin, shards) if shards else None
        except Misfit as why:
            raise MessageError(f"its tables do not fit together: {why}") from why

    def comments(self, name: TableName, at: int | None) -> Comments:
        """The comments of a table; none of a merged one, whose shards may differ. Raises: as ``schema``"""
        return Comments() if is_merged(name) else self.source.comments(name, at)

    def shards(self, name: TableName, at: int | None) -> list[Table]:
        """The shards of a merged table, with the names that the job uses. Raises: as ``schema``"""
        return [table for _, table in self.by_source(name, at)]

    def by_source(self, name: TableName, at: int | None) -> list[tuple[TableName, Table]]:
        """The shards of a merged table, as pairs (name at the source, table). Raises: as ``schema``"""
        if at is not None:
            return self._shards_at(name, at)
        if name not in self._now:
            self._now[name] = self._shards_at(name, None)
        return self._now[name]

    def _shards_at(self, name: TableName, at: int | None) -> list[tuple[TableName, Table]]:
        found = []
        for source, known in self._merged.get(name, []):
            table = self.source.schema(source, at)
            if table is not None:
                found.append((source, msgspec.structs.replace(table, schema=known[0], name=known[1])))
        return found

    def identity(self, name: TableName) -> str:
        """The identity of a table. For a merged table, what ``wave_of_shards`` needs to know about its shards."""
        if not is_merged(name):
            return self.source.identity(name)
        found = [
            ShardRead(source, table.full_name, self.source.identity(source), _digest(table))
            for source, table in self.by_source(name, None)
        ]
        return msgspec.json.encode(found).decode()

    def estimate(self, name: TableName) -> int:
        if not is_merged(name):
            return self.source.estimate(name)
        return sum(self.source.estimate(source) for source, _ in self._merged.get(name, []))

    def now(self) -> int:
        return self.source.now()

    @cached_property
    def _merged(self) -> Mapping[TableName, list[tuple[TableName, TableName]]]:
        """The shards of each merged table: their names at the source and in the job. Raises: SourceFault"""
        found: dict[TableName, list[tuple[TableName, TableName]]] = {}
        for source, known in by_source(self._progress, self.source.tables()).items():
            merged = self._routes.merged(known) if self._includes(*known) else None
            if merged is not None:
                found.setdefault(merged, []).append((source, known))
        return found


class Merged(NamedTuple):
    """A merged table whose read has begun."""

    table: Table
    """The table when its read began."""
    origin: Sequence[str]
    """The columns that say which shard a row comes from."""
    columns_of: Callable[[Table], Sequence[LakeColumn]]
    """Gives the target's columns of a table."""
    filled: Callable[[LakeColumn], Value]
    """Gives the value of a column in rows of a shard that lacks it."""

    def fits(self, shard: Table) -> bool:
        """Whether the table can hold every row of a shard."""
        try:
            return with_shard(self.table, self.origin, shard) == self.table
        except (Misfit, UsageError):
            return False


def wave_of_shards(reader: SnapshotReader, wanted: Wanted, merged: Merged) -> Wave:
    """Plan the next chunks of a merged table, which are from one of its shards. Raises: as ``SnapshotReader.wave``"""
    shards = msgspec.json.decode(wanted.identity, type=list[ShardRead])
    number, _, upto = wanted.upto.partition(" ")
    at = int(number or 0)
    shard = shards[at]
    table = reader.schema(shard.source, wanted.at)
    if table is None:
        raise SourceMoved(f"{shown(shard.source)} is gone")
    named = msgspec.structs.replace(table, schema=shard.name[0], name=shard.name[1])
    if not merged.fits(named):
        raise SourceMoved(f"{shown(shard.source)} has other columns, or another key")
    origin = merged.origin
    wide = {column.name for column in wanted.columns}
    columns = tuple(
        column
        for column in merged.columns_of(merged_table(wanted.name, origin, named))
        if column.source not in origin and column.name in wide
    )
    read = {column.source for column in columns}
    of_shard = msgspec.structs.replace(
        wanted,
        name=shard.source,
        columns=columns,
        left_out=frozenset(column.name for column in table.columns if column.name not in read),
        upto=upto,
        identity=shard.identity,
    )
    wave = reader.wave(of_shard)
    constants = dict(zip(origin, shard.name[-len(origin) :], strict=True))
    values = {
        column.name: constants.get(column.source) if column.source in constants else merged.filled(column)
        for column in wanted.columns
        if column.source not in read
    }
    return Wave(
        parts=wave.parts,
        read=_Widened(wave.read, wanted.columns, values, wanted.lake),
        upto=f"{at + 1} " if wave.done else f"{at} {wave.upto}",
        done=wave.done and at + 1 == len(shards),
    )


def identity_with(identity: str, shards: Iterable[Table]) -> str:
    """The identity of a merged table with only these shards. ``identity``: with all shards that the source has."""
    there = {one.full_name for one in shards}
    found = [one for one in msgspec.json.decode(identity, type=list[ShardRead]) if one.name in there]
    return msgspec.json.encode(found).decode()


def _digest(table: Table) -> str:
    return blake2b(msgspec.json.encode(table), digest_size=8).hexdigest()


class _Widened:
    """Gives rows of a shard the columns of its merged table. Sent to tasks."""

    def __init__(
        self, read: ReadParts, columns: Sequence[LakeColumn], values: Mapping[str, Value], lake: LakeOptions
    ) -> None:
        """``values``: the values of columns that the shard lacks, by the lake's names."""
        self.read = read
        self.schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])
        self.constants: dict[str, pa.Array] = {}
        for column in columns:
            if column.name in values:
                self.constants[column.name], _, _ = to_arrow(column, lake)([values[column.name]])

    def __call__(self, zeros: Counter) -> ArrowTask:
        task = self.read(zeros)

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            read = iter(task(batches))
            for batch in read:
                try:
                    widened = self._widened(batch)
                except pa.ArrowInvalid as error:
                    # Read the rest first: it raises SourceMoved if the shard was altered, and the shard is read again.
                    for _ in read:
                        pass
                    raise MessageError(f"{UNREADABLE}: {error}") from error
                yield widened

        return run

    def _widened(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for field in self.schema:
            constant = self.constants.get(field.name)
            if constant is None:
                array = batch.column(batch.schema.get_field_index(field.name))
                arrays.append(_cast(array, field.type))
            else:
                arrays.append(constant.take(pa.array(np.zeros(batch.num_rows, np.int64))))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _cast(array: pa.Array, wider: pa.DataType) -> pa.Array:
    if array.type == wider:
        return array
    if pa.types.is_decimal(array.type) and pa.types.is_string(wider):
        # Arrow writes small numbers with an exponent.
        return pa.array([None if one is None else f"{one:f}" for one in array.to_pylist()], wider)
    return array.cast(wider)


def with_shards_read(progress: Progress, name: TableName, tables: Iterable[Table]) -> Progress:
    """The progress in which a merged table has these shards."""
    topics = {one.table.full_name: one.topics for one in progress.shards}
    read = (Shard(schema=name[0], name=name[1], table=one, topics=topics.get(one.full_name, ())) for one in tables)
    others = (one for one in progress.shards if one.full_name != name)
    return msgspec.structs.replace(progress, shards=(*others, *read))
