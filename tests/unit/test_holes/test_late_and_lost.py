"""A table that comes later than the others, and a state that is lost while it catches up: at each durable action."""

from __future__ import annotations

from itertools import count
from typing import Literal

import pytest

from tests.simulator.faults import Fault
from tests.unit.test_holes.changefeed import SCHEMA
from tests.unit.test_holes.shop import Shop
from tests.unit.test_holes.test_lost_state import catch_up, table

CREATE = "CREATE TABLE late (id INT PRIMARY KEY)"
DDLS: dict[str, tuple[tuple[str, ...], str, list[int] | None]] = {
    "none": ((), "late", [1, 2, 3]),
    "rename": (("RENAME TABLE late TO later",), "later", [1, 2, 3]),
    "column": (("ALTER TABLE late ADD COLUMN n INT",), "late", [1, 2, 3]),
    "truncate": (("TRUNCATE TABLE late",), "late", [3]),
    "drop": (("DROP TABLE late",), "late", None),
    "another": (("DROP TABLE late", CREATE), "late", [3]),
    "to and fro": (("RENAME TABLE late TO later", "RENAME TABLE later TO late"), "late", [1, 2, 3]),
    "rename, column": (("RENAME TABLE late TO later", "ALTER TABLE later ADD COLUMN n INT"), "later", [1, 2, 3]),
    "successor": (("RENAME TABLE late TO later", CREATE), "late", [3]),
}
"""DDLs, the name of the table afterwards, and its rows."""


def begun(ddls: tuple[str, ...], name: str, how: str, *, row: bool) -> Shop:
    """The others are beyond a table whose messages wait. ``how``: whether it has been read in part."""
    shop = table(topic_per_table=True)
    created = shop.change(CREATE)
    first = shop.row("insert", (SCHEMA, "late"), {"id": "1"})
    low = shop.tick()
    second = shop.row("insert", (SCHEMA, "late"), {"id": "2"})
    changes = [shop.change(sql) for sql in ddls]
    third = [shop.row("insert", (SCHEMA, name), {"id": "3"})] if row else []
    if how == "catches up":
        catch_up(shop, created, first, low)
    else:
        for number in ("2", "3"):
            shop.insert("t", id=number, v="b")
            shop.watermark("cdc_shop_t")
            shop.run()
        shop.send_ddl(created)
        shop.send_row(first)
    shop.send_row(second)
    for change in changes:
        shop.send_ddl(change)
    for one in third:
        shop.send_row(one)
    shop.watermark()
    return shop


def judge(shop: Shop, name: str, expected: list[int] | None) -> None:
    rows = shop.rows(name)
    equal = (None if rows is None else sorted(row[0] for row in rows)) == expected
    assert equal or shop.condition(name) in ("diverged", "unverified")
    for other in {"late", "later"} - {name}:
        # As of a table that went on under the other name, nothing may be left that counts as the source's.
        rows = shop.rows(other)
        assert rows is None or shop.condition(other) == "diverged" or rows == [(1,), (2,)]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("how", ["catches up", "is new"])
@pytest.mark.parametrize("ddls", DDLS)
def test_a_late_table_is_equal_or_marked_wherever_the_state_is_lost(ddls: str, how: str, times: int) -> None:
    statements, name, expected = DDLS[ddls]
    deaths = 0
    kinds: tuple[Literal["die_before", "die_after"], ...] = ("die_before", "die_after")
    for kind in kinds:
        for at in count():
            shop = begun(statements, name, how, row=expected is not None)
            if not shop.dies_at(Fault(at=at, kind=kind)):
                break
            deaths += 1
            shop.lose_state()
            if times == 2:
                shop.dies_at(Fault(at=5, kind=kind))
                shop.lose_state()
            for _ in range(3):
                shop.watermark()
                shop.run()
            judge(shop, name, expected)
    assert deaths > 5
