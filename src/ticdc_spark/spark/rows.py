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
from ticdc_spark.spark.tasks import ArrowTask, in_worker
from ticdc_spark.spark.types import HIDDEN_PREFIX, Cells, LakeColumn, LakeOptions, Typed, arrow_type, to_arrow

OP, TS, ORDER, SEQ, BAD = "_ticdc_op", "_ticdc_ts", "_ticdc_offset", "_ticdc_seq", "_ticdc_bad"
META_DDL = f"`{OP}` string, `{TS}` bigint, `{ORDER}` bigint, `{SEQ}` int, `{BAD}` string"
"""``op``: d, i or u (u where the protocol cannot tell); ``bad``: JSON of ``BadRow``."""
LOG_COLUMNS = ("topic", "partition", "offset", "seq", "op", "schema_key", "commit_ts", "partial", "before", "after")
"""What the function takes of the change log, in this order."""

UNREADABLE = "ticdc-unreadable-row"


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
    schemas: dict[int, str] | None = None
    """Registered schemas by id, for Avro: a task asks no registry."""


def rows_ddl(columns: Sequence[LakeColumn]) -> str:
    """The output's schema in Spark's words."""
    quoted = (f"`{column.name.replace('`', '``')}` {column.type.spark}" for column in columns)
    return ", ".join([META_DDL, *quoted])


def read_rows(plan: ReadPlan, zeros: Accumulator[int] | None = None) -> ArrowTask:
    """Return the function for ``mapInArrow``: ``LOG_COLUMNS`` of one table to ``rows_ddl(plan.columns)``.

    ``zeros`` counts the zero and impossible dates that became NULL.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        versions: dict[str, _Version] = {}
        converters = [to_arrow(column, plan.lake) for column in plan.columns]
        for batch in batches:
            keys = batch.column("schema_key")
            found = pc.unique(keys).to_pylist()
            for key in found:
                version = versions.get(key)
                if version is None:
                    version = versions[key] = _Version(plan, key)
                part = batch if len(found) == 1 else batch.filter(pc.equal(keys, key))
                typed, nulled = _typed(plan, version, converters, part)
                if nulled and zeros is not None:
                    zeros.add(nulled)
                yield typed

    return in_worker(run)


class _Version:
    """A compiled reader of one version of the table."""

    def __init__(self, plan: ReadPlan, key: str) -> None:
        self.table = plan.tables[key]
        protocol = decoder(plan.protocol, plan.schemas)
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
    batch, first_old, end_new = _by_images(batch)
    size = batch.num_rows
    bad: dict[int, str] = {}
    lacking = pc.and_(batch.column("partial"), batch.column("after").is_valid())  # of a delete the key is enough
    if pc.any(lacking).as_py():
        reason = "the row is not complete (large-message-handle = handle-key-only)"
        bad |= {at: reason for at, is_so in enumerate(lacking.to_pylist()) if is_so}
    new = _read(version, batch.column("after").slice(0, end_new), version.read, bad)
    old = _read(version, batch.column("before").slice(first_old), version.read_keys, bad, first_old)
    letters = pc.utf8_slice_codeunits(batch.column("op"), 0, 1)
    moved = _moved(version, letters, new, old, first_old) if new and old else []
    source = [*range(size), *moved]
    arrays: list[pa.Array] = []
    nulled = 0
    for column, convert in zip(plan.columns, converters, strict=True):
        array, failed, zeros = convert(_cells(version, column, size, new, old, moved))
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
    meta = _meta(batch, pa.concat_arrays([letters, pa.array(["d"] * len(moved), pa.string())]), source, bad)
    fields = [*meta.schema, *(pa.field(c.name, arrow_type(c.type)) for c in plan.columns)]
    return pa.RecordBatch.from_arrays([*meta.columns, *arrays], schema=pa.schema(fields)), nulled


def _by_images(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int, int]:
    """Put rows with only a new image first and those with only an old one last, so that each side lies together.

    Returns: the batch, the first row with an old image, the end of those with a new one.
    """
    new, old = (batch.column(name).is_valid() for name in ("after", "before"))
    only_new, only_old = pc.and_not(new, old), pc.and_not(old, new)
    first_old, count_old = pc.sum(only_new).as_py() or 0, pc.sum(only_old).as_py() or 0
    if batch.num_rows > max(first_old, count_old) > 0:
        rank = pc.subtract(only_old.cast(pa.int8()), only_new.cast(pa.int8()))
        batch = batch.take(pc.array_sort_indices(rank))
    return batch, first_old, batch.num_rows - count_old


def _cells(
    version: _Version, column: LakeColumn, size: int, new: Columns | None, old: Columns | None, moved: Sequence[int]
) -> Cells:
    """The values of a lake column: of the new image; a key where there is none, or that moved away, of the old one."""
    place = version.places.get(column.source)
    if place is None:
        return [version.fill[column.source]] * (size + len(moved))
    mine: Cells = new.values[place] if new else []
    if not column.key or old is None:
        return [*mine, *([None] * (size + len(moved) - len(mine)))] if len(mine) < size or moved else mine
    theirs = old.values[place]
    lacking = size - len(mine)
    first_old = size - len(theirs)
    return [*mine, *theirs[len(theirs) - lacking :], *(theirs[at - first_old] for at in moved)]


def _read(
    version: _Version, images: pa.Array, read: RowReader, bad: dict[int, str], first: int | None = None
) -> Columns | None:
    """Read one side; ``None`` when no row has it. A column that a new image lacks must be nullable (virtual).

    ``first``: the row of the first old image; ``None``: these are new images.
    """
    if images.null_count == len(images):
        return None
    raw = images.to_pylist()
    columns = read(raw)
    for at, reason in columns.bad.items():
        bad.setdefault(at + (first or 0), reason)
    if first is None:
        for name, rows in columns.absent.items():
            column = version.table.columns[version.places[name]]
            may_lack = column.nullable or column.virtual or name.startswith(HIDDEN_PREFIX)
            if not may_lack or name in version.keys:
                for at in rows:
                    if raw[at] is not None:
                        bad.setdefault(at, f"the row has no column `{name}`")
    return columns


def _moved(version: _Version, letters: pa.Array, new: Columns, old: Columns, first_old: int) -> list[int]:
    """Rows of raw key changes: an update whose key differs between its images."""
    moved: set[int] = set()
    for place in (version.places[name] for name in version.keys if name in version.places):
        mine, theirs = new.values[place][first_old:], old.values[place]
        if mine != theirs[: len(mine)]:
            pairs = enumerate(zip(mine, theirs, strict=False), first_old)
            moved.update(at for at, (a, b) in pairs if a != b and b is not None)
    return [at for at in sorted(moved) if letters[at].as_py() == "u"]


def _meta(batch: pa.RecordBatch, letters: pa.Array, source: Sequence[int], bad: Mapping[int, str]) -> pa.RecordBatch:
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
            letters,
            *taken.columns,
            pa.array(reasons, pa.string()),
        ],
        names=[OP, TS, ORDER, SEQ, BAD],
    )
