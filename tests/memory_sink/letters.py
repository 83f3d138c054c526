"""Dead letters in memory."""

from collections.abc import Callable, Sequence

from tests.memory_sink.lake import Lake
from ticdc_spark.sinks.dead_letters import DeadLetter

Kept = dict[tuple[int, str], tuple[DeadLetter, ...]]
"""By batch and stage."""


class MemoryLetters:
    """See ``DeadLetters``."""

    def __init__(self, kept: Kept, job: str, durable: Callable[[str, Callable[[], None]], None]) -> None:
        """``durable(what, action)`` carries out every change."""
        self._durable = durable
        self.held = kept
        self.where = f"memory, dead letters of {job}"

    def keep(self, batch: int, stage: str, letters: Sequence[DeadLetter], at: float) -> None:
        kept = tuple(letters)
        self._durable("dead letters", lambda: self._put((batch, stage), kept))

    def _put(self, at: tuple[int, str], kept: tuple[DeadLetter, ...]) -> None:
        found = {(one.topic, one.partition, one.offset, one.seq): one for one in (*self.held.get(at, ()), *kept)}
        self.held[at] = tuple(found.values())


def open_letters(lake: Lake, job: str, fence: Callable[[], None] = lambda: None) -> MemoryLetters:
    """The dead letters of a job. ``fence``: called before each commit."""

    def durable(what: str, action: Callable[[], None]) -> None:
        def fenced() -> None:
            fence()
            action()

        lake.durable(what, fenced)

    return MemoryLetters(lake.letters.setdefault(job, {}), job, durable)
