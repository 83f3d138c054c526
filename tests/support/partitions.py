"""Tables with partitions, and in which of them a row lies by the conditions of this package."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from ticdc_spark.ddl import parse_create
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.partition_rows import ColumnTest, NotComputed, rows_of
from ticdc_spark.ddl.partitions import parse_partitioning
from ticdc_spark.ddl.statements import CreateTable
from ticdc_spark.model import Table


def table(columns: str, by: str) -> Table:
    sql = f"CREATE TABLE t ({columns}) PARTITION BY {by}"
    statement = parse(sql)
    assert isinstance(statement, CreateTable)
    found = parse_partitioning(statement.partition_by)
    assert found is not None
    return replace(parse_create(sql, "d"), partitioning=found)


def meets(test: ColumnTest, value: str | None) -> bool:
    """A test of a canonical value. Dates compare as text, integers as numbers."""
    if value is None:
        return test.or_null
    number = re.fullmatch(r"-?\d+", value) is not None

    def typed(text: Any) -> Any:
        return int(text) if number else text.encode()

    compared = value.rstrip(" ") if test.rtrim else value
    return (
        (test.at_least is None or typed(value) >= typed(test.at_least))
        and (test.below is None or typed(value) < typed(test.below))
        and (test.any_of is None or compared in test.any_of)
        and compared not in test.none_of
        and (test.remainder is None or abs(int(value)) % test.remainder[0] == test.remainder[1])
    )


def placed(of: Table, row: dict[str, str | None]) -> list[str]:
    """The partitions to which a row belongs."""
    assert of.partitioning is not None
    found = []
    for one in of.partitioning.partitions:
        rows = rows_of(of, [one.name])
        assert not isinstance(rows, NotComputed), rows
        if any(all(meets(test, row[test.column]) for test in tests) for tests in rows):
            found.append(one.name)
    return found
