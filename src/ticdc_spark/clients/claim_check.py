"""Claim check: messages too large for Kafka, each stored as a file that a small message points to.

A file is JSON, ``{"key": base64 or null, "value": base64}``, or with claim-check-raw-value only the value. Both are as
in Kafka, framed (Open) and compressed. Its name is ``<uuid>.json``, directly in the storage. TiCDC never removes one.
Source: the large-message-handle options, and the vectors' ``*.claim_check`` folders.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

import fsspec
import msgspec

from ticdc_spark.errors import MessageError, SinkFault, SourceFault, UsageError

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class Stored(msgspec.Struct, forbid_unknown_fields=True):
    """A file's JSON, with bytes in base64."""

    key: bytes | None
    value: bytes


_DECODER = msgspec.json.Decoder(Stored)


def read_stored(content: bytes) -> tuple[bytes | None, bytes]:
    """The key and value of a message from its file, which may be the bare value."""
    try:
        stored = _DECODER.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None, content  # no message of any protocol has just these two fields
    return stored.key, stored.value


def write_stored(key: bytes | None, value: bytes) -> bytes:
    """The file of a message, as Go writes it."""
    return msgspec.json.encode(Stored(key, value))


class ClaimCheckStorage:
    """A folder of such files, at a path or any URI for fsspec: ``file``, ``s3``, ``gs``, ``abfs`` …"""

    def __init__(self, uri: str, options: Mapping[str, Any] | None = None) -> None:
        """``options`` are fsspec's, of the URI's scheme.

        Raises: UsageError for a scheme that is unknown or whose package is missing, and a URI with a query.
        """
        if "?" in uri:
            raise UsageError(f"claim check storage {uri.partition('?')[0]}: settings behind ? are not read")
        self.uri = uri.rstrip("/")
        try:
            self._files, folder = fsspec.core.url_to_fs(uri, **(options or {}))
        except (ImportError, ValueError) as error:
            raise UsageError(f"claim check storage {uri}: {error}") from error
        self._folder = str(folder).rstrip("/")

    def fetch(self, location: str) -> bytes:
        """The content of the file that a message points to.

        Only the location's last part is used: the storage may be mounted elsewhere here, and a message must not name
        arbitrary files.

        Raises: MessageError for a location that names no file; SourceFault if the file is missing or cannot be read.
        """
        name = location.rpartition("/")[2]
        if not _NAME.fullmatch(name):
            raise MessageError(f"claim check location {location!r} names no file")
        try:
            content = self._files.cat_file(f"{self._folder}/{name}")
        except FileNotFoundError as error:
            raise SourceFault(
                f"the message kept at {location} is not in the claim check storage {self.uri}: it was removed, or kept "
                "in another storage"
            ) from error
        except OSError as error:
            raise SourceFault(f"cannot read {name} in the claim check storage {self.uri}: {error}") from error
        return bytes(content)

    def store(self, content: bytes) -> str:
        """Store a file under a new name, and return its location.

        Raises: SinkFault if it cannot be written.
        """
        name = f"{uuid.uuid4()}.json"
        try:
            self._files.makedirs(self._folder, exist_ok=True)
            self._files.pipe_file(f"{self._folder}/{name}", content)
        except OSError as error:
            raise SinkFault(f"cannot write to the claim check storage {self.uri}: {error}") from error
        return f"{self.uri}/{name}"

    def store_message(self, key: bytes | None, value: bytes) -> str:
        """Store a message, as JSON of its key and value."""
        return self.store(write_stored(key, value))
