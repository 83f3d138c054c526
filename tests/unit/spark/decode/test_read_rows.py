"""Reading rows without Spark: several versions in one batch, deletes and moved keys among other rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from ticdc_spark.model import Column, Index, Table
from ticdc_spark.mysql import parse_type
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.spark.decode.odd_columns import OddColumns, odd_columns
from ticdc_spark.spark.decode.raw import of_arrow
from ticdc_spark.spark.decode.rows import BAD, OP, ORDER, BadRow, read_rows
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.types import LakeOptions, lake_columns

ID = Column(name="id", type=parse_type("bigint"), nullable=False)
NAME = Column(name="name", type=parse_type("varchar(20)"))
AGE = Column(name="age", type=parse_type("int"), default="7")
KEY = (Index(name="primary", unique=True, primary=True, nullable=False, columns=("id",)),)
OLD = Table(schema="s", name="t", columns=(ID, NAME), indexes=KEY, version=1)
NEW = Table(schema="s", name="t", columns=(ID, NAME, AGE), indexes=KEY, version=2)

Change = tuple[str, str, bytes | None, bytes | None]
"""Op, schema key, old image, new image."""


def read(
    changes: list[Change], *, strict: bool = True, new: Table = NEW, options: ReadOptions | None = None
) -> list[dict[str, Any]]:
    count = len(changes)
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": list(range(count)),
            "seq": pa.array([0] * count, pa.int32()),
            "op": [op for op, *_ in changes],
            "schema_key": [key for _, key, *_ in changes],
            "commit_ts": [100 + at for at in range(count)],
            "partial": [False] * count,
            "before": pa.array([before for *_, before, _ in changes], pa.binary()),
            "after": pa.array([after for *_, after in changes], pa.binary()),
        }
    )
    plan = ReadPlan(
        protocol="simple",
        tables={"1": OLD, "2": new},
        columns=lake_columns(new, ("id",), LakeOptions()),
        options=options or ReadOptions(),
        lake=LakeOptions(),
        strict=strict,
    )
    rows = [row for part in read_rows(plan)([of_arrow(batch)]) for row in part.to_pylist()]
    return sorted(rows, key=lambda row: (row[ORDER], row[OP]))


def seen(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row[ORDER], row[OP], row["id"], row["name"], row["age"]) for row in rows]


def test_each_row_is_read_by_its_own_version() -> None:
    rows = read(
        [
            ("insert", "1", None, b'{"id":"1","name":"a"}'),
            ("insert", "2", None, b'{"age":"3","id":"2","name":"b"}'),
            ("insert", "1", None, b'{"id":"3","name":null}'),
        ]
    )
    assert seen(rows) == [(0, "i", 1, "a", 7), (1, "i", 2, "b", 3), (2, "i", 3, None, 7)]


@pytest.mark.parametrize(("zone", "hour"), [(None, 10), ("Asia/Shanghai", 2)])
def test_a_timestamp_default_is_read_in_the_zone_of_the_sql(zone: str | None, hour: int) -> None:
    stamp = Column(name="ts", type=parse_type("timestamp"), default="2010-10-10 10:10:10")
    new = Table(schema="s", name="t", columns=(ID, NAME, stamp), indexes=KEY, version=2)
    rows = read([("insert", "1", None, b'{"id":"1","name":"a"}')], new=new, options=ReadOptions(default_timezone=zone))
    assert rows[0]["ts"] == datetime(2010, 10, 10, hour, 10, 10, tzinfo=UTC)


@pytest.mark.parametrize(("literal", "expected"), [(True, ("USD", b"ab")), (False, (None, None))])
def test_the_default_of_a_text_is_a_constant_where_it_comes_from_a_registry(
    literal: bool, expected: tuple[Any, Any]
) -> None:
    text = Column(name="c", type=parse_type("longtext charset utf8mb4"), default="USD")
    blob = Column(name="d", type=parse_type("longblob"), default="ab")
    new = Table(schema="s", name="t", columns=(ID, NAME, text, blob), indexes=KEY, version=2)
    rows = read(
        [("insert", "1", None, b'{"id":"1","name":"a"}')], new=new, options=ReadOptions(literal_defaults=literal)
    )
    assert (rows[0]["c"], rows[0]["d"]) == expected


def test_deletes_and_moved_keys_stand_among_other_rows() -> None:
    image = b'{"age":"%d","id":"%d","name":"x"}'
    rows = read(
        [
            ("delete", "2", image % (1, 1), None),
            ("insert", "2", None, image % (2, 2)),
            ("update", "2", image % (3, 3), image % (4, 3)),
            ("update", "2", image % (5, 5), image % (6, 6)),
            ("delete", "2", image % (7, 7), None),
            ("insert", "2", None, image % (8, 8)),
        ]
    )
    assert seen(rows) == [
        (0, "d", 1, None, None),
        (1, "i", 2, "x", 2),
        (2, "u", 3, "x", 4),
        (3, "d", 5, None, None),
        (3, "u", 6, "x", 6),
        (4, "d", 7, None, None),
        (5, "i", 8, "x", 8),
    ]


def test_a_bad_row_keeps_its_place() -> None:
    rows = read(
        [
            ("delete", "2", b'{"age":"1","id":null,"name":"x"}', None),
            ("insert", "2", None, b'{"age":"no","id":"1","name":"x"}'),
            ("insert", "2", None, b'{"age":"1","id":"2","name":"x"}'),
        ],
        strict=False,
    )
    assert [row[ORDER] for row in rows if row[BAD]] == [0, 1]
    assert '"offset":0' in rows[0][BAD] and "key column `id` is null" in rows[0][BAD]
    assert '"offset":1' in rows[1][BAD] and "column `age`" in rows[1][BAD]


def test_rows_with_hidden_columns_are_told_apart_from_those_that_cannot_be_read() -> None:
    rows = read(
        [
            ("insert", "1", None, b'{"id":"x","name":"a"}'),
            ("insert", "1", None, b'{"_tidb_origin_ts":"7","id":"2","name":"b"}'),
        ],
        strict=False,
    )
    unreadable, hidden = (msgspec.json.decode(row[BAD], type=BadRow).reason for row in rows)
    assert odd_columns(unreadable) is None
    assert odd_columns(hidden) == OddColumns(hidden=("_tidb_origin_ts",))
