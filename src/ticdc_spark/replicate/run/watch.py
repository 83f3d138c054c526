"""Watchers of a run: its status, its terminal output, its metrics. The loop makes the same calls to all of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.model import TableName
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.sinks.upkeep import UpkeepResult


class Maintained(msgspec.Struct, frozen=True, kw_only=True):
    """One upkeep of a table's files."""

    table: TableName
    seconds: float
    result: UpkeepResult = UpkeepResult()
    fault: str = ""
    """Why it failed; ``""``: it did not."""


def _ignore(*_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Calls during a run, in the thread of its loop. Each must be quick, and must not fail."""

    phase: Callable[[str, int], None] = _ignore
    """The job begins a phase, in the batch of this number."""
    committed: Callable[[BatchReport], None] = _ignore
    """A batch is committed, or the topics had nothing new."""
    trouble: Callable[[EnvironmentFault], None] = _ignore
    """A connection has failed, and the job retries."""
    maintained: Callable[[Maintained], None] = _ignore
    """The upkeep of a table's files has ended."""
    suspected: Callable[[str], None] = _ignore
    """One sentence if what the job waits for does not answer; ``""``: it does again. In the heartbeat's thread."""


UNWATCHED = Watcher()


def together(watchers: Iterable[Watcher]) -> Watcher:
    """A watcher that calls several, in their order."""
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
