"""Tables, rows and changefeeds for the tests of filter and dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from ticdc_spark.changefeed.config.given import Entry, read_keys
from ticdc_spark.changefeed.config.key import DISPATCHERS, EVENTS
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.config.settings import BootstrapCadence, Changefeed, DispatchRule, EventFilter, Filter
from ticdc_spark.changefeed.filter.split import key_columns, split_update
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Op, Row, RowChange, Table


def table(sql: str, schema: str = "test") -> Table:
    """The table of the columns and keys in a CREATE TABLE: ``t1 (a int primary key)``."""
    return parse_create(f"CREATE TABLE {sql}", schema)


def changefeed(**settings: Any) -> Changefeed:
    """A changefeed into the topic ``default``, in canal-json unless another protocol is given."""
    found = load_changefeed(None, "kafka://localhost:9092/default?protocol=canal-json&kafka-client-id=test")
    return replace(found, **{"id": "test", "encoder": {}, "watermarks": True, **settings})


def cadence(**settings: Any) -> BootstrapCadence:
    """TiCDC's cadence of BOOTSTRAP messages, but for these."""
    return replace(changefeed().bootstrap, **settings)


event_filter = partial(read_keys, EventFilter, f"{EVENTS}.", Entry())
dispatch_rule = partial(read_keys, DispatchRule, f"{DISPATCHERS}.", Entry())
filters = partial(read_keys, Filter, "filter.", Entry(), event_filters=())


def change(of: Table, before: Row | None = None, after: Row | None = None, commit_ts: int = 1) -> RowChange:
    """An insert, update or delete, by which images there are."""
    op: Op = "insert" if before is None else "delete" if after is None else "update"
    return RowChange(op=op, table=of, commit_ts=commit_ts, before=before, after=after)


def split_changes(changes: Sequence[RowChange]) -> list[RowChange]:
    """Changes as they are sent: updates of keys split, all deletes of those first and their inserts last."""
    parts = [(split_update(one, key_columns(one.table)), one) for one in changes]
    deletes, inserts = ([split[at] for split, _ in parts if split] for at in (0, 1))
    return [*deletes, *(one for split, one in parts if not split), *inserts]
