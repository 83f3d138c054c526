"""Names that Avro allows."""

import re

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_]")


def sanitized(name: str) -> str:
    """A name that Avro allows: ``_`` for each forbidden character, and before a leading digit."""
    clean = _NOT_IN_NAME.sub("_", name)
    return f"_{clean}" if clean[:1].isdigit() else clean
