"""A piece of a file of a recorded topic that one task can read alone."""

import msgspec


class Span(msgspec.Struct, frozen=True):
    """What a chunk holds of one partition."""

    topic: str
    partition: int
    first: int
    last: int
    """Inclusive."""
    count: int
    bytes: int
    """About the bytes of keys and values."""
    ordered: bool = True
    """Offsets are known to rise, so none is there twice."""
    implicit: bool = False
    """Some offset is its line's number."""


class Chunk(msgspec.Struct, frozen=True):
    """JSON: ``length`` bytes from ``start`` (of the unpacked file), whose first line has number ``line`` (from 0).

    Parquet: row group ``start``; ``length`` is the bytes it unpacks to.
    """

    start: int
    length: int
    line: int
    spans: tuple[Span, ...]
