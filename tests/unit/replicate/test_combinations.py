"""Combinations that random stories rarely draw: each fails if one decision of the job is left out."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import RowChange
from ticdc_spark.protocols.base import Encoded


def made(**job: object) -> Shop:
    shop = Shop(**job)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="a")
    shop.watermark()
    shop.run()
    return shop


def send_unreadable(shop: Shop, change: RowChange) -> None:
    """A row whose key is no number."""
    (encoded,) = shop.encoder.rows([change])
    assert encoded.value is not None
    assert b'"id":"1"' in encoded.value
    shop.send(Encoded(encoded.key, encoded.value.replace(b'"id":"1"', b'"id":"x"'), 1), "cdc")


def test_a_key_whose_delete_was_rejected_is_not_appended_a_second_time() -> None:
    """After a reject a table may hold rows that the source lacks: an insert must look for its key."""
    shop = made(on_reject="continue")
    send_unreadable(shop, shop.row("delete", (SCHEMA, "t"), {"id": "1"}))
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "diverged"
    shop.insert("t", id="1", v="b")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, "b")]


@pytest.mark.parametrize("again", [False, True])
def test_a_late_row_from_before_a_truncate_does_not_come_back(again: bool) -> None:
    """``late-rows = "apply-if-newest"``: the newest that was done to its key is the TRUNCATE."""
    shop = made(late_rows="apply-if-newest")
    shop.broker.add_partition("cdc")
    late = shop.row("insert", (SCHEMA, "t"), {"id": "2", "v": "late"})
    shop.sql("TRUNCATE TABLE t")
    shop.insert("t", id="3", v="c")
    shop.watermark()
    shop.batch()
    shop.clock.advance(3600.0)  # the second partition, which is silent, does not count any more
    shop.batch()
    assert shop.rows("t") == [(3, "c")]
    (encoded,) = shop.encoder.rows([late])
    shop.send(encoded, "cdc", 1)
    shop.send(shop.encoder.watermark(shop.watermark()), "cdc", 1)
    shop.run(again=again)
    assert shop.steps is not None
    assert shop.steps.progress.counters.late == 1
    assert shop.rows("t") == [(3, "c")]


def test_rows_behind_a_refused_ddl_wait_for_the_decision() -> None:
    """The job stops in front of it, and applies nothing of what comes after."""
    shop = made()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.watermark()
    shop.run()
    shop.insert("t", id="2", v="b")
    change = shop.change("ALTER TABLE u ADD COLUMN n INT")
    refused = "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u"
    shop.send(shop.encoder.ddl(msgspec.structs.replace(change, query=refused)), "cdc")
    shop.insert("t", id="3", v="c")
    shop.watermark()
    with pytest.raises(UnsupportedDdl):
        shop.run()
    assert shop.rows("t") == [(1, "a"), (2, "b")]
    assert shop.applied < change.commit_ts
