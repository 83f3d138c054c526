"""What comes around a full read of several moments, which ends clean once all of them are applied."""

from __future__ import annotations

import msgspec

from tests.unit.test_holes.changefeed import SCHEMA
from tests.unit.test_holes.shop import Shop
from tests.unit.test_holes.test_row_columns import LACKED, send_without


def shop_that_settles(protocol: str, columns: str) -> Shop:
    """A table that was there before its changefeed, has been read in full while it changed, and is not clean yet. No
    message and no database says which of its columns are generated."""
    shop = Shop(protocol, snapshot="now")
    shop.change(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    table = shop.tables[SCHEMA, "t"]
    unsaid = tuple(msgspec.structs.replace(column, virtual=None) for column in table.columns)
    shop.tables[SCHEMA, "t"] = msgspec.structs.replace(table, columns=unsaid)
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "1", "w": "1"}
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.start()
    assert shop.steps is not None
    for number in range(8):
        shop.watermark()
        shop.insert("other", id=str(number))
        shop.clock.advance(1.0)
        shop.steps.load(lambda _phase, _batch: None)
        if any(table.settles for table in shop.steps.progress.tables):
            return shop
        shop.steps.batch(None, lambda _phase, _batch: None)
    raise AssertionError("the table is not read in several moments")


def test_a_column_that_rows_lack_while_a_full_read_settles_marks_the_table() -> None:
    shop = shop_that_settles("open", "v INT, w INT")
    send_without(shop, "w", id="2", v="2", w="2")
    for _ in range(3):
        shop.watermark()
        shop.run()
    rows = shop.rows("t")
    assert rows is not None
    assert (2, 2, None) in rows
    assert LACKED in shop.status("t").detail
    assert shop.condition("t") == "diverged"
