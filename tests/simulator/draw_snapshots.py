"""Stories of jobs whose tables begin with full reads: those of ``draw``, with dice of their own, so that its seeds tell
the same as ever."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from tests.simulator.draw import draw
from tests.simulator.draw_more import with_more_reads
from tests.simulator.moves import Move, MoveKind
from tests.simulator.story import Story

_NOT_YET: frozenset[MoveKind] = frozenset()


def with_other_reads(story: Story) -> Story:
    """A story whose job reads tables in full, in another setup. In half of them, only the reads tell the job what there
    is, and no schema file. In others it reads some tables only, or the changefeed began before the dump."""
    job = story.setup.job
    if not job.snapshot:
        return story
    setup = replace(
        story.setup,
        job=replace(job, snapshot_tables=("*.t*",)) if story.seed % 8 == 2 else job,
        no_schema_file=bool(story.seed % 2),
        dump_at_start=story.seed % 4 > 1,
    )
    return replace(story, setup=setup)


def draw_more_snapshots(seed: int, steps: int = 60) -> Story:
    """The story of ``draw_with_snapshots``, in other setups."""
    return with_other_reads(draw_with_snapshots(seed, steps))


def draw_with_snapshots(seed: int, steps: int = 60) -> Story:
    """The story of a seed, with tables that were there before, and people who ask for full reads."""
    story, rand = draw(seed, steps), Random(seed ^ 0x5A5A5A)
    mode = rand.choice(("now", "now", "exact", "dump"))
    job = replace(story.setup.job, snapshot=mode, starting="earliest")
    feed = replace(story.setup.feed, bootstrap=True, withheld=-1)
    before = rand.choice((0, 1, 2, 3))
    setup = replace(
        story.setup, job=job, feed=feed, tables_before=before, rows_before=4 * before, schema_file_late=False
    )
    moves = [move for move in story.moves if move.kind not in _NOT_YET]
    if mode != "dump":
        for _ in range(rand.randrange(3)):
            moves.insert(rand.randrange(len(moves) + 1), Move(kind="rebuild", dice=rand.getrandbits(30)))
    return with_more_reads(replace(story, setup=setup, moves=tuple(moves)))


def draw_generated(seed: int, steps: int = 60) -> Story:
    """The story of ``draw_more_snapshots``, with tables that have virtual generated columns."""
    story = draw_more_snapshots(seed, steps)
    return replace(story, setup=replace(story.setup, generated=True))


def draw_repairs(seed: int, steps: int = 60) -> Story:
    """The story of ``draw_more_snapshots``, with people who let rows be read again."""
    story, rand = draw_more_snapshots(seed, steps), Random(seed ^ 0x3E9A17)
    moves = list(story.moves)
    for _ in range(1 + rand.randrange(5)):
        moves.insert(rand.randrange(len(moves) + 1), Move(kind="repair", dice=rand.getrandbits(30)))
    return replace(story, moves=tuple(moves))
