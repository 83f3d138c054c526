"""A piece of a recorded topic's file that one task can read by itself."""

import msgspec


class Span(msgspec.Struct, frozen=True):
    """The messages of one partition in a chunk."""

    topic: str
    partition: int
    first: int
    last: int
    """Inclusive."""
    count: int
    bytes: int
    """About the bytes of keys and values."""
    ordered: bool = True
    """Whether offsets are known to rise, so no offset occurs twice."""
    implicit: bool = False
    """Whether some offset is the line's number."""


class Chunk(msgspec.Struct, frozen=True):
    """JSON: ``length`` bytes from ``start`` (of the unpacked file), whose first line has number ``line`` (from 0).

    Parquet: row group ``start``; ``length`` is its unpacked size in bytes.
    """

    start: int
    length: int
    line: int
    spans: tuple[Span, ...]
