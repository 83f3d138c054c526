"""Tables, rows and changefeeds for the tests of filter and dispatch."""

from __future__ import annotations

from typing import Any

from ticdc_spark.changefeed.config.settings import Changefeed, KafkaTarget
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Op, Row, RowChange, Table


def table(sql: str, schema: str = "test") -> Table:
    """The table of the columns and keys in a CREATE TABLE: ``t1 (a int primary key)``."""
    return parse_create(f"CREATE TABLE {sql}", schema)


def changefeed(**settings: Any) -> Changefeed:
    """A changefeed into the topic ``default``, in canal-json unless another protocol is given."""
    kafka = KafkaTarget(servers=("localhost:9092",), topic="default", client_id="test")
    return Changefeed(**{"id": "test", "kafka": kafka, "protocol": "canal-json", **settings})


def change(of: Table, before: Row | None = None, after: Row | None = None, commit_ts: int = 1) -> RowChange:
    """An insert, update or delete, by which images there are."""
    op: Op = "insert" if before is None else "delete" if after is None else "update"
    return RowChange(op=op, table=of, commit_ts=commit_ts, before=before, after=after)
