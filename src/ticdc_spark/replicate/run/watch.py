"""What watches a run: its status, what a terminal shows, its metrics. The loop tells all of them the same."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.model import TableName
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.sinks.upkeep import UpkeepResult


class Maintained(msgspec.Struct, frozen=True, kw_only=True):
    """One look after the files of a table."""

    table: TableName
    seconds: float
    result: UpkeepResult = UpkeepResult()
    fault: str = ""
    """Why it could not be done; ``""``: it could."""


def _ignore(*_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """What is told of a run, in the thread of its loop: each call must be quick, and must not fail."""

    phase: Callable[[str, int], None] = _ignore
    """The job begins to do something, in a batch by its number."""
    committed: Callable[[BatchReport], None] = _ignore
    """A batch is committed, or the topics had nothing new."""
    trouble: Callable[[EnvironmentFault], None] = _ignore
    """A connection has failed, and the job tries again."""
    maintained: Callable[[Maintained], None] = _ignore
    """The files of a table were looked after."""
    suspected: Callable[[str], None] = _ignore
    """What the job waits for does not answer, one sentence; ``""``: it does again. In the thread of the heartbeat."""


UNWATCHED = Watcher()


def together(watchers: Iterable[Watcher]) -> Watcher:
    """One that tells several, in their order."""
    every = tuple(watchers)

    def phase(name: str, batch: int) -> None:
        for one in every:
            one.phase(name, batch)

    def committed(report: BatchReport) -> None:
        for one in every:
            one.committed(report)

    def trouble(fault: EnvironmentFault) -> None:
        for one in every:
            one.trouble(fault)

    def maintained(upkeep: Maintained) -> None:
        for one in every:
            one.maintained(upkeep)

    def suspected(why: str) -> None:
        for one in every:
            one.suspected(why)

    return Watcher(phase=phase, committed=committed, trouble=trouble, maintained=maintained, suspected=suspected)
