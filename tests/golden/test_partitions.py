"""TiCDC's own messages of a table with partitions through the job, up to its first EXCHANGE PARTITION."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop
from tests.support.vectors import case, needs_vectors

pytestmark = needs_vectors

EXCHANGE = 470606138953695232
"""Its commit_ts."""


@pytest.mark.parametrize(
    ("config", "protocol"),
    [
        ("simple_json", "simple"),
        ("open", "open"),
        ("canal_json_ext", "canal-json"),
        ("debezium_ext", "debezium"),
    ],
)
@pytest.mark.parametrize("rows", [40, 1000])
def test_drop_and_truncate_partition_lead_to_the_rows_of_the_database(config: str, protocol: str, rows: int) -> None:
    """Rows 1, 11, 21, 31 and 12: TRUNCATE PARTITION takes 11 before 12 comes, and DROP PARTITION takes 31."""
    shop = Shop(protocol, tables=("ddl1.pr",))
    for sent in case("tiflow", "ddl_all").config(config).messages:
        message = sent.message
        if b"EXCHANGE PARTITION" in (message.value or b""):
            break
        shop.broker.append(("cdc", 0), message.key, message.value, EXCHANGE >> 18)
    shop.send(shop.encoder.watermark(EXCHANGE), "cdc")
    shop.run(rows)
    assert shop.rows("pr", "ddl1") == [(1, 1), (12, 12), (21, 21)]
    assert shop.status("pr", "ddl1").condition == "clean"
    assert shop.steps is not None
    (state,) = (one for one in shop.steps.progress.tables if one.name == "pr")
    assert state.table is not None and state.table.partitioning is not None
    assert not state.table.partitioning.doubt
