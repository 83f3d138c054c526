"""Schemas of a registry (Avro, Debezium in Avro): the driver fetches those that messages name, and tasks get the texts.

A scan returns the pairs of ids (key, value) that its messages name. If an id is new, its schema is fetched, and the
batch is scanned again. Schemas rarely change, so nearly every batch is scanned once. Avro's schemas name their tables.
Debezium's do not: the rows name their table.
"""

from collections.abc import Iterable, Sequence

import msgspec

from ticdc_spark.clients.registry_file import open_registry
from ticdc_spark.config.job import SourceConfig
from ticdc_spark.ddl.known_names import NO_NAMES, KnownNames, Names
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table, TableName
from ticdc_spark.protocols import protocol
from ticdc_spark.protocols.base import Schemas
from ticdc_spark.replicate.state.progress import KnownSchema, Progress
from ticdc_spark.spark.decode.control import ControlEvent, RowsRead, SchemaIds, SchemaIdsRead


class Registered:
    """The schemas that a job's messages have named so far."""

    def __init__(self, texts: Schemas) -> None:
        self._texts = texts
        self.protocol = ""
        """The protocol of the schemas; set once it is known."""
        self.known: dict[int, str] = {}
        self._refused: set[int] = set()

    def close(self) -> None:
        """Close the registry's connections."""
        close = getattr(self._texts, "close", None)
        if close is not None:
            close()

    def learn(self, controls: Sequence[ControlEvent]) -> bool:
        """Fetch the schemas that a scan found missing. Returns: whether any was fetched

        Raises: RegistryFault
        """
        return self.fetch(
            number for pair in _pairs(controls) for number in (pair.key, pair.value) if number is not None
        )

    def fetch(self, numbers: Iterable[int]) -> bool:
        """Fetch schemas. Returns: whether any is new. Raises: RegistryFault"""
        new = False
        for number in set(numbers) - self.known.keys() - self._refused:
            try:
                self.known[number] = self._texts[number]
                new = True
            except (KeyError, MessageError):
                self._refused.add(number)  # its messages are rejects
        return new

    def texts(self, keys: Iterable[str]) -> dict[int, str]:
        """The texts of some schemas, by their ids in rows. Raises: RegistryFault"""
        numbers = [int(key) for key in keys if key.isdigit()]
        self.fetch(numbers)
        return {number: self.known[number] for number in numbers if number in self.known}

    def tables(self, controls: Sequence[ControlEvent], names: Names = NO_NAMES) -> list[KnownSchema]:
        """The tables that schemas of values describe, each with the schema of the key beside it, in order of their ids.
        ``names``: the names that rows were scanned with."""
        found: dict[tuple[int, TableName], KnownSchema] = {}
        known = KnownNames(names)
        named = _named(controls)
        for pair in sorted(_pairs(controls), key=lambda pair: (pair.value or 0, pair.key is None, pair.key or 0)):
            for table in self._tables(pair, named.get(str(pair.value), [])):
                number, name = pair.value or 0, known.of_rows(table.full_name)
                if (number, name) not in found:
                    table = msgspec.structs.replace(table, schema=name[0], name=name[1])
                    found[number, name] = KnownSchema(
                        schema=name[0], name=name[1], key=str(number), table=table, since=number
                    )
        return [*found.values()]

    def add_schemas(
        self, progress: Progress, controls: Sequence[ControlEvent], mode: str | None, names: Names = NO_NAMES
    ) -> Progress:
        """Add the tables of the batch's schemas to the progress. In watermark mode, also add those of the key schemas
        that deletes name. ``names``: as in ``tables``."""
        known = {(schema.schema, schema.name, schema.key): schema for schema in progress.schemas}
        for table in self.tables(controls, names):
            known.setdefault((table.schema, table.name, table.key), table)
        if mode == "watermark":
            waiting = {(rows.schema, rows.name, rows.schema_key) for rows in progress.pending}
            waiting |= {(e.schema, e.table, e.schema_key) for e in controls if isinstance(e, RowsRead)}
            for schema, name, key in sorted(waiting - known.keys()):
                for text in self.texts([key]).values():
                    for of_key in protocol(self.protocol).registered_tables(text, None, [(schema, name)]):
                        known[schema, name, key] = KnownSchema(schema=schema, name=name, key=key, table=of_key)
        return msgspec.structs.replace(progress, schemas=tuple(known.values()))

    def _tables(self, pair: SchemaIds, named: Sequence[TableName]) -> list[Table]:
        key, value = (None if number is None else self.known.get(number) for number in (pair.key, pair.value))
        try:
            if value is None:
                return []
            return protocol(self.protocol).registered_tables(key, value, named)
        except MessageError:
            return []  # The scan rejects each of its messages.


def restrict_columns(schema: Table, table: Table) -> Table:
    """Restrict a table to the columns of a schema."""
    there = {column.name.casefold() for column in schema.columns}
    return msgspec.structs.replace(
        table, columns=tuple(column for column in table.columns if column.name.casefold() in there)
    )


def registered(source: SourceConfig) -> Registered | None:
    """The registry of a source; ``None``: it has none.

    Raises: UsageError for an address or an option that the client does not accept; RegistryFault for a file
    """
    where = source.schema_registry
    if where is None:
        return None
    return Registered(open_registry(where, source.schema_registry_options))


def _named(controls: Sequence[ControlEvent]) -> dict[str, list[TableName]]:
    """The tables whose rows name a schema, sorted, by its id in rows."""
    found: dict[str, set[TableName]] = {}
    for event in controls:
        if isinstance(event, RowsRead):
            found.setdefault(event.schema_key, set()).add((event.schema, event.table))
    return {key: sorted(names) for key, names in found.items()}


def _pairs(controls: Sequence[ControlEvent]) -> set[SchemaIds]:
    return {event.ids for event in controls if isinstance(event, SchemaIdsRead)}
