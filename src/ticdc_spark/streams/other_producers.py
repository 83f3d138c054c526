"""Recognises messages of programs with unsupported formats by their fields, so that an error can name the program.

Sources: Maxwell, "Data format"; Oracle GoldenGate for Big Data, "Using the JSON formatter"; AWS DMS, "Kafka as a
target"; Alibaba Cloud DTS, "Data formats of a Kafka cluster"; Debezium, "New record state extraction".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

PLAIN_JSON = "plain JSON, which names neither a table nor an operation"
_DTS_TAGS = (b"readerThroughoutTime", b"pk_uk_info")
"""Tags of each record in DTS's own Avro."""
_Shows: TypeAlias = Callable[[bytes, Collection[str]], bool]
_JSON: Mapping[str, _Shows] = {
    "Maxwell": lambda _, fields: (
        {"database", "type", "ts"} <= {*fields} and not {"data", "def", "sql"}.isdisjoint(fields)
    ),
    "Oracle GoldenGate (OGG)": lambda _, fields: {"op_type", "op_ts"} <= {*fields},
    "AWS DMS": lambda value, fields: "metadata" in fields and b'"record-type"' in value,
    "SharePlex JSON, as DTS writes it": lambda value, fields: {"meta", "data"} <= {*fields} and b'"scn"' in value,
    "Debezium, flattened (unwrapped)": lambda _, fields: not {"__op", "__deleted"}.isdisjoint(fields),
}


def other_producer(value: bytes, fields: Collection[str]) -> str | None:
    """The program that wrote a message, or ``PLAIN_JSON``; ``None`` if its value shows neither.

    ``fields``: of the value's JSON object; none if it is no object.
    """
    if not fields:
        return "Alibaba Cloud DTS (Avro)" if any(tag in value for tag in _DTS_TAGS) else None
    return next((name for name, shows in _JSON.items() if shows(value, fields)), PLAIN_JSON)
