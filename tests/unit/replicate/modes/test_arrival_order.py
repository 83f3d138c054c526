"""The order of changes in arrival mode where only milliseconds are known (canal-json without the TiDB extension)."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.arrival_shop import CREATE, ArrivalShop
from tests.support.changefeed import SCHEMA
from ticdc_spark.model import RowChange


@pytest.mark.parametrize("rows", [1, 1000])
@pytest.mark.parametrize("first", [1, 2])
def test_a_statement_that_shifts_keys_loses_no_row(rows: int, first: int) -> None:
    """``UPDATE t SET id = id + 1``, by a changefeed with ``output-raw-change-event``."""
    shop = ArrivalShop("canal-json")
    shop.ddl(CREATE)
    shop.put("t", id="1", v="1")
    shop.put("t", id="2", v="2")
    shop.run()
    table, ts = shop.tables[SCHEMA, "t"], shop.tick()
    for old in (first, 3 - first):
        before, after = ({"id": str(key), "v": str(old)} for key in (old, old + 1))
        shop.put_row(RowChange(op="update", table=table, commit_ts=ts, before=before, after=after))
    shop.run(rows)
    assert [row[:2] for row in shop.rows("t") or ()] == [(2, 1), (3, 2)]


@pytest.mark.parametrize("rows", [1, 1000])
@pytest.mark.parametrize("gap", [None, "DROP TABLE t", "RENAME TABLE t TO o"])
def test_a_row_in_the_millisecond_of_its_create_table_is_applied(gap: str | None, rows: int) -> None:
    shop = ArrivalShop("canal-json", 2)
    if gap is not None:
        shop.ddl(CREATE)
        shop.put("t", id="1", v="1")
        shop.ddl(gap)
    create = shop.ddl(CREATE)
    row = shop.row("insert", (SCHEMA, "t"), {"id": "2", "v": "2"})
    shop.put_row(msgspec.structs.replace(row, commit_ts=create.commit_ts + 1), 1)
    shop.run(rows)
    assert (shop.row_ids(), shop.condition("t")) == ([2], "unverified")
