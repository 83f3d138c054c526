"""Stories in which several things go wrong at once: those of ``draw``, or with full reads, with dice of their own, so
that its seeds tell the same as ever. Moves that are trouble only together stand close to each other."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from tests.simulator.draw import draw
from tests.simulator.draw_snapshots import draw_with_snapshots, with_other_reads
from tests.simulator.moves import Move, MoveKind
from tests.simulator.setup import Setup
from tests.simulator.story import Story

_TROUBLES: tuple[tuple[str, ...], ...] = (
    ("save_lake", "restore_lake", "recreate_topic", "send", "batch", "older_start", "send", "batch"),
    ("save_lake", "recreate_topic", "restore_lake", "send", "older_start", "batch", "send", "batch"),
    ("save_lake", "trim_topic", "restore_lake", "send", "batch", "older_start", "send"),
    ("save_lake", "batch", "send", "restore_lake", "batch", "send"),
    ("save_lake", "send", "batch", "rebuild", "batch", "send", "restore_lake", "batch"),
    ("kill", "save_lake", "batch", "restore_lake", "older_start", "batch", "restore_lake"),
    ("save_lake", "rebuild", "batch", "restore_lake", "batch", "rebuild"),
    ("rebuild", "mangle", "send", "ddl rename_table", "batch", "send", "batch", "resume"),
    (
        "on_reject quarantine",
        "mangle",
        "send",
        "ddl rename_table",
        "send",
        "batch",
        "ddl swap_tables",
        "send",
        "resume",
    ),
    ("on_reject quarantine", "corrupt", "transaction", "send", "batch", "ddl rename_many", "send", "restore_lake"),
    ("on_reject quarantine", "corrupt", "transaction", "send", "batch", "ddl drop_database", "send", "batch", "resume"),
    ("on_reject continue", "mangle", "ddl recreate_table", "send", "batch", "transaction", "send", "batch"),
    ("save_lake", "topics", "batch", "ddl rename_table", "restore_lake", "send", "batch", "topics", "batch"),
    ("topics", "ddl drop_database", "send", "batch", "restore_lake", "batch", "topics"),
    ("tables *.* !*.x*", "batch", "ddl rename_table", "send", "batch", "restore_lake", "tables *.*", "batch"),
    ("save_lake", "skip_any_ddl", "send", "batch", "restore_lake", "batch", "older_start", "send"),
    ("save_lake", "rollback", "batch", "restore_lake", "drop_lake_table", "batch"),
    ("save_lake", "ddl move_table", "send", "batch", "restore_table", "batch", "rollback", "batch"),
    ("save_lake", "more_partitions", "stall", "send", "batch", "restore_lake", "recreate_topic", "send", "batch"),
    ("late_rows apply-if-newest", "hang", "batch", "restore_lake", "older_start", "send", "batch"),
    (
        "save_lake",
        "drop_table keep",
        "ddl drop_table",
        "send",
        "batch",
        "ddl create_table",
        "restore_lake",
        "send",
        "batch",
    ),
)
"""Moves, each with its word."""


def draw_harder(seed: int, steps: int = 60) -> Story:
    """The story of a seed, with one to three troubles."""
    rand = Random(seed ^ 0x3C3C3C)
    story = (draw_with_snapshots if rand.random() < 0.35 else draw)(seed, steps)
    moves = list(story.moves)
    for _ in range(rand.choice((1, 1, 2, 2, 3))):
        at = rand.randrange(len(moves) + 1)
        for line in rand.choice(_TROUBLES):
            moves.insert(at, _move(line, rand))
            at += 1 + (rand.randrange(4) if rand.random() < 0.4 else 0)
    return replace(story, setup=_suited(story.setup, rand), moves=tuple(moves))


def draw_harder_reads(seed: int, steps: int = 60) -> Story:
    """The story of ``draw_harder``, with full reads in other setups."""
    return with_other_reads(draw_harder(seed, steps))


def _suited(setup: Setup, rand: Random) -> Setup:
    if rand.random() < 0.4:
        return setup
    return replace(setup, feed=replace(setup.feed, topic_per_table=True))


def _move(line: str, rand: Random) -> Move:
    name, _, word = line.partition(" ")
    kind: MoveKind = name  # type: ignore[assignment]
    n = {"send": rand.choice((3, 20, 1000)), "batch": rand.choice((3, 1000)), "rollback": 1 + rand.randrange(3)}
    return Move(kind=kind, word=word, n=n.get(name, 0), dice=rand.getrandbits(30))
