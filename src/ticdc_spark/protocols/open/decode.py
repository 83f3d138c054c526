"""The Open protocol: messages to events. The other direction is ``open.encode``.

A message has events, each with a JSON key (what and when) and a JSON value (the images). A message with only the
version is an empty batch. No message has a table's schema: the schema key is ``""``, which means the schema that was
valid at commit_ts.

- ``{"u"}`` alone is an insert, or an update of a changefeed without old values: ``upsert``.
- ``{"u", "p"}`` is an update. If "p" has only changed columns (only-output-updated-columns), the before image is "u"
  overlaid with "p", so both images are whole.
- ``ohk`` and ``ccl`` mark images that have only handle key columns: ``partial``.

Source: the Open protocol document, and ``open`` in the vectors' notes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Envelope, Event, Op, Rejected, SchemaChange, Table, Watermark
from ticdc_spark.protocols.base import ReadOptions, RowReader
from ticdc_spark.protocols.open.frames import split_keys, split_values
from ticdc_spark.protocols.open.images import whole_before
from ticdc_spark.protocols.open.types import cell
from ticdc_spark.protocols.shared.json_rows import image_reader
from ticdc_spark.wire.compression import unpack

_BAD_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_ROW, _DDL, _RESOLVED = 1, 2, 3
_BRACE = ord("{")


class WireKey(msgspec.Struct, gc=False):
    """An event's key. Empty fields are omitted."""

    ts: int
    t: int
    scm: str = ""
    tbl: str = ""
    ptn: int | None = None
    ohk: bool = False
    ccl: str = ""


class WireRow(msgspec.Struct, gc=False):
    """A row event's value; images stay raw."""

    u: msgspec.Raw = msgspec.Raw(b"")
    p: msgspec.Raw = msgspec.Raw(b"")
    d: msgspec.Raw = msgspec.Raw(b"")


class WireDdl(msgspec.Struct, gc=False):
    """A DDL event's value."""

    q: str
    t: int | str


_KEY = msgspec.json.Decoder(WireKey)
_ROW_VALUE = msgspec.json.Decoder(WireRow)
_DDL_VALUE = msgspec.json.Decoder(WireDdl)


class OpenDecoder:
    """Reads the Open protocol. Stateless."""

    name = "open"

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        """Open one message into its events. A broken frame rejects all of them, a broken event only itself."""
        if not key:
            return (Rejected("an Open message has a key; this one has none: is it another protocol?"),)
        try:
            keys, values = split_keys(key), split_values(value)
        except MessageError as error:
            return (Rejected(str(error)),)
        if not keys and not value:
            return ()
        if len(keys) != len(values):
            return (Rejected(f"an Open message with {len(keys)} keys and {len(values)} values"),)
        return [_event(*pair) for pair in zip(keys, values, strict=True)]

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        """Compile a reader of images: raw JSON objects, column names to ``{"t", "h", "f", "v"}``.

        A column's type code and value must fit its type, and TIMESTAMP needs ``options.source_timezone``; otherwise the
        row is bad. Text that is not UTF-8 is returned as bytes.

        Raises: MessageError if the table has a column type that Open cannot carry.
        """
        cells = {column.name: cell(column.type, options) for column in table.columns}
        return image_reader(table, cells, only)


DECODER = OpenDecoder()


def _event(raw_key: bytes, raw_value: bytes) -> Event:
    try:
        key = _KEY.decode(raw_key)
        if not 0 < key.ts < 1 << 63:
            return Rejected(f"field `ts` is {key.ts}; allowed: 1 … 2^63 - 1")
        if key.t == _ROW:
            return _row(key, _ROW_VALUE.decode(unpack(raw_value)))
        if key.t == _DDL:
            ddl = _DDL_VALUE.decode(unpack(raw_value))
            return SchemaChange(commit_ts=key.ts, query=ddl.q, kind=str(ddl.t), schema=key.scm, name=key.tbl)
    except _BAD_JSON as error:
        return Rejected(f"not an Open event: {error}; key {raw_key[:200]!r}")
    except MessageError as error:
        return Rejected(f"Open event: {error}")
    if key.t == _RESOLVED:
        return Watermark(key.ts)
    return Rejected(f"field `t` of the key is {key.t}; allowed: 1 (row), 2 (DDL), 3 (resolved)")


def _row(key: WireKey, row: WireRow) -> Event:
    if not key.scm or not key.tbl:
        return Rejected("a row without field `scm` or `tbl`")
    op: Op
    before: bytes | None
    after: bytes | None
    before, after = bytes(row.d), bytes(row.u)
    old = bytes(row.p)
    if before:
        op = "delete"
        if after or old:
            return Rejected('a row with both "d" and "u" or "p"')
        after = None
    elif not after:
        return Rejected('a row with neither "u" nor "d"')
    elif old:
        op, before = "update", old
    else:
        op, before = "upsert", None
    if (before is not None and before[0] != _BRACE) or (after is not None and after[0] != _BRACE):
        return Rejected("an image that is no JSON object")
    if before and after:
        before = whole_before(after, before)
    partial = key.ohk or bool(key.ccl)
    # by place, which is faster than by name
    return Envelope(op, key.scm, key.tbl, key.ts, before, after, key.ptn, "", partial, None, None, key.ccl or None)
