"""Dead letters in memory."""

from collections.abc import Callable, Sequence

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
        self.held[at] = kept
