"""TiCDC's own messages of a table with partitions through the job, up to the rows that the database has at the end."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop
from tests.support.vectors import case, needs_vectors

pytestmark = needs_vectors

FIRST_EXCHANGE = 470606138953695232
"""Its commit_ts."""
CONFIGS = pytest.mark.parametrize(
    ("config", "protocol"),
    [
        ("simple_json", "simple"),
        ("open", "open"),
        ("canal_json_ext", "canal-json"),
        ("debezium_ext", "debezium"),
    ],
)


def shop_of(config: str, protocol: str, until: bytes | None = None) -> Shop:
    """The messages, or those up to one that has a text."""
    shop = Shop(protocol, tables=("ddl1.pr", "ddl1.ex"))
    for sent in case("tiflow", "ddl_all").config(config).messages:
        message = sent.message
        if until is not None and until in (message.value or b""):
            break
        shop.broker.append(("cdc", 0), message.key, message.value, FIRST_EXCHANGE >> 18)
    return shop


@CONFIGS
@pytest.mark.parametrize("rows", [40, 1000])
def test_drop_and_truncate_partition_lead_to_the_rows_of_the_database(config: str, protocol: str, rows: int) -> None:
    """Rows 1, 11, 21, 31 and 12: TRUNCATE PARTITION takes 11 before 12 comes, and DROP PARTITION takes 31."""
    shop = shop_of(config, protocol, b"EXCHANGE PARTITION")
    shop.send(shop.encoder.watermark(FIRST_EXCHANGE), "cdc")
    shop.run(rows)
    assert shop.rows("pr", "ddl1") == [(1, 1), (12, 12), (21, 21)]
    assert shop.status("pr", "ddl1").condition == "clean"
    assert shop.steps is not None
    (state,) = (one for one in shop.steps.progress.tables if one.name == "pr")
    assert state.table is not None and state.table.partitioning is not None
    assert not state.table.partitioning.doubt


@CONFIGS
@pytest.mark.parametrize("rows", [40, 1000])
def test_every_ddl_on_partitions_leads_to_the_rows_of_the_database(config: str, protocol: str, rows: int) -> None:
    """EXCHANGE PARTITION with and without validation, REORGANIZE, REMOVE PARTITIONING, COALESCE and ADD."""
    shop = shop_of(config, protocol)
    shop.run(rows)
    final = {(one["schema"], one["table"]): one["rows"] for one in case("tiflow", "ddl_all").final_state["tables"]}
    for name in ("pr", "ex"):
        assert sorted(shop.rows(name, "ddl1") or ()) == sorted((int(key), int(v)) for key, v in final["ddl1", name]), (
            name
        )
        assert shop.status(name, "ddl1").condition == "clean"
