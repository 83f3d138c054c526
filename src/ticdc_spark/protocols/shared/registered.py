"""Schemas that messages name by an id of a registry."""

from ticdc_spark.errors import MessageError
from ticdc_spark.protocols.base import Schemas
from ticdc_spark.wire.confluent import is_framed, schema_id


def named_schema(schemas: Schemas, part: bytes | None) -> str | None:
    """The text of the schema that a key or value names; ``None`` if it names none.

    Raises: MessageError for an id that the registry does not have; RegistryFault if it cannot be reached.
    """
    if part is None or not is_framed(part):
        return None
    number = schema_id(part)
    try:
        return schemas[number]
    except KeyError as error:
        raise MessageError(f"schema id {number} is not known to the registry") from error
