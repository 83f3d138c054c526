"""Encoding: row changes to the messages of any protocol that is written, as ``mapInArrow``.

A change's images are either another protocol's raw ones, as the change log keeps them, or structs of typed columns, as
a table of the lake has them. Either way they are read and encoded in one pass, by a reader and an encoder compiled for
each table and schema key. Topic and partition are where a change goes: what comes out is what Spark's Kafka sink takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, RowChange, Table
from ticdc_spark.protocols import PROTOCOLS, decoder
from ticdc_spark.protocols.base import Columns, Encoder, ReadOptions
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.spark.decode.rows import BadRow
from ticdc_spark.spark.encode.typed_images import image_reader
from ticdc_spark.spark.tasks import ArrowTask, in_worker
from ticdc_spark.spark.types import LakeColumn
from ticdc_spark.streams.registering import KnownIds
from ticdc_spark.streams.write_changes import write_changes

CHANGE_COLUMNS = (
    *("topic", "partition", "offset", "seq", "op", "schema", "table", "table_id", "schema_key", "commit_ts"),
    *("partial", "before", "after"),
)
"""What the function takes, in this order: columns of the change log. ``offset`` and ``seq`` identify a bad row."""
ENCODED_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("rows", pa.int32()),
        ("commit_ts", pa.int64()),
        ("bad", pa.string()),
    ]
)
"""``rows``: how many changes a message carries; ``commit_ts``: the newest of them. Where ``bad`` (JSON of ``BadRow``)
is not null there is no message, but a change that cannot be read or written."""
ENCODED_DDL = "topic string, partition int, key binary, value binary, rows int, commit_ts bigint, bad string"
UNWRITABLE = "ticdc-unwritable-row"


class RawImages(msgspec.Struct, frozen=True, kw_only=True):
    """Images are bytes of a protocol, as ``envelopes`` opened them."""

    protocol: str
    options: ReadOptions = ReadOptions()
    schemas: dict[int, str] | None = None
    """Registered schemas by id, for Avro."""


class TypedImages(msgspec.Struct, frozen=True, kw_only=True):
    """Images are structs of columns of the lake; all tables of a plan have them."""

    columns: tuple[LakeColumn, ...]


class EncodePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What an encoding task must know; sent to every task. Made by ``spark.encode.plan``."""

    protocol: str
    """The one to write."""
    options: Mapping[str, str]
    tables: Mapping[tuple[str, str, str], Table]
    """(schema, table, schema key) to the version of the table that reads and writes such rows."""
    images: RawImages | TypedImages
    ids: Mapping[tuple[str, str], int]
    """Registered (subject, schema) to their ids: tasks do not use the registry."""
    strict: bool = True
    """A change that cannot be read or written fails the task (``UNWRITABLE`` is in the text); else ``bad`` has it."""


def encode_rows(plan: EncodePlan) -> ArrowTask:
    """Return the function for ``mapInArrow``: ``CHANGE_COLUMNS`` to ``ENCODED_SCHEMA``."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        registry = KnownIds(plan.ids) if PROTOCOLS[plan.protocol].traits.registry else None
        encoder = target_encoder(plan.protocol, plan.options, registry)
        versions: dict[_Name, _Version] = {}
        for batch in batches:
            if batch.num_rows:
                yield _encoded(plan, batch, encoder, versions)

    return in_worker(run)


_Name: TypeAlias = tuple[str, str, str]
_Bad: TypeAlias = dict[int, str]


class _Version:
    """One version of a table, and what reads its images."""

    def __init__(self, plan: EncodePlan, name: _Name) -> None:
        self.table = plan.tables.get(name)
        self.lacks = "" if self.table else f"no schema for `{name[0]}`.`{name[1]}`, schema key {name[2]!r}"
        if self.table is not None:
            try:
                self._read = _reader(plan.images, self.table)
            except MessageError as error:
                self.lacks = str(error)

    def rows(self, images: pa.Array, bad: _Bad) -> list[Row | None]:
        """Images as rows, ``None`` where there is none or a bad one, whose reason goes into ``bad``."""
        if images.null_count == len(images):
            return [None] * len(images)
        if not images.null_count:
            return self._there(images, range(len(images)), bad)
        rows: list[Row | None] = [None] * len(images)
        places = pc.indices_nonzero(images.is_valid()).to_pylist()
        for at, row in zip(places, self._there(images.drop_null(), places, bad), strict=True):
            rows[at] = row
        return rows

    def _there(self, images: pa.Array, places: Sequence[int], bad: _Bad) -> list[Row | None]:
        assert self.table is not None
        columns = self._read(images)
        count = len(images)
        sent = [
            (column.name, cells)
            for column, cells in zip(self.table.columns, columns.values, strict=True)
            if len(columns.absent.get(column.name, ())) < count
        ]
        names = [name for name, _ in sent]
        rows: list[Any] = [dict(zip(names, row, strict=False)) for row in zip(*(c for _, c in sent), strict=True)]
        rows = rows or [{} for _ in range(count)]
        for name in columns.absent.keys() & {*names}:
            for at in columns.absent[name]:
                rows[at].pop(name)
        for at, reason in columns.bad.items():
            rows[at] = None
            bad.setdefault(places[at], f"`{self.table.schema}`.`{self.table.name}`: {reason}")
        return rows


def _reader(images: RawImages | TypedImages, table: Table) -> Callable[[pa.Array], Columns]:
    if isinstance(images, TypedImages):
        return image_reader(table, images.columns)
    read = decoder(images.protocol, images.schemas).row_reader(table, images.options)
    return lambda array: read(array.to_pylist())


def _encoded(
    plan: EncodePlan, batch: pa.RecordBatch, encoder: Encoder, versions: dict[_Name, _Version]
) -> pa.RecordBatch:
    bad: _Bad = {}
    changes = _changes(plan, batch, versions, bad)
    messages: list[tuple[str | None, int | None, bytes | None, bytes | None, int, int]] = []
    for (topic, partition), places in _groups(batch, ("topic", "partition")).items():
        good = [at for at in places if at not in bad]
        found, failed = write_changes(encoder, [changes[at] for at in good])
        if failed:
            bad |= {good[at]: reason for at, reason in failed.items()}
            good = [at for at in good if at not in bad]
        at = 0
        for one in found:
            newest = changes[good[at]].commit_ts
            if one.rows > 1:
                newest = max(changes[place].commit_ts for place in good[at : at + one.rows])
            messages.append((topic, partition, one.key, one.value, one.rows, newest))
            at += one.rows
    columns = list(zip(*messages, strict=True)) or [()] * 6
    arrays = [pa.array(cells, field.type) for cells, field in zip(columns, ENCODED_SCHEMA, strict=False)]
    written = pa.RecordBatch.from_arrays([*arrays, pa.nulls(len(messages), pa.string())], schema=ENCODED_SCHEMA)
    return pa.concat_batches([written, _bad_rows(plan, batch, bad)]) if bad else written


def _changes(plan: EncodePlan, batch: pa.RecordBatch, versions: dict[_Name, _Version], bad: _Bad) -> list[RowChange]:
    """The changes of a batch in its order; where one is bad, something that is not to be sent."""
    found: list[Any] = [None] * batch.num_rows
    plain = not PROTOCOLS[plan.protocol].traits.upserts
    groups = _groups(batch, ("schema", "table", "schema_key"))
    for name, places in groups.items():
        version = versions.get(name)
        if version is None:
            version = versions[name] = _Version(plan, name)
        table = version.table
        if version.lacks or table is None:
            bad |= dict.fromkeys(places, version.lacks)
            continue
        part = batch if len(groups) == 1 else batch.take(pa.array(places, pa.int64()))
        failed: _Bad = {}
        before, after = (version.rows(part.column(side), failed) for side in ("before", "after"))
        bad |= {places[at]: reason for at, reason in failed.items()}
        cells = (part.column(column).to_pylist() for column in ("op", "commit_ts", "table_id", "partial"))
        for at, op, ts, table_id, partial, old, new in zip(places, *cells, before, after, strict=True):
            found[at] = RowChange(
                op="insert" if plain and op == "upsert" else op,
                table=table,
                commit_ts=ts,
                before=old,
                after=new,
                table_id=table_id,
                partial=partial,
            )
    return found


def _groups(batch: pa.RecordBatch, names: Sequence[str]) -> dict[Any, Sequence[int]]:
    """The places of each combination of values, in the order of the first ones."""
    columns = [batch.column(name) for name in names]
    if all(len(column.unique()) == 1 for column in columns):
        return {tuple(column[0].as_py() for column in columns): range(batch.num_rows)}
    groups: dict[Any, list[int]] = {}
    for at, key in enumerate(zip(*(column.to_pylist() for column in columns), strict=True)):
        groups.setdefault(key, []).append(at)
    return groups  # type: ignore[return-value]


def _bad_rows(plan: EncodePlan, batch: pa.RecordBatch, bad: Mapping[int, str]) -> pa.RecordBatch:
    """Raises: MessageError if there is to be none."""
    rows = []
    for at in sorted(bad):
        (place,) = batch.slice(at, 1).select(["topic", "partition", "offset", "seq", "commit_ts"]).to_pylist()
        reason = msgspec.json.encode(BadRow(**place, reason=bad[at])).decode()
        if plan.strict:
            raise MessageError(f"{UNWRITABLE}: {reason}")
        rows.append({key: place[key] for key in ("topic", "partition", "commit_ts")} | {"rows": 0, "bad": reason})
    return pa.RecordBatch.from_pylist(rows, schema=ENCODED_SCHEMA)
