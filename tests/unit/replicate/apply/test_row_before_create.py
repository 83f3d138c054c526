"""Messages in an order that TiCDC does not send: a row before its CREATE TABLE, or a second CREATE TABLE."""

from __future__ import annotations

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import DecisionNeeded, SchemaMissing
from ticdc_spark.model import RowChange

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"


def early(*, one_batch: bool) -> tuple[Shop, int, int]:
    """Returns: the shop, and the commit_ts of the row and of the CREATE TABLE"""
    shop = Shop()
    create = shop.change(CREATE)
    row = RowChange(
        op="insert",
        table=shop.tables[SCHEMA, "t"],
        commit_ts=create.commit_ts - 100,
        after={"id": "1", "v": "a"},
    )
    shop.bootstrap("t")
    if not one_batch:
        shop.send_row(row)
        shop.send(shop.encoder.watermark(create.commit_ts - 10), "cdc")
        shop.run()
    shop.send_ddl(create)
    shop.insert("t", id="2", v="b")
    if one_batch:
        shop.send_row(row)
    shop.watermark()
    return shop, row.commit_ts, create.commit_ts


@pytest.mark.parametrize("one_batch", [True, False])
def test_a_row_before_its_create_table_is_reported_with_its_place(one_batch: bool) -> None:
    shop, row, create = early(one_batch=one_batch)
    with pytest.raises(DecisionNeeded) as stopped:
        shop.run()
    said = str(stopped.value)
    if one_batch:
        assert f"a row (topic cdc, partition 0, offset 3, commitTs {row}) comes before the CREATE TABLE" in said
    else:
        assert "or before comes before the CREATE TABLE" in said
    assert "drop" not in said and "adopt" not in said
    assert f'skip-ddl = ["{create}:CREATE TABLE"]' in said


@pytest.mark.parametrize("one_batch", [True, False])
def test_the_line_that_the_error_prints_lets_the_job_go_on(one_batch: bool) -> None:
    shop, _, create = early(one_batch=one_batch)
    with pytest.raises(DecisionNeeded):
        shop.run()
    shop.configure(skip_ddl=(SkipDdl(create, "CREATE TABLE"),))
    shop.run()
    assert shop.rows("t") == [(1, "a"), (2, "b")]
    assert shop.condition("t") == "diverged"


def test_a_second_create_table_is_reported_as_that() -> None:
    shop = Shop()
    first = shop.sql(CREATE)
    shop.insert("t", id="1", v="a")
    shop.change("DROP TABLE t")  # not sent, as by an event filter
    shop.sql(CREATE)
    shop.watermark()
    with pytest.raises(DecisionNeeded, match=f"a second CREATE TABLE comes .* since commitTs {first}, and no DROP"):
        shop.run()


def test_rows_without_a_schema_are_reported_with_the_offset_of_the_first() -> None:
    shop = Shop()
    shop.change(CREATE)
    for id_ in ("1", "2"):
        shop.insert("t", id=id_, v="a")
    shop.watermark()
    shop.run()
    shop.clock.advance(10_000)
    with pytest.raises(SchemaMissing, match=r"its first row is in topic cdc, partition 0, commitTs \d+, offset 0\."):
        shop.batch()
