"""Reading rows: raw images of the change log to typed columns, as ``mapInArrow`` over a protocol's row reader.

Each change becomes one output row, a raw key change two: a delete of the old key and the new image. The columns
in front (``META_DDL``) carry what the net change needs; a change that cannot be read has its reason there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Accumulator

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table, Value
from ticdc_spark.mysql import NO_CONSTANT, default_value
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import Columns, ReadOptions, RowReader
from ticdc_spark.spark.types import HIDDEN_PREFIX, Cells, LakeColumn, LakeOptions, Typed, arrow_type, to_arrow

OP, TS, ORDER, SEQ, BAD = "_ticdc_op", "_ticdc_ts", "_ticdc_offset", "_ticdc_seq", "_ticdc_bad"
META_DDL = f"`{OP}` string, `{TS}` bigint, `{ORDER}` bigint, `{SEQ}` int, `{BAD}` string"
"""``op``: d, i or u (u where the protocol cannot tell); ``bad``: JSON of ``BadRow``."""
LOG_COLUMNS = ("topic", "partition", "offset", "seq", "op", "schema_key", "commit_ts", "partial", "before", "after")
"""What the function takes of the change log, in this order."""

UNREADABLE = "ticdc-unreadable-row"
_LETTERS = {"insert": "i", "update": "u", "upsert": "u", "delete": "d"}


class BadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row change that cannot be read."""

    topic: str
    partition: int
    offset: int
    seq: int
    commit_ts: int
    reason: str


class ReadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a reading task must know; sent to every task."""

    protocol: str
    tables: dict[str, Table]
    """Schema key to the version of the table that reads the images with that key."""
    columns: tuple[LakeColumn, ...]
    """The lake's columns to fill, keys marked."""
    options: ReadOptions
    lake: LakeOptions
    strict: bool = False
    """A change that cannot be read fails the task (with ``UNREADABLE`` in the text) instead of standing in ``BAD``."""


def rows_ddl(columns: Sequence[LakeColumn]) -> str:
    """The output's schema in Spark's words."""
    quoted = (f"`{column.name.replace('`', '``')}` {column.type.spark}" for column in columns)
    return ", ".join([META_DDL, *quoted])


def read_rows(
    plan: ReadPlan, zeros: Accumulator[int] | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for ``mapInArrow``: ``LOG_COLUMNS`` of one table to ``rows_ddl(plan.columns)``.

    ``zeros`` counts the zero and impossible dates that became NULL.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        versions: dict[str, _Version] = {}
        converters = [to_arrow(column, plan.lake) for column in plan.columns]
        for batch in batches:
            keys = batch.column("schema_key").to_pylist()
            for key in dict.fromkeys(keys):
                version = versions.get(key)
                if version is None:
                    version = versions[key] = _Version(plan, key)
                part = batch
                if len(versions) > 1 and any(other != key for other in keys):
                    part = batch.take(pa.array([at for at, other in enumerate(keys) if other == key], pa.int64()))
                typed, nulled = _typed(plan, version, converters, part)
                if nulled and zeros is not None:
                    zeros.add(nulled)
                yield typed

    return run


class _Version:
    """A compiled reader of one version of the table."""

    def __init__(self, plan: ReadPlan, key: str) -> None:
        self.table = plan.tables[key]
        protocol = decoder(plan.protocol)
        self.keys = [column.source for column in plan.columns if column.key]
        self.read: RowReader = protocol.row_reader(self.table, plan.options)
        self.read_keys: RowReader = protocol.row_reader(self.table, plan.options, frozenset(self.keys))
        self.places = {column.name: at for at, column in enumerate(self.table.columns)}
        self.fill = {column.source: _fill(column) for column in plan.columns if column.source not in self.places}


def _fill(column: LakeColumn) -> Value:
    """What a row of a version without the column gets: the column's default, as the source gives to older rows."""
    value = default_value(column.column)
    return None if value is NO_CONSTANT else value


def _typed(
    plan: ReadPlan, version: _Version, converters: Sequence[Callable[[Cells], Typed]], batch: pa.RecordBatch
) -> tuple[pa.RecordBatch, int]:
    """Type one batch of images of one version; also how many dates became NULL."""
    ops = [_LETTERS[op] for op in batch.column("op").to_pylist()]
    bad: dict[int, str] = {}
    if pc.any(batch.column("partial")).as_py():
        reason = "the row is not complete (large-message-handle = handle-key-only)"
        bad |= {at: reason for at, is_so in enumerate(batch.column("partial").to_pylist()) if is_so}
    new = _read(version, batch.column("after").to_pylist(), version.read, bad, complete=True)
    old = _read(version, batch.column("before").to_pylist(), version.read_keys, bad, complete=False)
    moved = _moved(version, ops, new, old) if new and old else []
    source = [*range(len(ops)), *moved]
    arrays: list[pa.Array] = []
    nulled = 0
    for column, convert, values in zip(
        plan.columns, converters, _cells(plan, version, ops, new, old, moved), strict=True
    ):
        array, failed, zeros = convert(values)
        nulled += zeros
        for at, reason in failed.items():
            bad.setdefault(source[at], reason)
        if column.key and array.null_count:
            for at in pc.indices_nonzero(array.is_null()).to_pylist():
                bad.setdefault(source[at], f"key column `{column.source}` is null")
        arrays.append(array)
    if bad and plan.strict:
        message = f"{UNREADABLE}: {next(iter(bad.values()))}"
        raise MessageError(message)
    meta = _meta(batch, [*ops, *("d" for _ in moved)], source, bad)
    fields = [*meta.schema, *(pa.field(c.name, arrow_type(c.type)) for c in plan.columns)]
    return pa.RecordBatch.from_arrays([*meta.columns, *arrays], schema=pa.schema(fields)), nulled


def _cells(
    plan: ReadPlan,
    version: _Version,
    ops: Sequence[str],
    new: Columns | None,
    old: Columns | None,
    moved: Sequence[int],
) -> Iterator[Cells]:
    """The values of each lake column: of the new image, but a delete's key (and what moved) of the old one."""
    size = len(ops)
    deletes = [at for at, op in enumerate(ops) if op == "d"]
    for column in plan.columns:
        place = version.places.get(column.source)
        if place is None:
            yield [version.fill[column.source]] * (size + len(moved))
            continue
        values: Cells = new.values[place] if new else [None] * size
        if not column.key or old is None:
            yield [*values, *([None] * len(moved))] if moved else values
            continue
        keys = old.values[place]
        if deletes:
            values = list(values)
            for at in deletes:
                values[at] = keys[at]
        yield [*values, *(keys[at] for at in moved)] if moved else values


def _read(
    version: _Version, images: list[bytes | None], read: RowReader, bad: dict[int, str], *, complete: bool
) -> Columns | None:
    """Read one side; ``None`` when no row has it. A column that a complete image lacks must be nullable (virtual)."""
    if not any(images):
        return None
    columns = read(images)
    for at, reason in columns.bad.items():
        bad.setdefault(at, reason)
    if complete:
        for name, rows in columns.absent.items():
            column = version.table.columns[version.places[name]]
            may_lack = column.nullable or column.virtual or name.startswith(HIDDEN_PREFIX)
            if not may_lack or name in version.keys:
                for at in rows:
                    if images[at] is not None:
                        bad.setdefault(at, f"the row has no column `{name}`")
    return columns


def _moved(version: _Version, ops: Sequence[str], new: Columns, old: Columns) -> list[int]:
    """Rows of raw key changes: an update whose key differs between its images."""
    moved: set[int] = set()
    for place in (version.places[name] for name in version.keys if name in version.places):
        mine, theirs = new.values[place], old.values[place]
        if mine != theirs:
            changed = (at for at, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b and b is not None)
            moved.update(at for at in changed if ops[at] == "u")
    return sorted(moved)


def _meta(batch: pa.RecordBatch, ops: Sequence[str], source: Sequence[int], bad: Mapping[int, str]) -> pa.RecordBatch:
    reasons: list[str | None] = [None] * len(source)
    for at in bad:
        place = batch.slice(at, 1).select(["topic", "partition", "offset", "seq", "commit_ts"]).to_pylist()[0]
        reasons[at] = msgspec.json.encode(BadRow(**place, reason=bad[at])).decode()
    taken = batch.select(["commit_ts", "offset", "seq"])
    if len(source) != batch.num_rows:
        taken = taken.take(pa.array(source, pa.int64()))
    for at, origin in enumerate(source[batch.num_rows :], batch.num_rows):
        reasons[at] = reasons[origin]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ops, pa.string()),
            *taken.columns,
            pa.array(reasons, pa.string()),
        ],
        names=[OP, TS, ORDER, SEQ, BAD],
    )
