"""A database of few tables, and its changefeed: messages go to a broker one by one, when a test sends them."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.simulator.broker import Broker
from tests.simulator.wire import WIRES, encoder
from ticdc_spark.ddl import Charset, apply_ddl, charsets_after, ddl_tables, fold
from ticdc_spark.model import Row, RowChange, SchemaChange, Table, Value
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.base import Encoded

SCHEMA = "shop"
SECOND = 1000 << 18
"""Of a commit_ts."""


class Changefeed:
    """The source: its SQL is run, its rows are changed, and messages are sent in the order that a test chooses.

    ``topic_per_table``: a table's messages go to the topic of its name.
    """

    def __init__(self, protocol: str, zone: str, *, topic_per_table: bool) -> None:
        self.broker = Broker(1)
        self.wire, self.encoder = WIRES[protocol], encoder(protocol, zone)
        self.topic_per_table = topic_per_table
        self.tables: dict[tuple[str, str], Table] = {}
        self.charsets: dict[str, Charset] = {}
        self.held: dict[tuple[tuple[str, str], Value], Row] = {}
        self.ts = 1_767_225_600_000 << 18
        self.ids = 0

    def tick(self) -> int:
        self.ts += SECOND
        return self.ts

    def change(
        self, query: str, *, schema: str = SCHEMA, ts: int | None = None, typed: str | None = None
    ) -> SchemaChange:
        """Run a DDL, and send nothing yet. ``typed``: the SQL of the message, with names in another case."""
        ts = self.tick() if ts is None else ts
        effect = apply_ddl(self.tables, schema, query, charsets=self.charsets)
        assert not effect.unsupported, effect.unsupported
        before, after = self.tables, fold(self.tables, effect)
        self.ids += 1
        touched = [table for name, table in after.items() if before.get(name) is not table]
        named = [name for name, table in before.items() if after.get(name) is not table]
        named += list(effect.truncated)
        if not touched and not named:  # a comment, or an engine
            named = [name for name in ddl_tables(query, schema)[0] if name in before]
        pre_table = before[named[0]] if named else None
        table = touched[0] if touched else pre_table
        if table is not None and not effect.dropped and not effect.renamed:
            table = msgspec.structs.replace(table, version=ts - 1, table_id=table.table_id or self.ids)
            after[table.schema, table.name] = table
        for old, new in effect.renamed:
            self.held = {(new if at == old else at, key): row for (at, key), row in self.held.items()}
        for gone in (*effect.dropped, *effect.truncated):
            self.held = {at: row for at, row in self.held.items() if at[0] != gone}
        self.tables = after
        change = SchemaChange(
            commit_ts=ts,
            query=typed or query,
            kind=_kind(query),
            schema=schema if table is None else table.schema,
            name="" if table is None else table.name,
            table=table,
            pre_table=pre_table,
        )
        self.charsets = charsets_after(self.charsets, [change])
        return change

    def sql(self, query: str, *, schema: str = SCHEMA, typed: str | None = None) -> int:
        """Run a DDL and send it. Returns: its commit_ts"""
        change = self.change(query, schema=schema, typed=typed)
        self.send_ddl(change)
        return change.commit_ts

    def send_ddl(self, change: SchemaChange, topic: str | None = None) -> None:
        table = change.pre_table or change.table
        name = None if table is None else (table.schema, table.name)
        self.send(self.encoder.ddl(change), topic or self.topic(name))

    def insert(self, table: str, schema: str = SCHEMA, **row: Value) -> int:
        """A row that was not there. Returns: its commit_ts"""
        return self._row("insert", (schema, table), row)

    def update(self, table: str, schema: str = SCHEMA, **row: Value) -> int:
        """A row that has these values now."""
        return self._row("update", (schema, table), row)

    def delete(self, table: str, schema: str = SCHEMA, **key: Value) -> int:
        """A row that is gone."""
        return self._row("delete", (schema, table), key)

    def _row(self, op: Any, name: tuple[str, str], row: Row) -> int:
        self.send_row(self.row(op, name, row))
        return self.ts

    def row(self, op: Any, name: tuple[str, str], row: Row) -> RowChange:
        """Change a row, and send nothing yet."""
        table = self.tables[name]
        at = (name, row[handle_key(table)[0]])
        columns = [column.name for column in table.columns if not column.virtual]
        before = {column: self.held.get(at, {}).get(column) for column in columns} if op != "insert" else None
        after = None if op == "delete" else {column: row.get(column) for column in columns}
        if after is None:
            del self.held[at]
        else:
            self.held[at] = after
        return RowChange(op=op, table=table, commit_ts=self.tick(), before=before, after=after)

    def send_row(self, change: RowChange, topic: str | None = None) -> None:
        (encoded,) = self.encoder.rows([change])
        self.send(encoded, topic or self.topic((change.table.schema, change.table.name)))

    def bootstrap(self, table: str, schema: str = SCHEMA) -> None:
        """Simple: send a table's schema."""
        self.send(self.encoder.bootstrap(self.tables[schema, table]), self.topic((schema, table)))

    def watermark(self, *topics: str, partitions: int = 1) -> int:
        """Everything until now was sent, to all topics or to some, and to as many partitions. Returns: the watermark"""
        ts = self.tick()
        for topic in topics or sorted(self.broker.topics):
            for partition in range(partitions):
                self.send(self.encoder.watermark(ts), topic, partition)
        return ts

    def send(self, message: Encoded | None, topic: str, partition: int = 0) -> None:
        assert message is not None, "the protocol has such messages"
        self.broker.append((topic, partition), message.key, message.value, self.ts >> 18)

    def topic(self, name: tuple[str, str] | None) -> str:
        return f"cdc_{'_'.join(name)}" if self.topic_per_table and name else "cdc"


def _kind(query: str) -> str:
    words = query.upper().split()
    if words[1:2] == ["DATABASE"]:
        return "QUERY"
    if "RENAME" in words and ("TABLE" in words[:2]) and "COLUMN" not in words:
        return "RENAME"
    return {"DROP": "ERASE"}.get(words[0], words[0])
