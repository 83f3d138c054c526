"""Shrink a story to the moves that its finding needs (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from tests.simulator.moves import Move
from tests.simulator.seams import LabMaker
from tests.simulator.story import Story, run

MOST_RUNS = 600


def shrink(story: Story, make_lab: LabMaker, *, most_runs: int = MOST_RUNS) -> Story:
    """The smallest story found, within ``most_runs`` runs, that has a finding of the same signature."""
    found = run(story, make_lab).finding
    if found is None:
        return story
    left = most_runs

    def still_fails(moves: tuple[Move, ...], setup_of: Story) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            return False
        outcome = run(replace(setup_of, moves=moves), make_lab)
        return outcome.finding is not None and outcome.finding.signature == found.signature

    moves = _fewer(story.moves, lambda moves: still_fails(moves, story))
    moves = _simpler(moves, lambda moves: still_fails(moves, story))
    smaller = replace(story, moves=moves)
    for plain in _plainer(story):
        if still_fails(moves, replace(smaller, setup=plain.setup)):
            smaller = replace(smaller, setup=plain.setup)
    moves = _fewer(smaller.moves, lambda moves: still_fails(moves, smaller))
    return replace(smaller, moves=moves)


def _fewer(moves: tuple[Move, ...], fails: Callable[[tuple[Move, ...]], bool]) -> tuple[Move, ...]:
    """Take out stretches of moves, the long ones first."""
    size = max(1, len(moves) // 2)
    while size:
        at = 0
        while at < len(moves):
            shorter = moves[:at] + moves[at + size :]
            if fails(shorter):
                moves = shorter
            else:
                at += size
        size //= 2
    return moves


def _simpler(moves: tuple[Move, ...], fails: Callable[[tuple[Move, ...]], bool]) -> tuple[Move, ...]:
    """Take out faults, and send and read all at once."""
    for at, move in enumerate(moves):
        simple = [replace(move, fault=None)] if move.fault is not None else []
        simple += [replace(move, n=1000)] if move.kind in ("send", "batch") and move.n != 1000 else []
        for one in simple:
            changed = (*moves[:at], one, *moves[at + 1 :])
            if fails(changed):
                moves = changed
    return moves


def _plainer(story: Story) -> list[Story]:
    """The story with one thing less in its setup each."""
    feed, setup = story.setup.feed, story.setup
    feeds = [
        replace(feed, **{name: value})
        for name, value in (
            ("reorder", 0.0),
            ("duplicates", 0.0),
            ("uneven", False),
            ("idle_partitions", 0),
            ("partitions", 1),
            ("no_pre_table", False),
            ("zone", "UTC"),
            ("topic_per_table", False),
        )
        if getattr(feed, name) != value
    ]
    return [
        replace(story, setup=replace(setup, feed=one, job=replace(setup.job, source_timezone=one.zone)))
        for one in feeds
    ]
