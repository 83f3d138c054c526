"""Row checksums of messages: verified against the values that were read, and computed for what is sent.

A changefeed with ``integrity`` sends them in Simple, and in Avro (never for a delete). 0 stands for none: a row written
without, or half of a split update. The columns must stand in the order of their ids. TiCDC's new architecture sends
Simple's schema in the table's own order, which is another one after ``ADD COLUMN … FIRST`` or ``AFTER`` and after some
changes of a type; so an order is also good that comes of moving one column, or two to the end: that this makes a wrong
row look right has a chance below one in a million, for a table of up to 45 columns.
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
"""(columns as ``Columns.values``, the checksum that each row should have, whether its message marks it as corrupted) to
the reasons of the bad rows, by their number. ``None``: this row has none to verify."""

_MOVED = 45
"""Columns up to which other orders are looked for."""
_ORDERS = 8
"""Orders that a verifier remembers."""
_QUARTER_HOURS = [timedelta(minutes=15 * steps) for steps in range(-56, 57) if steps]


def expected(checksum: Checksum | None, *, partial: bool = False) -> tuple[int | None, int | None]:
    """The checksums that a message's before and after images should have; ``None``: nothing to verify.

    A column-level checksum (version 0) of an old row may be that of a row before ADD or DROP COLUMN, so it shows
    nothing; TiCDC itself lets it pass.
    """
    if checksum is None or partial:
        return None, None
    return (checksum.previous if checksum.version else None) or None, checksum.current or None


def verifier(table: Table) -> Verify:
    """Compile the verification of a table's rows. It remembers only the orders of columns that it has found."""
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
        pass  # look for the bad ones
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
    """An order of the columns, a little different, in which the row has the checksum."""
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
    """What may be wrong, found by trying."""
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
    """Gives changes the checksums that TiDB would, of one run of an encoder. Compiles once a table."""

    def __init__(self) -> None:
        # the table is kept too, so that its id is not given to another
        self._tables: dict[int, tuple[Table, Callable[[Sequence[Sequence[Value]]], list[int]]]] = {}

    def __call__(self, change: RowChange) -> RowChange:
        """The change with checksums of version 0, if it has none; a partial one stays without."""
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
