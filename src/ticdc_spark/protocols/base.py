"""What a protocol offers: converts bytes to events and back, without memory between calls.

Decoding has two steps. ``open_message`` needs no schema. ``row_reader`` compiles a reader for one version of a table,
which then reads many images. ``decode`` does both for one message.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import (
    Change,
    Envelope,
    Event,
    Rejected,
    RowChange,
    SchemaChange,
    Table,
    Value,
)
from ticdc_spark.protocols.checksums import Verify, expected, verifier


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to read values that are ambiguous in a message."""

    source_timezone: str | None = None
    """IANA name of the changefeed's time zone, for protocols that send TIMESTAMP as local text without one."""
    ambiguous_timestamp: Literal["earlier", "later", "reject"] = "earlier"
    """Which instant a local time means that occurs twice when clocks go back."""
    default_timezone: str | None = None
    """Time zone of TIMESTAMP defaults in tables from SQL; ``None``: UTC, as in schemas of messages."""
    literal_defaults: bool = False
    """Whether a TEXT's or BLOB's default is a constant, as in tables from schemas of rows; see
    ``mysql.default_value``."""
    verify_checksum: bool = False
    """Whether a row is bad if its checksum (changefeed integrity) does not match its values; see ``checksums``."""


class Columns(msgspec.Struct, frozen=True):
    """Images read into columns: one list per column of the table, in its order, all of the same length.

    A bad row has ``None`` everywhere and its reason in ``bad``. A column that an image does not have is ``None`` there,
    and ``absent`` maps its name to such rows (``range(n)`` if no image has it). It may be a virtual generated column, a
    partial image, or a broken message, which the caller distinguishes.
    """

    values: list[list[Value]]
    bad: dict[int, str]
    absent: dict[str, Sequence[int]]


RowReader: TypeAlias = Callable[[Sequence[bytes | None]], Columns]
"""Reads raw images into canonical columns. A ``None`` stays a row of ``None``."""


class Encoded(msgspec.Struct, frozen=True):
    """A Kafka record to send: key, value, and how many row changes it carries (0 for DDL and watermark)."""

    key: bytes | None
    value: bytes | None
    rows: int = 0


class Decoder(Protocol):
    """Reads a protocol. Implemented by a module-level object without state."""

    name: str
    """The protocol's, as in ``PROTOCOLS``."""

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        """Open one message into its events, in order. Never raises for bad bytes, but gives ``Rejected``.

        An empty sequence means that the message has no event (a tombstone).
        """

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        """Compile a reader for the images of ``table``.

        With ``only``, other columns are skipped unread: ``None`` everywhere, never ``absent``, never bad.

        Raises: MessageError if the table has a column type that the protocol cannot carry.
        """


class Encoder(Protocol):
    """Writes a protocol as TiCDC does. One object per configuration. It keeps no rows between calls."""

    def rows(self, changes: Iterable[RowChange]) -> Iterator[Encoded]:
        """Encode row changes in order; Open puts several into one message."""

    def ddl(self, change: SchemaChange) -> Encoded | None:
        """Encode a DDL; ``None`` if the protocol does not send it."""

    def watermark(self, commit_ts: int) -> Encoded | None:
        """Encode a watermark; ``None`` if the protocol has none."""

    def bootstrap(self, table: Table) -> Encoded | None:
        """Encode a table's schema; ``None`` if the protocol has no such message."""


class Registry(Protocol):
    """Where schemas are registered; ``clients.registry`` has the real one."""

    def register(self, subject: str, schema: str) -> int:
        """Register a schema under a subject, unless it is there. Returns: its id."""


class Schemas(Protocol):
    """Registered schemas' texts by id: a dict, or ``clients.registry.SchemaRegistry``."""

    def __getitem__(self, number: int, /) -> str:
        """A schema's text; raises KeyError for an id that is not known."""


BLOCK_MARK = "#"
"""First character of a schema key that is the hash of a message's schema block. No other key has it."""
Tables: TypeAlias = Mapping[tuple[str, str, str], Table]
"""(schema, table, schema key) → the table's schema."""


def decode(
    decoder: Decoder,
    key: bytes | None,
    value: bytes | None,
    tables: Tables,
    options: ReadOptions | None = None,
) -> list[Change | Rejected]:
    """Decode one message completely. A row whose schema is not in ``tables`` becomes ``Rejected``."""
    options = options or ReadOptions()
    return [
        read_envelope(decoder, event, tables, options) if isinstance(event, Envelope) else event
        for event in decoder.open_message(key, value)
    ]


def read_envelope(decoder: Decoder, event: Envelope, tables: Tables, options: ReadOptions) -> RowChange | Rejected:
    """Read the images of one envelope with the schema that its key names."""
    table = tables.get((event.schema, event.table, event.schema_key))
    if table is None:
        return Rejected(f"no schema for `{event.schema}`.`{event.table}`, schema key {event.schema_key!r}")
    try:
        reader = decoder.row_reader(table, options)
    except MessageError as error:
        return Rejected(str(error))
    return row_change(event, table, reader, verifier(table) if options.verify_checksum else None)


def row_change(event: Envelope, table: Table, reader: RowReader, verify: Verify | None = None) -> RowChange | Rejected:
    """Read the images of one envelope with its table's reader, and verify them if a checksum was sent."""
    columns = reader([event.before, event.after])
    if columns.bad:
        return Rejected(next(iter(columns.bad.values())))
    if verify is not None and event.checksum is not None:
        sums = expected(event.checksum, partial=event.partial)
        for at, reason in verify(columns.values, sums, [event.checksum.corrupted] * 2).items():
            if (event.before, event.after)[at] is not None:
                return Rejected(f"{('before', 'after')[at]} image of `{table.schema}`.`{table.name}`: {reason}")
    before, after = (
        {
            column.name: cells[i]
            for column, cells in zip(table.columns, columns.values, strict=True)
            if i not in columns.absent.get(column.name, ())
        }
        for i in (0, 1)
    )
    return RowChange(
        op=event.op,
        table=table,
        commit_ts=event.commit_ts,
        before=None if event.before is None else before,
        after=None if event.after is None else after,
        table_id=event.table_id,
        partial=event.partial,
        checksum=event.checksum,
        claim_check=event.claim_check,
    )
