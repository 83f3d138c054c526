"""Events of a storage sink's files that are no rows, and records that cannot be read."""

from collections.abc import Sequence

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Bootstrap, Event, Rejected, Watermark
from ticdc_spark.topics.storage.schema_file import read_schema_file


class _Head(msgspec.Struct, gc=False):
    """The fields that distinguish the files."""

    checkpoint: int | None = msgspec.field(default=None, name="checkpoint-ts")
    version: int | None = msgspec.field(default=None, name="TableVersion")
    unreadable: str | None = None
    is_ddl: bool | None = msgspec.field(default=None, name="isDdl")
    """Only a row has it."""


_HEAD = msgspec.json.Decoder(_Head)


def other_events(value: bytes) -> Sequence[Event] | None:
    """The events of a schema file, a checkpoint, or a record that cannot be read; ``None``: it is a row.

    Raises: MessageError
    """
    try:
        head = _HEAD.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if head.is_ddl is not None:
        return None
    if head.unreadable is not None:
        return (Rejected(head.unreadable),)
    if head.checkpoint is not None:
        return (Watermark(read_checkpoint(value)),)
    if head.version is None:
        return None
    found = read_schema_file(value)
    if (change := found.change()) is not None:
        return (change,)
    table = found.described()
    # Without its key, a table needs [schema] file, or the database.
    return (Bootstrap(table, found.version),) if table.indexes else ()


def is_unreadable(value: bytes) -> bool:
    """Whether a message is a record that cannot be read, of ``unreadable``."""
    try:
        return _HEAD.decode(value).unreadable is not None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def read_checkpoint(content: bytes) -> int:
    """The checkpoint of the file ``metadata``. Raises: MessageError"""
    try:
        found = msgspec.json.decode(content, type=dict[str, int])["checkpoint-ts"]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError) as error:
        allowed = '{"checkpoint-ts": 442349361847468033}'
        raise MessageError(f"begins with {content[:60]!r}; allowed: {allowed}") from error
    if not 0 < found < 1 << 63:
        raise MessageError(f"checkpoint-ts is {found}; allowed: 1 … 2^63 - 1")
    return found


def checkpoint_file(commit_ts: int) -> bytes:
    """The file ``metadata`` of a checkpoint."""
    return msgspec.json.encode({"checkpoint-ts": commit_ts})


def described_only(content: bytes) -> bytes:
    """A schema file without its DDL."""
    try:
        fields = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return content
    return msgspec.json.encode({**fields, "Query": msgspec.Raw(b'""')})


def unreadable(reason: str, record: bytes) -> bytes:
    """A message for a record that cannot be read, with the reason."""
    return msgspec.json.encode({"unreadable": reason, "record": record.decode("utf-8", "backslashreplace")})
