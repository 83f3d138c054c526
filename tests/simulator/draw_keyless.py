"""Stories with a table without a key: those of ``draw``, with dice of their own. TiCDC restarts more often in them."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from tests.simulator.draw import draw
from tests.simulator.moves import Move
from tests.simulator.story import Story

_SALT = 0x3C6EF3
_RESTARTS = ("restart", "transaction", "transaction", "send", "batch")


def draw_keyless(seed: int, steps: int = 60) -> Story:
    """A story in which one of the first tables has no key."""
    rand = Random(seed ^ _SALT)
    story = draw(seed, steps)
    setup, moves = story.setup, list(story.moves)
    # Rows of one table stay in their order in a partition: without a key, nothing else tells what was sent again.
    feed = replace(setup.feed, keyless=rand.randrange(2), reorder=0.0, duplicates=0.0)
    for _ in range(2 + rand.randrange(4)):
        at = rand.randrange(len(moves) + 1)
        for kind in _RESTARTS:
            n = {"send": rand.choice((5, 20, 1000)), "batch": rand.choice((3, 1000))}.get(kind, 0)
            moves.insert(at, Move(kind=kind, n=n, dice=rand.getrandbits(30)))  # type: ignore[arg-type]
            at += 1 + rand.randrange(2)
    job = replace(setup.job, no_key="apply")
    setup = replace(setup, feed=feed, job=job)
    if rand.randrange(3) == 0:
        # It was there before, and is read in full as of one commit_ts.
        job = replace(job, snapshot=rand.choice(("exact", "dump")), starting="earliest")
        feed = replace(feed, bootstrap=True, withheld=-1)
        setup = replace(setup, job=job, feed=feed, tables_before=2, rows_before=10, schema_file_late=False)
    return replace(story, setup=setup, moves=tuple(moves))
