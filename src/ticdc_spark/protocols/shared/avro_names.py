"""Names as Avro allows them."""

import re

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_]")


def sanitized(name: str) -> str:
    """A name as Avro allows it: ``_`` for each other character, and before a digit."""
    clean = _NOT_IN_NAME.sub("_", name)
    return f"_{clean}" if clean[:1].isdigit() else clean
