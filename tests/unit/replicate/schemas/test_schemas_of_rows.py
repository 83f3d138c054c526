"""Tables that follow the schemas of their rows, without DDL: Avro, and Debezium's schema blocks."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.arrival_shop import CREATE, ArrivalShop
from tests.support.changefeed import SCHEMA
from ticdc_spark.errors import DecisionNeeded, RejectedMessage

PROTOCOLS = pytest.mark.parametrize("protocol", ["debezium", "avro", "debezium-avro"])


@PROTOCOLS
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", ["create", "change"])
def test_a_kill_between_columns_and_their_rows_changes_nothing(protocol: str, at: str, after: bool) -> None:
    shop = ArrivalShop(protocol, extension=True)
    shop.change(CREATE)
    shop.put("t", id="1", v="1")
    if at == "change":
        shop.run()
    shop.put("t", id="4", v="4")
    shop.change("ALTER TABLE t ADD COLUMN c INT")
    shop.put("t", id="2", v="2", c="3")
    shop.dies("apply the newest rows", after=after)
    shop.run(again=True)
    shop.change("ALTER TABLE t ADD COLUMN d INT")
    shop.put("t", id="3", v="2", c="3", d="4")
    shop.run()
    assert shop.row_ids() == [1, 2, 3, 4]
    assert shop.columns("t")[:4] == ("id", "v", "c", "d")


def test_a_table_that_was_made_before_a_bad_row_follows_later_schemas() -> None:
    shop = ArrivalShop("debezium", extension=True)
    shop.change(CREATE)
    (encoded,) = shop.encoder.rows([shop.row("insert", (SCHEMA, "t"), {"id": "1", "v": "1"})])
    assert encoded.value is not None
    shop.send(msgspec.structs.replace(encoded, value=encoded.value.replace(b'"v":1', b'"v":"x"')), "cdc")
    shop.put("t", id="2", v="2")
    with pytest.raises(RejectedMessage):
        shop.run()
    shop.configure(on_reject="continue")
    shop.run()
    shop.change("ALTER TABLE t ADD COLUMN c INT")
    shop.put("t", id="3", v="2", c="3")
    shop.run()
    assert shop.row_ids() == [2, 3]
    assert "c" in shop.columns("t")


def test_a_create_of_a_table_that_its_rows_have_made_names_a_commit_ts() -> None:
    shop = ArrivalShop("debezium", extension=True)
    shop.change(CREATE)
    row = shop.put("t", id="1", v="1")
    shop.run()
    shop.change("DROP TABLE t")
    shop.ddl(CREATE)
    with pytest.raises(DecisionNeeded, match=f"a row of commitTs {row.commit_ts} or before comes before the CREATE"):
        shop.run()
