"""The state of a job in memory."""

from collections.abc import Callable
from itertools import count

from ticdc_spark.sinks.state import NOTHING, Parts, StateMoved, StoredState

_VERSIONS = count(1)


class MemoryState:
    """See ``StateStore``. It outlives the processes that use it."""

    def __init__(self, job: str, durable: Callable[[str, Callable[[], None]], None] | None = None) -> None:
        """``durable``: as ``Lake`` takes it."""
        self.where = f"the state of {job} in memory"
        self.pause = 0.0
        self.stored: StoredState = NOTHING
        self.resolved_ts = 0
        self._durable = durable
        self._heartbeat: bytes | None = None

    def version(self) -> str | None:
        return self.stored.version

    def load(self) -> StoredState:
        return self.stored

    def as_of(self, resolved_ts: int) -> StoredState:
        return self.stored if 0 < self.resolved_ts <= resolved_ts else NOTHING

    def commit(self, parts: Parts, expected: str | None, resolved_ts: int) -> str:
        made = str(next(_VERSIONS))

        def do() -> None:
            if self.stored.version != expected:
                raise StateMoved
            self.stored = StoredState(version=made, parts={**self.stored.parts, **parts})
            self.resolved_ts = resolved_ts

        if self._durable is None:
            do()
        else:
            self._durable("state", do)
        return made

    def beat(self, heartbeat: bytes) -> None:
        if self.stored.version is not None:
            self._heartbeat = heartbeat

    def heartbeat(self) -> bytes | None:
        return self._heartbeat

    def close(self) -> None:
        """Nothing is open."""
