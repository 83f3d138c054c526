"""The driver registers schemas, so that tasks need no registry."""

from __future__ import annotations

from collections.abc import Mapping

from ticdc_spark.errors import MessageError, RegistryFault
from ticdc_spark.model import RowChange, Table
from ticdc_spark.mysql import implicit_value
from ticdc_spark.protocols.base import Encoder, Registry


class Registering:
    """A registry that remembers the ids that it gave."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.ids: dict[tuple[str, str], int] = {}

    def register(self, subject: str, schema: str) -> int:
        number = self.ids[subject, schema] = self._registry.register(subject, schema)
        return number


class KnownIds:
    """The registry of a task: the schemas that the driver has registered."""

    def __init__(self, ids: Mapping[tuple[str, str], int]) -> None:
        self._ids = ids

    def register(self, subject: str, schema: str) -> int:
        """See ``Registry``. Raises: RegistryFault for a schema that the driver has not registered"""
        try:
            return self._ids[subject, schema]
        except KeyError as error:
            raise RegistryFault(f"subject {subject}: the driver has not registered the schema {schema}") from error


def register_table(encoder: Encoder, table: Table) -> None:
    """Register a table's schemas by encoding a row of it. The result is discarded.

    Raises: RegistryFault, IncompatibleSchema
    """
    row = {
        column.name: None if column.nullable else implicit_value(column.type)
        for column in table.columns
        if not column.virtual
    }
    try:
        list(encoder.rows([RowChange(op="insert", table=table, commit_ts=0, after=row)]))
    except MessageError:
        return  # each of its rows will be rejected, with its place
