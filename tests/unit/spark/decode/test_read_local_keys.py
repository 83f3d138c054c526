"""A TIMESTAMP in a key, as local text: an hour that happens twice is two keys, and must not become one."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pytest

from ticdc_spark.model import Column, Envelope, Index, RowChange, Table
from ticdc_spark.mysql import parse_type
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.canal_json.decode import DECODER
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig, encoder
from ticdc_spark.spark.decode.raw import ABOUT, RawRows
from ticdc_spark.spark.decode.rows import BAD, read_rows
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.types import LakeOptions, lake_columns

AT = Column(name="at", type=parse_type("timestamp"), nullable=False)
SEEN = Column(name="seen", type=parse_type("timestamp"))
TABLE = Table(
    schema="s",
    name="t",
    columns=(AT, SEEN),
    indexes=(Index(name="primary", unique=True, primary=True, nullable=False, columns=("at",)),),
)
ONCE, TWICE = "2024-06-01 10:00:00", "2024-10-27 00:30:00"
"""In UTC; at the second, clocks in Berlin show 02:30 for the first of two times."""


def read(at: str, seen: str, ambiguous: Literal["earlier", "later", "reject"] = "earlier") -> dict[str, Any]:
    zone = "Europe/Berlin"
    change = RowChange(op="insert", table=TABLE, commit_ts=5, after={"at": at, "seen": seen})
    (sent,) = encoder(CanalJsonConfig(enable_tidb_extension=True, time_zone=zone)).rows([change])
    (envelope,) = DECODER.open_message(sent.key, sent.value)
    assert isinstance(envelope, Envelope)
    row = {"topic": "t", "partition": 0, "offset": 0, "seq": 0, "op": "insert", "schema_key": "", "commit_ts": 5}
    row |= {"partial": False, "checksum": None, "corrupted": None, "table_id": None}
    about = pa.RecordBatch.from_pylist([row], schema=ABOUT)
    plan = ReadPlan(
        protocol="canal-json",
        tables={"": TABLE},
        columns=lake_columns(TABLE, ("at",), LakeOptions()),
        options=ReadOptions(source_timezone=zone, ambiguous_timestamp=ambiguous),
        lake=LakeOptions(),
    )
    (found,) = (row for part in read_rows(plan)([RawRows(about, [None], [envelope.after])]) for row in part.to_pylist())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("ambiguous", ["earlier", "later"])
def test_a_key_that_may_be_two_times_is_refused(ambiguous: Literal["earlier", "later"]) -> None:
    bad = read(TWICE, ONCE, ambiguous)[BAD]
    assert bad is not None and "keys" in bad and "2024-10-27 02:30" in bad


def test_a_value_that_may_be_two_times_is_read_by_the_option() -> None:
    row = read(ONCE, TWICE)
    assert row[BAD] is None
    assert str(row["seen"]).startswith("2024-10-27 00:30:00")
    assert str(read(ONCE, TWICE, "later")["seen"]).startswith("2024-10-27 01:30:00")
