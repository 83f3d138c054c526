"""What at-least-once delivery does to a stream of events: restarts of TiCDC, and rows that overtake."""

from collections import deque
from collections.abc import Iterable, Iterator
from random import Random

from tests.workload.columns import Rand
from ticdc_spark.model import Change, RowChange, SchemaChange, Watermark

_KEPT_CHECKPOINTS = 4
"""A restart goes back by at most so many watermarks."""
_WINDOW = 400
"""A row overtakes at most so many events."""


def with_restarts(events: Iterable[Change], every: int, seed: int) -> Iterator[Change]:
    """After each ``every`` events or so, send everything again that lies at or above an older watermark.

    Rows, DDLs and watermarks come again, and watermarks go back, as after a crash of TiCDC. ``events`` must be in
    commit order, so that what follows a watermark is what lies at or above it.
    """
    rand = Random(seed ^ 0x5EED).random
    sent: deque[list[Change]] = deque(maxlen=_KEPT_CHECKPOINTS)
    left = int(every * (0.5 + rand()))
    for event in events:
        if isinstance(event, Watermark):
            sent.append([])
        if sent:
            sent[-1].append(event)
        yield event
        left -= 1
        if left <= 0 and sent:
            left = int(every * (0.5 + rand()))
            for interval in list(sent)[int(rand() * len(sent)) :]:
                yield from interval


def overtaking(events: Iterable[Change], seed: int) -> Iterator[Change]:
    """Let rows move to earlier places, past other rows, BOOTSTRAPs and watermarks, but never past a DDL.

    A watermark covers only what was sent before it; what was not yet due may be there too.
    """
    rand = Random(seed ^ 0x0DD).random
    held: list[Change] = []
    for event in events:
        held.append(event)
        if isinstance(event, SchemaChange) or len(held) >= _WINDOW:
            yield from _shuffled(held, rand)
            held = []
    yield from _shuffled(held, rand)


def _shuffled(held: list[Change], rand: Rand) -> Iterator[Change]:
    places = [
        (at - rand() * _WINDOW / 8 if isinstance(event, RowChange) else float(at)) for at, event in enumerate(held)
    ]
    for at in sorted(range(len(held)), key=places.__getitem__):
        yield held[at]
