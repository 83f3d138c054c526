"""The Open protocol: events to exactly the bytes of TiCDC (classic architecture).

Images are written with Go's ``encoding/json``: columns sorted by name, ``<``, ``>``, ``&`` escaped. Rows share
messages up to ``max_batch_size`` and ``max_message_bytes``. DDL and resolved events have their own messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, RowChange, SchemaChange, Table
from ticdc_spark.protocols.base import Encoded
from ticdc_spark.protocols.open.frames import HEAD_BYTES, LENGTH_BYTES, frame_key, frame_value
from ticdc_spark.protocols.open.rows import RowWriter
from ticdc_spark.protocols.shared.by_table import ByTable
from ticdc_spark.protocols.shared.go_text import escape_html, escape_html_text
from ticdc_spark.protocols.shared.tidb_ddl_codes import ddl_type_code
from ticdc_spark.wire.compression import Compression, compress

_ENCODER = msgspec.json.Encoder()
_RECORD_OVERHEAD = 36
"""Bytes that Kafka may add to a record. TiCDC counts them towards max-message-bytes."""
Pair: TypeAlias = tuple[bytes, bytes]


class OpenConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How messages are written. Names are TiCDC's, if it has them."""

    time_zone: str = "UTC"
    """IANA name; TIMESTAMP is sent as local time in it, and the message does not name it."""
    max_batch_size: int = 16
    max_message_bytes: int = 10 * 1024 * 1024
    output_old_value: bool = True
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    large_message_handle: Literal["none", "handle-key-only", "claim-check"] = "none"
    store: Callable[[bytes, bytes], str] | None = None
    """For claim-check: stores a message's key and value and returns their location."""
    compression: Compression = "none"
    """Compression of each event's value."""


def encoder(config: OpenConfig | None = None) -> OpenEncoder:
    """The encoder of a configuration."""
    return OpenEncoder(config or OpenConfig())


class OpenEncoder:
    """Writes the Open protocol. Keeps only compiled code between calls."""

    def __init__(self, config: OpenConfig) -> None:
        self._config = config
        self._writers = ByTable(RowWriter, config.time_zone)

    def rows(self, changes: Iterable[RowChange]) -> Iterator[Encoded]:
        """Messages of several changes each, in order.

        Raises: MessageError for a change without a needed image, and a change that stays larger than
        ``max_message_bytes``.
        """
        batch: list[Pair] = []
        size = 0
        for change in changes:
            writer = self._writers.of(change.table)
            key, value = self._pair(change, writer)
            more = len(key) + len(value) + 2 * LENGTH_BYTES
            if batch and (len(batch) >= self._config.max_batch_size or size + more > self._config.max_message_bytes):
                yield _message(batch)
                batch = []
            if not batch:
                size = HEAD_BYTES + _RECORD_OVERHEAD
            batch.append((key, value))
            size += more
        if batch:
            yield _message(batch)

    def ddl(self, change: SchemaChange) -> Encoded | None:
        """A DDL. Its kind is sent if it is a type code, else the code is derived from its SQL."""
        code = int(change.kind) if change.kind.isdigit() else ddl_type_code(change.query)
        key = _key(change.commit_ts, 2, change.schema, change.name)
        return self._alone(key, _json({"q": change.query, "t": code}))

    def watermark(self, commit_ts: int) -> Encoded | None:
        """A resolved event; its value is empty."""
        return Encoded(frame_key([_key(commit_ts, 3)]), frame_value([b""]))

    def bootstrap(self, table: Table) -> Encoded | None:
        """``None``: no message carries a table's schema."""
        return None

    def _alone(self, key: bytes, value: bytes) -> Encoded:
        return Encoded(frame_key([key]), frame_value([compress(value, self._config.compression)]))

    def _pair(self, change: RowChange, writer: RowWriter) -> Pair:
        config = self._config
        pair = self._row(change, writer)
        if _size(pair) <= config.max_message_bytes:
            return pair
        if config.large_message_handle == "none":
            raise MessageError(self._too_large(change, pair))
        if not writer.keys:
            raise MessageError(f"{self._too_large(change, pair)}, and the table has no handle key")
        location = ""
        if config.large_message_handle == "claim-check":
            if config.store is None:
                raise MessageError("large-message-handle claim-check needs a place to store messages")
            location = config.store(frame_key(pair[:1]), frame_value(pair[1:]))
        small = self._row(change, writer, keys_only=True, location=location)
        if _size(small) > config.max_message_bytes:
            raise MessageError(self._too_large(change, small))
        return small

    def _row(self, change: RowChange, writer: RowWriter, *, keys_only: bool = False, location: str = "") -> Pair:
        key = writer.key(change, keys_only=keys_only or change.partial, location=location or change.claim_check or "")
        value = escape_html_text(self._images(change, writer, keys_only)).encode()
        return key, compress(value, self._config.compression)

    def _images(self, change: RowChange, writer: RowWriter, keys_only: bool) -> str:
        config = self._config
        only: Collection[str] | None = writer.keys if keys_only else None
        if change.op == "delete":
            if config.delete_only_output_handle_key_columns:
                only = writer.keys
                if not only:
                    raise MessageError(f"{_name(change)} has no handle key to delete by")
            return f'{{"d":{writer.image(_image(change, "before"), only)}}}'
        after = _image(change, "after")
        value = f'{{"u":{writer.image(after, only)}'
        if change.op == "update" and config.output_old_value:
            before = _image(change, "before")
            if config.only_output_updated_columns:
                changed = [name for name in before if name not in after or before[name] != after[name]]
                only = changed if only is None else [name for name in changed if name in only]
            if only is None or only:
                value += f',"p":{writer.image(before, only)}'
        return value + "}"

    def _too_large(self, change: RowChange, pair: Pair) -> str:
        return (
            f"a row of {_name(change)} takes {_size(pair)} bytes; max-message-bytes is {self._config.max_message_bytes}"
        )


def _image(change: RowChange, which: Literal["before", "after"]) -> Row:
    row = change.before if which == "before" else change.after
    if row is None:
        raise MessageError(f"{change.op} of {_name(change)} without its {which} image")
    return row


def _name(change: RowChange) -> str:
    return f"`{change.table.schema}`.`{change.table.name}`"


def _size(pair: Pair) -> int:
    return len(pair[0]) + len(pair[1]) + 2 * LENGTH_BYTES + HEAD_BYTES + _RECORD_OVERHEAD


def _message(batch: list[Pair]) -> Encoded:
    keys, values = zip(*batch, strict=True)
    return Encoded(frame_key(keys), frame_value(values), len(batch))


def _json(value: Any) -> bytes:
    return escape_html(_ENCODER.encode(value))


class _Key(msgspec.Struct, omit_defaults=True):
    ts: int
    scm: str = ""
    tbl: str = ""
    t: int = 0


def _key(ts: int, t: int, scm: str = "", tbl: str = "") -> bytes:
    return _json(_Key(ts=ts, scm=scm, tbl=tbl, t=t))
