"""The files of a state, each replaced whole: in a folder, or in an object store."""

from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from ticdc_spark.config.state import StateUri
from ticdc_spark.durable import replace_file
from ticdc_spark.errors import EnvironmentFault, UsageError


class Place(Protocol):
    """Where the files of a state are."""

    def where(self, name: str) -> str:
        """A file, for messages."""

    def read(self, name: str) -> bytes | None:
        """A whole file; ``None`` when it is not there. Raises: EnvironmentFault"""

    def replace(self, name: str, data: bytes) -> None:
        """Write a file whole, or leave it as it was. Raises: EnvironmentFault"""

    def overwrite(self, name: str, data: bytes) -> None:
        """The same, whatever became of the file since it was read or written here. Raises: EnvironmentFault"""

    def names(self, folder: str) -> list[str]:
        """The files of a folder of the state, each with the folder's name before it. Raises: EnvironmentFault"""

    def remove(self, name: str) -> None:
        """Remove a file, which may be gone already. Raises: EnvironmentFault"""


class FolderPlace:
    """See ``Place``: a folder, which is made when it is first written to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def where(self, name: str) -> str:
        return str(self._folder / name)

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            message = f"{self.where(name)} cannot be read: {error}"
            raise EnvironmentFault(message) from error

    def replace(self, name: str, data: bytes) -> None:
        try:
            (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._folder / name, data)
        except OSError as error:
            message = f"{self.where(name)} cannot be written: {error}"
            raise EnvironmentFault(message) from error

    overwrite = replace

    def names(self, folder: str) -> list[str]:
        try:
            found = [path.name for path in (self._folder / folder).iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            message = f"{self.where(folder)} cannot be read: {error}"
            raise EnvironmentFault(message) from error
        return [f"{folder}/{name}" for name in found if not name.endswith(".tmp")]

    def remove(self, name: str) -> None:
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            message = f"{self.where(name)} cannot be removed: {error}"
            raise EnvironmentFault(message) from error


def open_place(state: Path | StateUri) -> Place:
    """Where a job's state is. Raises: UsageError for an object store whose options do not fit, and without obstore"""
    if isinstance(state, Path):
        return FolderPlace(state)
    need_obstore(state)
    from ticdc_spark.replicate.state.objects import ObjectPlace

    return ObjectPlace(state)


def need_obstore(state: StateUri) -> None:
    """Raises: UsageError"""
    if find_spec("obstore") is None:
        raise UsageError(f"[job] state: {state} needs the package obstore: pip install obstore")
