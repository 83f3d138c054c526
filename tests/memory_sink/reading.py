"""Reading raw rows in plain Python: the same values that ``spark.decode.rows.read_rows`` makes of them.

Each value of a lake type is what Arrow makes of the canonical value; it is remembered, since few values come often.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tests.memory_sink.raw import RawRow
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.spark.decode.rows import BadRow
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
from ticdc_spark.spark.types import Cells, LakeColumn, LakeOptions, LakeType, to_arrow
from ticdc_spark.streams.handle_keys import Lookup

_TYPES_KEPT, _VALUES_KEPT = 256, 4096
_LONGEST_KEPT = 256
"""Characters or bytes of a canonical value that is remembered."""


class TypedRow(NamedTuple):
    """A change of one key: a delete of it, or its new image."""

    op: str
    """``d``, i or u; I or U where the row is not kept."""
    ts: int
    offset: int
    seq: int
    """Below 0: of the delete of the old key of a key change."""
    cells: tuple[Any, ...]
    """A value for each of ``ReadPlan.columns``, of the lake's type."""

    @property
    def is_gone(self) -> bool:
        """Whether the key has no row in the target after it."""
        return self.op == "d" or self.op.isupper()


class ReadRows(NamedTuple):
    """What rows of a log hold."""

    typed: list[TypedRow]
    bad: list[BadRow]
    """Those that cannot be read; a raw key change that cannot is there twice."""
    zero_dates: int


def read_raw(plan: ReadPlan, rows: Sequence[RawRow]) -> ReadRows:
    """Read rows of one table. Raises: as the versions' readers, for a column type that the protocol does not carry"""
    by_key: dict[str, list[RawRow]] = {}
    for row in rows:
        by_key.setdefault(row.schema_key, []).append(row)
    found = ReadRows([], [], 0)
    upstream = None if plan.upstream is None else Upstream(plan.upstream)
    for key, mine in by_key.items():
        lookup: Lookup | None = None if upstream is None else upstream.lookup
        found = _read_version(plan, Version(plan, key, lookup), mine, found)
    if upstream is not None:
        upstream.close()
    return found


def _read_version(plan: ReadPlan, version: Version, rows: list[RawRow], found: ReadRows) -> ReadRows:
    first_old = sum(row.before is None and row.after is not None for row in rows)
    end_new = len(rows) - sum(row.after is None and row.before is not None for row in rows)
    if 0 < max(first_old, len(rows) - end_new) < len(rows):
        rows = sorted(rows, key=_side)
    size = len(rows)
    bad: dict[int, str] = {}
    of_new = rows[:end_new]
    partial = {at: row.commit_ts for at, row in enumerate(of_new) if row.partial and row.after is not None}
    new, odd = read_new(version, [row.after for row in of_new], bad, partial)
    if plan.strict and (odd.hidden or (odd.lacking and plan.expects != "nothing")):
        raise MessageError(odd.text)
    old = read_old(version, [row.before for row in rows[first_old:]], bad, first_old)
    if new is not None and version.verify is not None:
        sums, marks = [row.checksum for row in of_new], [bool(row.corrupted) for row in of_new]
        for at, reason in version.verify(new.values, sums, marks).items():
            bad.setdefault(at, reason)
    lack_old(version, [row.op for row in rows[:first_old]], bad)
    letters = [row.op[0] for row in rows]
    moved = [at for at in moved_rows(version, new, old, first_old) if letters[at] == "u"] if new and old else []
    gone = deleted_rows(version, plan, new, bad)
    unkept = Unkept.of(version, (new, old), first_old, bad)
    letters = ["d" if at in gone else letter for at, letter in enumerate(letters)]
    others = {*moved, *unkept.old}
    updates = [at for at in range(first_old, end_new) if letters[at] == "u"] if version.has_befores else []
    befores = [at for at in updates if at not in others]
    letters = [unkept.letter(at, letter) for at, letter in enumerate(letters)]
    letters += ["d"] * len(moved) + ["b"] * len(befores)
    moved = [*moved, *befores]
    source = [*range(size), *moved]
    columns: list[list[Any]] = []
    nulled = 0
    for column in plan.columns:
        values, failed, zeros = _values(column, plan.lake, cells_of(version, column, size, new, old, moved))
        nulled += zeros
        for at, reason in failed.items():
            bad.setdefault(source[at], reason)
        if column.key and None in values:
            for at in [at for at, value in enumerate(values) if value is None]:
                bad.setdefault(source[at], f"key column `{column.source}` is null")
        columns.append(values)
    if bad and plan.strict:
        raise MessageError(next(iter(bad.values())))
    for number, (letter, at, cells) in enumerate(zip(letters, source, zip(*columns, strict=True), strict=True)):
        row = rows[at]
        if at in bad:
            found.bad.append(_bad(row, bad[at]))
        else:
            seq = ~row.seq if number >= size and letter == "d" else row.seq
            found.typed.append(TypedRow(letter, row.commit_ts, row.offset, seq, cells))
    return found._replace(zero_dates=found.zero_dates + nulled)


def _side(row: RawRow) -> int:
    """Rows with only a new image come first, those with only an old one last."""
    return (row.after is None) - (row.before is None)


def _bad(row: RawRow, reason: str) -> BadRow:
    return BadRow(
        topic=row.topic,
        partition=row.partition,
        offset=row.offset,
        seq=row.seq,
        commit_ts=row.commit_ts,
        reason=reason,
    )


def lake_values(column: LakeColumn, options: LakeOptions, cells: Iterable[Value]) -> list[Any]:
    """Canonical values as Python has the lake's type; one that cannot be read is ``None``."""
    return _values(column, options, list(cells))[0]


def _values(column: LakeColumn, options: LakeOptions, cells: Cells) -> tuple[list[Any], dict[int, str], int]:
    """As ``to_arrow``, with a list for the array."""
    if column.mask is not None:
        array, bad, nulled = to_arrow(column, options)(cells)
        return array.to_pylist(), bad, nulled
    known = _known(column.column.type, column.type, options)
    try:
        return [known[cell] for cell in cells], {}, 0
    except KeyError:
        pass
    if len(known) > _VALUES_KEPT:
        known.clear()
    convert = to_arrow(column, options)
    values: list[Any] = []
    bad, nulled = {}, 0
    for at, cell in enumerate(cells):
        if cell is None or cell in known:
            values.append(None if cell is None else known[cell])
            continue
        array, failed, zeros = convert([cell])
        values.append(array[0].as_py())
        nulled += zeros
        if failed:
            bad[at] = failed[0]
        elif not zeros and len(cell) <= _LONGEST_KEPT:
            known[cell] = values[-1]
    known[None] = None
    return values, bad, nulled


@lru_cache(_TYPES_KEPT)
def _known(source: ColumnType, lake: LakeType, options: LakeOptions) -> dict[Value, Any]:
    """The values of a type that were converted before."""
    return {}
