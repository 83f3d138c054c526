"""Claims on a lake: numbered, each made by one process only, whatever else is tried at the same time."""

from typing import Protocol


class Claims(Protocol):
    """The claims of one job. Numbers rise; what is below the newest is over."""

    where: str
    """The place, for messages."""

    def newest(self) -> int:
        """The highest number; 0: there is none. Raises: SinkFault"""

    def read(self, number: int) -> str | None:
        """The text of a claim; ``None``: there is no such claim. Raises: SinkFault"""

    def make(self, number: int, text: str) -> bool:
        """Make a claim, unless there is one of this number. Raises: SinkFault where it is not known what came of it"""

    def write(self, number: int, text: str) -> bool:
        """Replace the text of a claim, which only its maker does; ``False``: it is gone. Raises: SinkFault"""

    def remove(self, number: int) -> None:
        """Remove a claim, which may be gone. Raises: SinkFault"""

    def remove_before(self, number: int) -> None:
        """Remove all claims with lower numbers. Raises: SinkFault"""
