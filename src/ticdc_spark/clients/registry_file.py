"""A schema registry in a file: a recorded topic has its schemas beside it, and needs no server.

The file is a list of ``{"id", "subject", "version", "schema"}``, like the schema list of a registry's REST API. Reading
needs only ``id`` and ``schema``. ``open_registry`` accepts ``file:schemas.json`` in place of a registry's URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from ticdc_spark.errors import RegistryFault

if TYPE_CHECKING:
    from ticdc_spark.clients.registry import SchemaRegistry

PREFIX = "file:"


class _Entry(msgspec.Struct):
    id: int
    schema: str
    subject: str | None = None
    version: int | None = None


class RegistryFile:
    """Schemas by id, and ids by subject and schema. ``close``, or the end of a ``with``, saves new ones."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Read the file. ``create``: create a missing one at once, so that a wrong path fails early.

        Raises: RegistryFault for a file that cannot be read or made, or is no such list.
        """
        self._path = path
        self._entries: list[_Entry] = []
        self._changed = create and not path.exists()
        if self._changed:
            self.close()
        try:
            self._entries = msgspec.json.decode(path.read_bytes(), type=list[_Entry])
        except (OSError, msgspec.DecodeError) as error:
            raise self._fault(error) from error
        self._schemas = {entry.id: entry.schema for entry in self._entries}

    def __getitem__(self, number: int, /) -> str:
        """The text of a schema. Raises: KeyError."""
        return self._schemas[number]

    def register(self, subject: str, schema: str) -> int:
        """The id of a schema, which is the same under every subject. Compatibility is not checked."""
        ids = {entry.schema: entry.id for entry in reversed(self._entries)}
        number = ids.get(schema, max(self._schemas, default=0) + 1)
        versions = {entry.schema: entry.version for entry in self._entries if entry.subject == subject}
        if schema not in versions:
            version = len(versions) + 1
            self._entries.append(_Entry(id=number, subject=subject, version=version, schema=schema))
            self._schemas[number] = schema
            self._changed = True
        return number

    def close(self) -> None:
        """Save. Raises: RegistryFault."""
        if self._changed:
            try:
                self._path.write_bytes(msgspec.json.format(msgspec.json.encode(self._entries), indent=1))
            except OSError as error:
                raise self._fault(error) from error
            self._changed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fault(self, error: Exception) -> RegistryFault:
        return RegistryFault(f"schema registry {PREFIX}{self._path}: {error}")


def open_registry(
    where: str, options: Mapping[str, Any] | None = None, *, create: bool = False
) -> RegistryFile | SchemaRegistry:
    """The registry at ``file:PATH`` or a URL. ``options``: the client's. ``create``: a missing file may be created.

    Raises: UsageError for a URL or an option that the client does not accept; RegistryFault for a file.
    """
    if where.startswith(PREFIX):
        return RegistryFile(Path(where.removeprefix(PREFIX)), create=create)
    from ticdc_spark.clients.registry import SchemaRegistry  # its HTTP client is slow to import

    return SchemaRegistry(where, options)
