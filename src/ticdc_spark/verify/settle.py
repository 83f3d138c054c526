"""Looks again at rows that differ, until they are equal, proven to differ, or the time is over.

A row may differ only because its change is not applied yet. So each look waits until the job has committed everything
that the source had at the look before. A row that differs and has the same values on both sides in three looks did not
change at the source between them, and the target had time to follow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Any

import msgspec

from ticdc_spark.verify.cells import Key
from ticdc_spark.verify.columns import TablePlan
from ticdc_spark.verify.compare import Difference, compared, looked_up
from ticdc_spark.verify.sides import Side

STEADY = 3
"""Looks in a row that must show the same values."""
MOST = 10
"""Largest number of looks at a row that keeps changing."""


class Settled(msgspec.Struct, frozen=True):
    """The result for rows that differed."""

    differences: tuple[Difference, ...] = ()
    undecided: frozenset[Key] = frozenset()
    why: str = ""
    """Why rows are undecided."""


class _Look(msgspec.Struct, frozen=True):
    seen: bytes
    times: int


def settle(
    plan: TablePlan,
    keys: Collection[Key],
    source: Side,
    moment: Callable[[], int],
    target: Callable[[int], Side | str],
) -> Settled:
    """Look at rows again.

    ``moment``: returns a commit_ts at or above everything that can be read now. ``target``: returns the table once the
    job has committed that, or a text that says why it has not. Raises: SourceFault, SinkFault; Altered
    """
    waiting, proven, looks = set(keys), list[Difference](), dict[Key, _Look]()
    for _ in range(MOST):
        if not waiting:
            break
        side = target(moment())
        if isinstance(side, str):
            return Settled(tuple(proven), frozenset(waiting), side)
        there = looked_up(plan, side, waiting)
        found = compared(plan, looked_up(plan, source, waiting), there)
        waiting.clear()
        for one in found:
            seen = _mark(one)
            before = looks.get(one.key)
            times = 1 if before is None or before.seen != seen else before.times + 1
            looks[one.key] = _Look(seen, times)
            if times >= STEADY:
                proven.append(one)
            else:
                waiting.add(one.key)
    why = f"they changed at each of {MOST} looks" if waiting else ""
    return Settled(tuple(proven), frozenset(waiting), why)


def _mark(one: Difference) -> bytes:
    values: tuple[Any, ...] = (one.kind, one.source, one.target)
    return sha256(repr(values).encode()).digest()
