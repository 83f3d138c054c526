"""A database whose changefeed is replaced by another one: with a new topic, more partitions, or another protocol."""

from __future__ import annotations

from tests.simulator.wire import WIRES, encoder
from tests.support.changefeed import SCHEMA, Changefeed
from ticdc_spark.model import RowChange, SchemaChange

BOTH = ("t", "quiet")


class MovingFeed(Changefeed):
    """Tables ``t`` and ``quiet``, all in one topic. Rows go to its partitions by their id."""

    to, partitions = "old", 2

    def make_tables(self) -> None:
        for table in BOTH:
            self.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9))")
            for number in ("1", "2", "3"):
                self.insert(table, id=number, v="a")

    def topic(self, name: tuple[str, str] | None) -> str:
        return self.to

    def send_row(self, change: RowChange, topic: str | None = None) -> None:
        (encoded,) = self.encoder.rows([change])
        number = (change.after or change.before or {})["id"]
        assert isinstance(number, str)
        self.send(encoded, topic or self.to, int(number) % self.partitions)

    def send_ddl(self, change: SchemaChange, topic: str | None = None) -> None:
        for partition in range(self.partitions if self.wire.ddl_everywhere else 1):
            self.send(self.encoder.ddl(change), topic or self.to, partition)

    def send_all(self, changes: list[RowChange]) -> None:
        for change in changes:
            self.send_row(change)

    def send_watermark(self) -> None:
        """To the topic of the changefeed that sends now."""
        self.watermark(self.to, partitions=self.partitions)

    def replace(self, topic: str, partitions: int, protocol: str = "") -> None:
        """From now on another changefeed sends. Simple sends schemas before rows."""
        self.to, self.partitions = topic, partitions
        if protocol:
            self.wire, self.encoder = WIRES[protocol], encoder(protocol, "UTC")
        if self.wire.name == "simple":
            for schema, table in self.tables:
                for partition in range(partitions):
                    self.send(self.encoder.bootstrap(self.tables[schema, table]), topic, partition)

    def changes(self, first: int = 10) -> list[RowChange]:
        """Changes of table ``t`` that a test sends: once, or by two changefeeds."""
        new = str(first)
        return [
            self.row("update", (SCHEMA, "t"), {"id": "1", "v": f"b{new}"}),
            self.row("insert", (SCHEMA, "t"), {"id": new, "v": "c"}),
            self.row("delete", (SCHEMA, "t"), {"id": new}),
            self.row("insert", (SCHEMA, "t"), {"id": str(first + 1), "v": "d"}),
        ]

    def source(self, table: str) -> list[tuple[object, ...]]:
        """The rows of the database."""
        found = [row for (name, _), row in self.held.items() if name == (SCHEMA, table)]
        return sorted(((int(str(row["id"])), row["v"]) for row in found), key=repr)
