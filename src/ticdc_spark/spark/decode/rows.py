"""Reading rows: raw images of the change log to typed columns, as ``mapInArrow`` over a protocol's row reader.

Each change becomes one output row, a raw key change two: a delete of the old key and the new image. The columns
in front (``META_DDL``) carry what the net change needs; a change that cannot be read has its reason there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table, Value
from ticdc_spark.mysql import NO_CONSTANT, default_value, fsp, utc_timestamp
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import Columns, ReadOptions, RowReader
from ticdc_spark.protocols.checksums import verifier
from ticdc_spark.spark.tasks import ArrowTask, in_worker
from ticdc_spark.spark.types import HIDDEN_PREFIX, Cells, LakeColumn, LakeOptions, Typed, arrow_type, to_arrow
from ticdc_spark.streams.handle_keys import Lookup, complete_columns

INCOMPLETE = "the row is not complete (large-message-handle = handle-key-only): `upstream` names the database to ask"
OP, TS, ORDER, SEQ, BAD = "_ticdc_op", "_ticdc_ts", "_ticdc_offset", "_ticdc_seq", "_ticdc_bad"
META_DDL = f"`{OP}` string, `{TS}` bigint, `{ORDER}` bigint, `{SEQ}` int, `{BAD}` string"
"""``op``: d, i or u (u where the protocol does not distinguish); ``bad``: JSON of ``BadRow``."""
LOG_COLUMNS = (
    *("topic", "partition", "offset", "seq", "op", "schema_key", "commit_ts", "partial", "before", "after"),
    *("checksum", "corrupted"),
)
"""What the function takes of the change log, in this order."""

UNREADABLE = "ticdc-unreadable-row"


class Counter(Protocol):
    """What counts in tasks: Spark's accumulator, for one."""

    def add(self, number: Any, /) -> Any:
        """Count."""


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
    """Registered schemas by id, for Avro: tasks do not use the registry."""
    upstream: str | None = None
    """URI of the database that is asked for rows of which only the key was sent."""


def rows_ddl(columns: Sequence[LakeColumn]) -> str:
    """The output's schema in Spark's words."""
    quoted = (f"`{column.name.replace('`', '``')}` {column.type.spark}" for column in columns)
    return ", ".join([META_DDL, *quoted])


def read_rows(plan: ReadPlan, zeros: Counter | None = None) -> ArrowTask:
    """Return the function for ``mapInArrow``: ``LOG_COLUMNS`` of one table to ``rows_ddl(plan.columns)``.

    ``zeros`` counts the zero and impossible dates that became NULL.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        versions: dict[str, _Version] = {}
        upstream = None if plan.upstream is None else Upstream(plan.upstream)
        converters = [to_arrow(column, plan.lake) for column in plan.columns]
        for batch in batches:
            keys = batch.column("schema_key")
            found = pc.unique(keys).to_pylist()
            for key in found:
                version = versions.get(key)
                if version is None:
                    version = versions[key] = _Version(plan, key, None if upstream is None else upstream.lookup)
                part = batch if len(found) == 1 else batch.filter(pc.equal(keys, key))
                typed, nulled = _typed(plan, version, converters, part)
                if nulled and zeros is not None:
                    zeros.add(nulled)
                yield typed
        if upstream is not None:
            upstream.close()

    return in_worker(run)


_UTC_DEFAULTS = ReadOptions()


class _Version:
    """A compiled reader of one version of the table."""

    def __init__(self, plan: ReadPlan, key: str, lookup: Lookup | None) -> None:
        self.table = plan.tables[key]
        self.lookup = lookup
        self.verify = verifier(self.table) if plan.options.verify_checksum else None
        protocol = decoder(plan.protocol, plan.schemas)
        self.keys = [column.source for column in plan.columns if column.key]
        self.read: RowReader = protocol.row_reader(self.table, plan.options)
        self.read_keys: RowReader = protocol.row_reader(self.table, plan.options, frozenset(self.keys))
        self.places = {column.name: at for at, column in enumerate(self.table.columns)}
        absent = [column for column in plan.columns if column.source not in self.places]
        self.fill = {column.source: _fill(column, plan.options) for column in absent}


def _fill(column: LakeColumn, options: ReadOptions = _UTC_DEFAULTS) -> Value:
    """What a row of a version without the column gets: the column's default, as the source gives to older rows."""
    value = default_value(column.column)
    if value is NO_CONSTANT:
        return None
    kind, zone = column.column.type, options.default_timezone
    if zone is None or kind.name != "timestamp" or not isinstance(value, str):
        return value
    # what `reject` refuses was refused when the DDL was applied
    return utc_timestamp(value, zone, fsp(kind), "later" if options.ambiguous_timestamp == "later" else "earlier")


def _typed(
    plan: ReadPlan, version: _Version, converters: Sequence[Callable[[Cells], Typed]], batch: pa.RecordBatch
) -> tuple[pa.RecordBatch, int]:
    """Type one batch of images of one version; also how many dates became NULL."""
    batch, first_old, end_new = _by_images(batch)
    size = batch.num_rows
    bad: dict[int, str] = {}
    new = _read(version, batch.slice(0, end_new), "after", bad)
    old = _read(version, batch.slice(first_old), "before", bad, first_old)
    if new is not None and version.verify is not None:
        found = batch.slice(0, end_new)
        marks = found.column("corrupted").fill_null(False).to_pylist()
        for at, reason in version.verify(new.values, found.column("checksum").to_pylist(), marks).items():
            bad.setdefault(at, reason)
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
    version: _Version, rows: pa.RecordBatch, side: Literal["after", "before"], bad: dict[int, str], first: int = 0
) -> Columns | None:
    """Read one side; ``None`` when no row has it. A column that a new image lacks must be nullable (virtual).

    ``first``: the place of the first of ``rows`` in the batch.
    """
    images = rows.column(side)
    if images.null_count == len(images):
        return None
    raw = images.to_pylist()
    if side == "before":
        columns = version.read_keys(raw)
    else:
        columns = version.read(raw)
        _complete(version, rows, columns, bad)
    for at, reason in columns.bad.items():
        bad.setdefault(at + first, reason)
    if side == "after":
        for name, lacking in columns.absent.items():
            column = version.table.columns[version.places[name]]
            may_lack = column.nullable or column.virtual or name.startswith(HIDDEN_PREFIX)
            if not may_lack or name in version.keys:
                for at in lacking:
                    if raw[at] is not None:
                        bad.setdefault(at, f"the row has no column `{name}`")
    return columns


def _complete(version: _Version, rows: pa.RecordBatch, columns: Columns, bad: dict[int, str]) -> None:
    """Ask the upstream for new rows of which only the key was sent; of a delete the key is enough."""
    lacking = pc.and_(rows.column("partial"), rows.column("after").is_valid())
    if not pc.any(lacking).as_py():
        return
    stamps = rows.column("commit_ts").to_pylist()
    partial = {at: stamps[at] for at, is_so in enumerate(lacking.to_pylist()) if is_so}
    if version.lookup is None:
        bad.update(dict.fromkeys(partial, INCOMPLETE))
    else:
        bad.update(complete_columns(version.table, columns, partial, version.lookup))


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
