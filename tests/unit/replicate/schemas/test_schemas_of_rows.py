"""Tables that follow the schemas of their rows, without DDL: Avro, and Debezium's schema blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest

from tests.support.arrival_shop import CREATE, ArrivalShop
from tests.support.changefeed import SCHEMA
from ticdc_spark.errors import DecisionNeeded, RejectedMessage, UnsupportedDdl
from ticdc_spark.model import RowChange
from ticdc_spark.protocols.base import Encoded, Encoder

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


@pytest.mark.parametrize("protocol", ["avro", "debezium-avro"])
@pytest.mark.parametrize("rows", [4, 10, 1000])
def test_an_older_schema_of_a_partition_that_is_behind_changes_no_column(protocol: str, rows: int) -> None:
    shop = ArrivalShop(protocol, 2, extension=True)
    shop.change(CREATE)
    for number in range(30):
        shop.put("t", 0, id=str(number), v="1")
    shop.change("ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
    shop.put("t", 0, id="50", v="1", c="1")
    shop.change("ALTER TABLE t ADD COLUMN d INT")
    shop.put("t", 1, id="60", v="1", c="1", d="1")
    shop.run(rows)
    assert sorted(shop.row_ids()) == [*range(30), 50, 60]
    assert shop.columns("t")[:4] == ("id", "v", "c", "d")


@PROTOCOLS
@pytest.mark.parametrize("extension", [False, True])
def test_a_table_is_made_of_its_first_row_whatever_commit_ts_rows_have(protocol: str, extension: bool) -> None:
    shop = ArrivalShop(protocol, extension=extension)
    shop.change(CREATE)
    shop.put("t", id="1", v="1")
    shop.run()
    shop.put("t", id="2", v="2")
    shop.run()
    assert [row[:2] for row in shop.rows("t") or ()] == [(1, 1), (2, 2)]


@pytest.mark.parametrize("change", ["DROP COLUMN v", "RENAME COLUMN v TO w"])
def test_a_newer_schema_without_a_column_still_stops_the_job(change: str) -> None:
    shop = ArrivalShop("avro", extension=True)
    shop.change(CREATE)
    shop.put("t", id="1", v="1")
    shop.run()
    shop.change(f"ALTER TABLE t {change}")
    shop.put("t", id="2", v="2", w="2")
    with pytest.raises(UnsupportedDdl, match="column `v` is gone"):
        shop.run()


def shop_that_returns(rows_at_once: bool, **job: str) -> ArrivalShop:
    """The topic begins while the table has a column more than its first schema, and then the column is dropped."""
    shop = ArrivalShop("avro", 2, extension=True, **job)
    shop.change(CREATE)
    shop.encoder.rows([shop.row("insert", (SCHEMA, "t"), {"id": "9", "v": "9"})])  # registers the schema
    shop.change("ALTER TABLE t ADD COLUMN c INT")
    shop.put("t", id="1", v="1", c="1")
    shop.put("t", 1, id="3", v="3", c="3")
    if not rows_at_once:
        shop.run()
    shop.change("ALTER TABLE t DROP COLUMN c")
    shop.put("t", id="2", v="2")
    return shop


@pytest.mark.parametrize("rows_at_once", [False, True])
def test_a_table_that_returns_to_a_schema_that_the_job_has_not_read_stops_the_job(rows_at_once: bool) -> None:
    shop = shop_that_returns(rows_at_once)
    with pytest.raises(UnsupportedDdl, match="column `c` is gone"):
        shop.run()
    shop.configure(schema_change="keep")
    shop.run()
    assert shop.row_ids() == [1, 2, 3]
    assert shop.columns("t")[:3] == ("id", "v", "c")


def test_a_new_process_finds_that_a_table_returned_to_an_older_schema() -> None:
    shop = shop_that_returns(False)
    shop.stop()
    with pytest.raises(UnsupportedDdl, match="column `c` is gone"):
        shop.run()


class DeletesWithTime:
    """An encoder of Avro whose deletes have a commitTs, as in TiCDC's new architecture."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def rows(self, changes: Iterable[RowChange]) -> Iterator[Encoded]:
        for change in changes:
            (encoded,) = self._encoder.rows([change])
            value = b"\3" + change.commit_ts.to_bytes(8, "big") if change.op == "delete" else encoded.value
            yield msgspec.structs.replace(encoded, value=value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)


@pytest.mark.parametrize("cut", [False, True])
def test_with_watermarks_a_delete_makes_no_table_of_its_key(cut: bool) -> None:
    shop = ArrivalShop("avro", extension=True, mode="watermark")
    shop.encoder = DeletesWithTime(shop.encoder)
    shop.change(CREATE)
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "1"}
    shop.put_row(shop.row("delete", (SCHEMA, "t"), {"id": "1"}))
    if cut:
        shop.watermark()
        shop.run()
        assert shop.rows("t") is None
    shop.put("t", id="2", v="5")
    shop.watermark()
    shop.run()
    assert (shop.columns("t"), shop.rows("t")) == (("id", "v"), [(2, 5)])
