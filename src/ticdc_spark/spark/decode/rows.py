"""Reads rows: turns raw images into typed columns, as a task over a protocol's row reader.

Each change becomes one output row. A raw key change becomes two: a delete of the old key, and the new image. If old
images are requested, so does every update. The columns in front (``META_DDL``) carry what the net change needs. A
change that cannot be read has the reason there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import is_not

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.errors import MessageError
from ticdc_spark.spark.decode.places import Place, Places, Placing
from ticdc_spark.spark.decode.raw import RawRows, RawTask
from ticdc_spark.spark.decode.versions import (
    ReadPlan,
    Unkept,
    Version,
    cells_of,
    deleted_rows,
    lack_old,
    moved_rows,
    read_new,
    read_old,
)
from ticdc_spark.spark.tasks import UNREADABLE, Counter, in_worker
from ticdc_spark.spark.types import Cells, LakeColumn, Typed, arrow_type, to_arrow

META = OP, TS, ORDER, SEQ, BAD = "_ticdc_op", "_ticdc_ts", "_ticdc_offset", "_ticdc_seq", "_ticdc_bad"
TRY = "_ticdc_try"
"""A column that raw rows may have, see ``changes.tries``. If present, ``ORDER`` has its value instead of the offset."""
META_DDL = f"`{OP}` string, `{TS}` bigint, `{ORDER}` bigint, `{SEQ}` int, `{BAD}` string"
"""``op``: d, i or u (u if the protocol does not distinguish them), I or U, or b for the row that a u replaces
(``ReadPlan.has_befores``). ``seq``: of the change in its message; its complement, below 0, for the delete of the old
key of a key change. ``bad``: JSON of ``BadRow``."""
UNKEPT = ("I", "U")
"""The letters of an insert and an update to a row that the target does not keep: they only have the key. Such an event
is no delete among the events of one commit_ts, but counts as one if it is the last event (``as_deletes``)."""


class BadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row change that cannot be read."""

    topic: str
    partition: int
    offset: int
    seq: int
    commit_ts: int
    reason: str


def rows_ddl(columns: Sequence[LakeColumn]) -> str:
    """The output's schema as Spark DDL."""
    quoted = (f"`{column.name.replace('`', '``')}` {column.type.spark}" for column in columns)
    return ", ".join([META_DDL, *quoted])


def read_rows(plan: ReadPlan, zeros: Counter | None = None, places: Places | None = None) -> RawTask:
    """Return the function from row changes of one table to ``rows_ddl(plan.columns)``.

    ``zeros`` counts the zero and impossible dates that became NULL. ``places`` collects which partition has the new
    images of each physical id, if the plan has a partitioned table.
    """

    def run(batches: Iterable[RawRows]) -> Iterator[pa.RecordBatch]:
        versions: dict[str, Version] = {}
        upstream = None if plan.upstream is None else Upstream(plan.upstream)
        converters = [to_arrow(column, plan.lake) for column in plan.columns]
        placing: Placing | None = None
        for batch in batches:
            keys = _keys(plan, batch.about)
            found = pc.unique(keys).to_pylist()
            for key in found:
                version = versions.get(key)
                if version is None:
                    version = versions[key] = Version(plan, key, None if upstream is None else upstream.lookup)
                part = batch if len(found) == 1 else batch.filter(pc.equal(keys, key))
                part, first_old, end_new = _by_images(part)
                typed, nulled = _typed(plan, version, converters, part, (first_old, end_new))
                about = part.about
                if nulled and zeros is not None:
                    zeros.add(nulled)
                if places is not None and plan.partitioned is not None and _has_ids(about):
                    placing = placing or Placing(plan.partitioned, plan.columns, plan.lake, plan.places)
                    places.add(_placed(placing, version, about.slice(0, end_new), typed))
                yield _kept(typed) if version.is_keyless and version.filter is not None else typed
        if upstream is not None:
            upstream.close()

    return in_worker(run)


def as_deletes(ops: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Letters of events, with ``d`` for all events that leave no row in the target."""
    return pc.if_else(pc.is_in(ops, pa.array(UNKEPT)), "d", ops)


def _kept(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Drop the rows that the target does not keep. For a table without a key."""
    goes = pc.and_(pc.utf8_is_upper(rows.column(OP)), pc.is_null(rows.column(BAD)))
    return rows.filter(pc.invert(goes)) if pc.any(goes).as_py() else rows


def _keys(plan: ReadPlan, batch: pa.RecordBatch) -> pa.Array:
    """The schema key with which each row is read."""
    sent, stamps = batch.column("schema_key"), batch.column("commit_ts")
    keys = sent
    for above, key in plan.valid:
        keys = pc.if_else(pc.and_(pc.equal(sent, ""), pc.greater(stamps, above)), key, keys)
    return keys


def _has_ids(rows: pa.RecordBatch) -> bool:
    return bool(rows.column("table_id").null_count < len(rows))


def _placed(placing: Placing, version: Version, rows: pa.RecordBatch, typed: pa.RecordBatch) -> set[Place]:
    """The places of new images. The table's own id is not a partition's. If an update's key moved, its rows are two,
    and it is not known which of them has the id."""
    ids = rows.column("table_id")
    whole = pc.and_(pc.is_null(typed.column(BAD).slice(0, len(rows))), pc.invert(rows.column("partial")))
    if version.filter is not None:
        whole = pc.and_(whole, pc.utf8_is_lower(typed.column(OP).slice(0, len(rows))))
    if version.table.table_id is not None:
        whole = pc.and_(whole, pc.fill_null(pc.not_equal(ids, version.table.table_id), False))
    if pc.any(pc.equal(typed.column(OP).slice(len(rows)), "d")).as_py():
        whole = pc.and_(whole, pc.equal(rows.column("op"), "insert"))
    arrays = [array.slice(0, len(rows)).filter(whole) for array in typed.columns[len(META) :]]
    return placing.places(ids.filter(whole), arrays)


def _typed(
    plan: ReadPlan,
    version: Version,
    converters: Sequence[Callable[[Cells], Typed]],
    rows: RawRows,
    images: tuple[int, int],
) -> tuple[pa.RecordBatch, int]:
    """Type one batch of images of one version; also returns how many dates became NULL.

    ``images``: the first row with an old image, and the end of the rows with a new one.
    """
    first_old, end_new = images
    batch, size = rows.about, rows.num_rows
    bad: dict[int, str] = {}
    new = old = None
    if end_new:
        of_new = batch.slice(0, end_new)
        new, odd = read_new(version, rows.after[:end_new], bad, _partial(of_new, rows.after))
        if plan.strict and (odd.hidden or (odd.lacking and plan.expects != "nothing")):
            raise MessageError(f"{UNREADABLE}: {odd.text}")
    if first_old < size:
        old = read_old(version, rows.before[first_old:], bad, first_old)
    if new is not None and version.verify is not None:
        found = batch.slice(0, end_new)
        marks = found.column("corrupted").fill_null(False).to_pylist()
        for at, reason in version.verify(new.values, found.column("checksum").to_pylist(), marks).items():
            bad.setdefault(at, reason)
    lack_old(version, batch.column("op").slice(0, first_old), bad)
    letters = pc.utf8_slice_codeunits(batch.column("op"), 0, 1)
    moved = _updates(letters, moved_rows(version, new, old, first_old)) if new and old else []
    if gone := deleted_rows(version, plan, new, bad):
        letters = pc.if_else(pa.array([at in gone for at in range(size)]), "d", letters)
    unkept = Unkept.of(version, (new, old), first_old, bad)
    others = {*moved, *unkept.old}
    updates = _updates(letters, range(first_old, end_new)) if version.has_befores else []
    befores = [at for at in updates if at not in others]
    behind = [*moved, *befores]
    more = ["D" if version.is_keyless and at in unkept.old else "d" for at in moved] + ["b"] * len(befores)
    letters = _letters(version, letters, unkept, more, end_new)
    source = [*range(size), *behind]
    arrays: list[pa.Array] = []
    nulled = 0
    for column, convert in zip(plan.columns, converters, strict=True):
        array, failed, zeros = convert(cells_of(version, column, size, new, old, behind))
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
    meta = _meta(batch, letters, source, bad)
    fields = [*meta.schema, *(pa.field(c.name, arrow_type(c.type)) for c in plan.columns)]
    return pa.RecordBatch.from_arrays([*meta.columns, *arrays], schema=pa.schema(fields)), nulled


def _updates(letters: pa.Array, rows: Sequence[int]) -> list[int]:
    """The updates among some rows."""
    if not rows:
        return []
    are_updates = pc.equal(letters, "u").to_pylist()
    return [at for at in rows if are_updates[at]]


def _letters(version: Version, letters: pa.Array, unkept: Unkept, more: Sequence[str], end_new: int) -> pa.Array:
    """The letters of all rows. ``letters``: of the rows that were sent; ``more``: of the rows appended to them.
    ``end_new``: the end of the rows with a new image."""
    if unkept.new and not version.is_keyless:
        letters = pa.array([unkept.letter(at, op) for at, op in enumerate(letters.to_pylist())], pa.string())
    elif version.is_keyless and version.filter is not None:
        gone = {*unkept.new, *(at for at in unkept.old if at >= end_new)}
        letters = pa.array([op.upper() if at in gone else op for at, op in enumerate(letters.to_pylist())], pa.string())
    return pa.concat_arrays([letters, pa.array(more, pa.string())])


def _by_images(rows: RawRows) -> tuple[RawRows, int, int]:
    """Sort rows so that those with only a new image come first and those with only an old image last: each side is then
    contiguous.

    Returns: the rows, the first one with an old image, the end of the rows with a new one.
    """
    new, old = (np.fromiter(map(is_not, images, repeat(None)), bool) for images in (rows.after, rows.before))
    only_new, only_old = new & ~old, old & ~new
    first_old, count_old = int(np.count_nonzero(only_new)), int(np.count_nonzero(only_old))
    rank = only_old.astype(np.int8) - only_new
    if np.any(rank[1:] < rank[:-1]):
        rows = rows.take(np.argsort(rank, kind="stable"))
    return rows, first_old, rows.num_rows - count_old


def _partial(rows: pa.RecordBatch, images: Sequence[bytes | None]) -> dict[int, int]:
    """New rows for which only the key was sent: position to commit_ts."""
    lacking = rows.column("partial")
    if not pc.any(lacking).as_py():
        return {}
    stamps = rows.column("commit_ts").to_pylist()
    return {at: stamps[at] for at, is_so in enumerate(lacking.to_pylist()) if is_so and images[at] is not None}


def _meta(batch: pa.RecordBatch, letters: pa.Array, source: Sequence[int], bad: Mapping[int, str]) -> pa.RecordBatch:
    reasons: list[str | None] = [None] * len(source) if bad else []
    for at in bad:
        place = batch.slice(at, 1).select(["topic", "partition", "offset", "seq", "commit_ts"]).to_pylist()[0]
        reasons[at] = msgspec.json.encode(BadRow(**place, reason=bad[at])).decode()
    taken = batch.select(["commit_ts", TRY if TRY in batch.schema.names else "offset", "seq"])
    if len(source) != batch.num_rows:
        taken = taken.take(pa.array(source, pa.int64()))
    for at, origin in enumerate(source[batch.num_rows :], batch.num_rows) if bad else ():
        reasons[at] = reasons[origin]
    stamps, order, seq = taken.columns
    if len(source) != batch.num_rows:
        sent, old = seq.slice(0, batch.num_rows), seq.slice(batch.num_rows)
        is_replaced = pc.equal(letters.slice(batch.num_rows), "b")
        seq = pa.concat_arrays([sent, pc.if_else(is_replaced, old, pc.bit_wise_not(old))])
    return pa.RecordBatch.from_arrays(
        [letters, stamps, order, seq, pa.array(reasons, pa.string()) if bad else pa.nulls(len(source), pa.string())],
        names=[OP, TS, ORDER, SEQ, BAD],
    )


def without_befores(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Typed rows without the rows that updates replace. If one of these could not be read, the update has the
    reason."""
    for batch in batches:
        yield batch.filter(pc.not_equal(batch.column(OP), "b"))
