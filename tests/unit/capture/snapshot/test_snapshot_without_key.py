"""A full read of a table that has no key."""

import pytest

from ticdc_spark.capture.snapshot.keys import KeyedTable, next_ranges
from ticdc_spark.errors import DecisionNeeded


def test_a_table_without_a_key_is_refused_and_not_asked_for() -> None:
    table = KeyedTable(source="`shop`.`nokey`", names=(), types=(), literal=str)
    with pytest.raises(
        DecisionNeeded, match=r"^`shop`\.`nokey`: there is no primary key .*Exclude such tables with `tables`"
    ):
        next_ranges(table, lambda _sql: pytest.fail("asked"), "", rows=100, count=1)
