"""Row checksums of messages: verifies them against the values that were read, and computes them for sent rows.

A changefeed with ``integrity`` sends them in Simple, and in Avro (never for a delete). 0 means none: a row without
checksum, or half of a split update. The columns must be in the order of their ids.

TiCDC's new architecture sends Simple's schema in the table's own order. This order differs from the ids' after ``ADD
COLUMN … FIRST`` or ``AFTER``, and after some changes of a type. So orders are also accepted in which one column is
moved, or two are moved to the end. The chance that a wrong row is accepted is below one in a million, for a table of up
to 45 columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import permutations
from typing import TypeAlias
from zlib import crc32

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Checksum, Column, Row, RowChange, Table, Value
from ticdc_spark.mysql.checksum import Parts, column_parts, row_checksums

Verify: TypeAlias = Callable[[Sequence[Sequence[Value]], Sequence[int | None], Sequence[bool]], dict[int, str]]
"""(columns as in ``Columns.values``, each row's expected checksum, whether its message marks it as corrupted) → the
reasons of bad rows, by row number. A checksum of ``None``: nothing to verify."""

_MOVED = 45
"""Tables of at most this many columns are checked for other orders."""
_ORDERS = 8
"""How many orders a verifier remembers."""
_QUARTER_HOURS = [timedelta(minutes=15 * steps) for steps in range(-56, 57) if steps]


def expected(checksum: Checksum | None, *, partial: bool = False) -> tuple[int | None, int | None]:
    """The checksums that a message's before and after images should have; ``None``: nothing to verify.

    A column-level checksum (version 0) of an old row may be from before ADD or DROP COLUMN, so it proves nothing. TiCDC
    accepts it too.
    """
    if checksum is None or partial:
        return None, None
    return (checksum.previous if checksum.version else None) or None, checksum.current or None


def verifier(table: Table) -> Verify:
    """Compile the verification of a table's rows. It remembers only the found orders of columns."""
    parts = [column_parts(column.type) for column in table.columns]
    orders: list[tuple[int, ...]] = [tuple(range(len(parts)))]

    def verify(
        values: Sequence[Sequence[Value]], sums: Sequence[int | None], corrupted: Sequence[bool]
    ) -> dict[int, str]:
        bad = {at: "TiCDC marked the row as corrupted" for at, marked in enumerate(corrupted) if marked}
        if not any(sums):
            return bad
        encoded = [_encoded(of, cells, bad) for of, cells in zip(parts, values, strict=True)]
        hinted = False
        for at, (row, wanted) in enumerate(zip(zip(*encoded, strict=True), sums, strict=True)):
            if wanted is None or crc32(b"".join(row)) == wanted or (len(orders) > 1 and _ordered(row, wanted, orders)):
                continue
            found = _other_order(row, wanted)
            if found is not None:
                orders[:] = [*orders, found][-_ORDERS:]
                continue
            reason = f"the row's checksum is {crc32(b''.join(row))}, its message has {wanted}"
            if not hinted:
                hinted = True
                reason += _hint(table.columns, parts, [cells[at] for cells in values], row, wanted)
            bad[at] = f"{reason}; {bad[at]}" if at in bad else reason
        return bad

    return verify


def _encoded(parts: Parts, cells: Sequence[Value], bad: dict[int, str]) -> list[bytes]:
    try:
        return parts(cells)
    except MessageError:
        pass  # find the bad ones
    encoded = []
    for at, cell in enumerate(cells):
        try:
            encoded += parts([cell])
        except MessageError as error:
            bad.setdefault(at, str(error))
            encoded.append(b"")
    return encoded


def _ordered(row: Sequence[bytes], wanted: int, orders: Sequence[tuple[int, ...]]) -> bool:
    return any(crc32(b"".join([row[place] for place in order])) == wanted for order in orders)


def _other_order(row: Sequence[bytes], wanted: int) -> tuple[int, ...] | None:
    """A slightly different order of the columns in which the row has the checksum."""
    if len(row) > _MOVED:
        return None
    return next((order for order in _near_orders(len(row)) if _ordered(row, wanted, [order])), None)


def _near_orders(count: int) -> Iterator[tuple[int, ...]]:
    places = tuple(range(count))
    for at in places:
        rest = places[:at] + places[at + 1 :]
        for to in reversed(places):
            if to != at:
                yield (*rest[:to], at, *rest[to:])
    for pair in permutations(places, 2):
        yield (*(place for place in places if place not in pair), *pair)


def _hint(
    columns: Sequence[Column], parts: Sequence[Parts], cells: list[Value], row: Sequence[bytes], wanted: int
) -> str:
    """A likely cause of the mismatch, found by trying."""
    for at, column in enumerate(columns):
        if row[at] and _ordered((*row[:at], *row[at + 1 :]), wanted, [tuple(range(len(row) - 1))]):
            return f"; it fits if `{column.name}` is NULL"
    times = [at for at, column in enumerate(columns) if column.type.name == "timestamp" and cells[at] is not None]
    for chosen in dict.fromkeys([*((at,) for at in times), tuple(times)]):
        for shift in _QUARTER_HOURS if chosen else ():
            moved = [_moved(cell, shift) if at in chosen else cell for at, cell in enumerate(cells)]
            tried = [parts[at]([moved[at]])[0] if at in chosen else row[at] for at in range(len(row))]
            if crc32(b"".join(tried)) == wanted:
                names = ", ".join(f"`{columns[at].name}`" for at in chosen)
                minutes = int(shift.total_seconds()) // 60
                return f"; it fits if {names} is {minutes:+d} minutes away: source-timezone or ambiguous-timestamp"
    lost = [f"`{c.name}`" for c, cell in zip(columns, cells, strict=True) if isinstance(cell, str) and "\ufffd" in cell]
    return f"; {', '.join(lost)} holds U+FFFD: bytes that were no UTF-8 are lost on the wire" if lost else ""


def _moved(cell: Value, shift: timedelta) -> Value:
    try:
        text = str(cell)
        return (datetime.fromisoformat(text[:19]) + shift).isoformat(" ") + text[19:]
    except (ValueError, OverflowError):  # the zero timestamp
        return cell


class Summer:
    """Adds TiDB's checksums to changes, for one run of an encoder. Compiles once a table."""

    def __init__(self) -> None:
        # also keep the table, so that no other object gets its id
        self._tables: dict[int, tuple[Table, Callable[[Sequence[Sequence[Value]]], list[int]]]] = {}

    def __call__(self, change: RowChange) -> RowChange:
        """The change with checksums of version 0, if it has none and is not partial."""
        if change.checksum is not None or change.partial:
            return change
        table = change.table
        known = self._tables.get(id(table))
        if known is None:
            known = self._tables[id(table)] = table, row_checksums([column.type for column in table.columns])
        current, previous = (_sum(table, image, known[1]) for image in (change.after, change.before))
        made = Checksum(version=0, corrupted=False, current=current, previous=previous)
        return msgspec.structs.replace(change, checksum=made)


def _sum(table: Table, row: Row | None, checksums: Callable[[Sequence[Sequence[Value]]], list[int]]) -> int:
    if row is None:
        return 0
    (found,) = checksums([[row.get(column.name)] for column in table.columns]) or (0,)
    return found
