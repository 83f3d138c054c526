"""Lists and reads the folder of a storage sink, on a disk or in a store. Paths are relative to it, with ``/``."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ticdc_spark.errors import SourceFault, os_reason


class Listed(msgspec.Struct, frozen=True):
    """The direct content of a folder."""

    folders: tuple[str, ...] = ()
    """Names, sorted."""
    files: tuple[tuple[str, int], ...] = ()
    """Names and sizes, sorted."""


class Files(Protocol):
    """The folder of a storage sink. It is also sent to tasks. Every call raises SourceFault if it cannot be reached."""

    @property
    def where(self) -> str:
        """The place, for messages."""

    def look_into(self, folders: Sequence[str]) -> list[Listed]:
        """The content of each of these folders; empty for a missing one. ``""`` is the folder itself."""

    def find(self, paths: Sequence[str]) -> list[bytes | None]:
        """Whole files; ``None`` for a missing one."""


class LocalFiles(msgspec.Struct, frozen=True):
    """A folder on a disk."""

    where: str

    def look_into(self, folders: Sequence[str]) -> list[Listed]:
        return [self._list(folder) for folder in folders]

    def find(self, paths: Sequence[str]) -> list[bytes | None]:
        return [self._find(path) for path in paths]

    def _list(self, folder: str) -> Listed:
        path = Path(self.where, folder)
        try:
            with os.scandir(path) as found:
                entries = sorted(found, key=lambda entry: entry.name)
            return Listed(
                tuple(entry.name for entry in entries if entry.is_dir()),
                tuple((entry.name, entry.stat().st_size) for entry in entries if entry.is_file()),
            )
        except (FileNotFoundError, NotADirectoryError):
            return Listed()
        except OSError as error:
            raise SourceFault(os_reason(error)) from error

    def _find(self, path: str) -> bytes | None:
        try:
            return Path(self.where, path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceFault(os_reason(error)) from error
