"""The reference for Avro, and Debezium in Avro: the registry has a table's schema, and not what was done to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.reference.arrival import ArrivalApplier
from tests.reference.state import Landed, Name, Progress, Read
from ticdc_spark.model import Column, Envelope, Row, Table, Value
from ticdc_spark.mysql import NO_CONSTANT, default_value, handle_key
from ticdc_spark.protocols.avro.schema import table_from_schemas
from ticdc_spark.protocols.base import RowReader
from ticdc_spark.protocols.debezium_avro import decode as debezium_avro
from ticdc_spark.replicate.schemas.inferred import Policy, follow
from ticdc_spark.wire.confluent import schema_id


class RegistryApplier(ArrivalApplier):
    """In arrival mode; tables follow the schemas of their rows. ``registry_applier`` gives it a registry."""

    schemas: Mapping[int, str] = {}
    policy: Policy = "stop"
    debezium = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seen: set[tuple[Name, str | None, str]] = set()
        self.newest: dict[Name, int] = {}
        self.readers: dict[Name, tuple[Table, RowReader]] = {}

    def fill(self, column: Column) -> Value:
        value = default_value(column, literal=True)
        return super().fill(column) if value is NO_CONSTANT else value

    def has_schema(self, progress: Progress, envelope: Envelope) -> bool:
        # a key alone makes no table
        return not envelope.partial or (envelope.schema, envelope.table) in self.lake.tables

    def write(self, progress: Progress, name: Name, due: list[Landed], mark: Any) -> None:
        for row in due:
            self.learn(name, row.envelope)
            super().write(progress, name, [row], mark)

    def learn(self, name: Name, envelope: Envelope) -> None:
        """Follow the schema of a row that brings a new one."""
        if envelope.partial:
            return
        key = None if envelope.key is None else self.schemas[schema_id(envelope.key)]
        number = int(envelope.schema_key)
        value = self.schemas[number]
        if (name, key, value) in self.seen:
            return
        self.seen.add((name, key, value))
        if name not in self.lake.tables:
            self.lake.tables[name] = (self.table(name, key, value), {})
        elif number >= self.newest[name]:
            # a lower number that was not seen before is an older schema, of a partition that is behind
            self.follow(name, self.table(name, key, value))
        self.newest[name] = max(number, self.newest.get(name, 0))

    def table(self, name: Name, key: str | None, value: str) -> Table:
        """Debezium's schemas do not name the table as the database does."""
        return debezium_avro.table_from_schemas(*name, key, value) if self.debezium else table_from_schemas(key, value)

    def follow(self, name: Name, new: Table) -> None:
        old, rows = self.lake.tables[name]
        table = follow(old, new, self.policy)
        have = {column.name for column in old.columns}
        more = {column.name: self.fill(column) for column in table.columns if column.name not in have}
        self.lake.tables[name] = (table, {key: {**row, **more} for key, row in rows.items()})

    def read(self, progress: Progress, table: Table, due: list[Landed]) -> Iterator[Read]:
        reader, names = self.reader_of(table), set(handle_key(table))
        for row in due:
            images = (row.envelope.before, row.envelope.after)
            columns = reader(images)
            cells = zip(table.columns, columns.values, strict=True)
            read = {column.name: values for column, values in cells}
            rows = [
                {name: values[at] for name, values in read.items() if at not in columns.absent.get(name, ())}
                for at in (0, 1)
            ]
            keyless = [at for at, image in enumerate(images) if image is not None and names - rows[at].keys()]
            if columns.bad or keyless:
                self.reject(next(iter(columns.bad.values()), f"`{table.schema}`.`{table.name}`: no key in its row"))
                continue
            # a row of an older schema has what ADD COLUMN gave it
            gaps = {column.name: self.fill(column) for column in table.columns if column.name not in rows[1]}
            after: Row = {**rows[1], **gaps}
            yield row, None if images[0] is None else rows[0], None if images[1] is None else after

    def reader_of(self, table: Table) -> RowReader:
        name = (table.schema, table.name)
        known = self.readers.get(name)
        if known is None or known[0] is not table:
            known = self.readers[name] = (table, self.decoder.row_reader(table, self.options))
        return known[1]


def registry_applier(
    schemas: Mapping[int, str], policy: Policy = "stop", *, debezium: bool = False
) -> type[RegistryApplier]:
    """An applier with a registry's schemas."""
    members = {"schemas": schemas, "policy": policy, "debezium": debezium}
    return type("RegistryApplier", (RegistryApplier,), members)
