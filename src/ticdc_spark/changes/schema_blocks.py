"""Schema blocks in messages (Debezium), which a scan reports to the driver."""

from collections.abc import Callable

import msgspec

from ticdc_spark.changes.opening import Messages, Opened
from ticdc_spark.errors import MessageError
from ticdc_spark.model import TableName
from ticdc_spark.protocols.wire_protocol import TableOfRow
from ticdc_spark.spark.decode.control import SchemaBlockRead


class Blocks:
    """The schema blocks that one task finds. It reports each once."""

    def __init__(self, table_of_row: TableOfRow) -> None:
        self._table_of_row = table_of_row
        self._met: set[tuple[str, str, str]] = set()

    def of(self, opened: Opened, messages: Messages, name: Callable[[TableName], TableName]) -> list[SchemaBlockRead]:
        """Control events for the new blocks in a batch, without blocks that cannot be understood. ``name``: gives the
        job's name of a table."""
        found = []
        for event, at in zip(opened.rows, opened.origin, strict=True):
            schema, table = name((event.schema, event.table))
            if not event.schema_key or (schema, table, event.schema_key) in self._met:
                continue
            self._met.add((schema, table, event.schema_key))
            named = msgspec.structs.replace(event, schema=schema, table=table)
            try:
                held = self._table_of_row(event.key, messages.values[at] or b"", named)
            except MessageError:
                continue
            found.append(
                SchemaBlockRead(
                    topic="",
                    partition=0,
                    offset=-1,
                    seq=0,
                    schema=schema,
                    table=table,
                    schema_key=event.schema_key,
                    commit_ts=event.commit_ts,
                    held=msgspec.structs.replace(held, version=event.commit_ts),
                )
            )
        return found
