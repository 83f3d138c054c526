"""MySQL's binary JSON to text. MariaDB has none: its JSON is LONGTEXT."""

from __future__ import annotations

from ticdc_spark.errors import MessageError


def json_text(data: bytes) -> str:
    """The text as MySQL prints it."""
    raise MessageError(f"binary JSON of {len(data)} bytes is not read yet")
