"""What landing reports to the driver: the ids of registered schemas, and the tables of messages' schema blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import pyarrow as pa

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Envelope
from ticdc_spark.protocols.wire_protocol import TableOfRow
from ticdc_spark.spark.decode.control import SCHEMA_BLOCK, SCHEMA_IDS, SchemaIds
from ticdc_spark.spark.decode.log_schema import CONTROL_BUCKET, LOG_SCHEMA
from ticdc_spark.wire.confluent import HEAD, is_framed, schema_id

Heads = tuple[bytes | None, bytes | None]


def head(part: bytes | None) -> bytes | None:
    """The frame of a registered schema's id, if a key or value begins with one."""
    return part[:HEAD] if part is not None and is_framed(part) else None


class Blocks:
    """Tables by their schema blocks, as one task meets them; reported once each."""

    def __init__(self, table_of_row: TableOfRow) -> None:
        self._table_of_row = table_of_row
        self._met: set[tuple[str, str, str]] = set()

    def of(
        self, envelopes: Sequence[Envelope], origin: list[int] | None, values: Sequence[bytes | None]
    ) -> list[dict[str, object]]:
        """Control events of the blocks that are new in a batch; a block that is not understood gives none."""
        found = []
        for at, event in enumerate(envelopes):
            if not event.schema_key or (event.schema, event.table, event.schema_key) in self._met:
                continue
            self._met.add((event.schema, event.table, event.schema_key))
            value = values[at if origin is None else origin[at]] or b""
            try:
                table = self._table_of_row(event.key, value, event)
            except MessageError:
                continue
            described = msgspec.json.encode(msgspec.structs.replace(table, version=event.commit_ts)).decode()
            found.append(
                {"schema": event.schema, "table": event.table, "schema_key": event.schema_key}
                | {"commit_ts": event.commit_ts, "control": described}
            )
        return found


def block_rows(generation: int, batch: int, found: Iterable[dict[str, object]]) -> pa.RecordBatch:
    """The log's rows of what ``Blocks`` found."""
    return _rows(generation, batch, SCHEMA_BLOCK, found)


def schema_id_rows(generation: int, batch: int, heads: Iterable[Heads]) -> pa.RecordBatch:
    """The log's rows of the pairs of ids that messages name."""
    pairs = (SchemaIds(*(None if h is None else schema_id(h) for h in pair)) for pair in heads)
    events = (
        {"schema": "", "table": "", "commit_ts": 0, "control": msgspec.json.encode(pair).decode()} for pair in pairs
    )
    return _rows(generation, batch, SCHEMA_IDS, events)


def _rows(generation: int, batch: int, kind: str, events: Iterable[dict[str, object]]) -> pa.RecordBatch:
    about = {"generation": generation, "batch": batch, "slot": CONTROL_BUCKET, "kind": kind}
    place = {"topic": "", "partition": 0, "offset": -1, "seq": 0}
    return pa.RecordBatch.from_pylist([about | place | one for one in events], schema=LOG_SCHEMA)
