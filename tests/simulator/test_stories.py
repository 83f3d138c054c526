"""Stories, verdict and shrinker, with the reference applier as the job: calm stories end well, others are found out."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from tests.simulator.draw import draw, draw_basic
from tests.simulator.faults import Fault
from tests.simulator.moves import CALM, Move, MoveKind
from tests.simulator.reference_lab import ReferenceLab
from tests.simulator.runner import main
from tests.simulator.shrink import shrink
from tests.simulator.story import Outcome, Story, run

BEYOND = ("exchange_partition", "silent_version", "silent_column")
"""Schema changes that the reference does not follow."""


def _bears(protocol: str, fault: Fault) -> bool:
    """The reference has no lease; it can do half a batch again only where messages carry whole schemas, and has no
    marks by which it would know that a commit whose answer was lost is done."""
    return protocol == "simple" and fault.kind not in ("suspended", "answer_lost")


def calm(seed: int) -> Story:
    """A story in which the reference must reach the truth."""
    story = draw_basic(seed)
    setup = story.setup
    # The reference takes a local time that happens twice for one instant.
    zone = "Asia/Shanghai" if setup.feed.zone == "America/New_York" else setup.feed.zone
    feed = replace(setup.feed, withheld=-1, zone=zone)
    job = replace(setup.job, tables=(), topics=None, starting="earliest", drop_table="apply", source_timezone=zone)
    moves = tuple(
        replace(move, fault=None) if move.fault and not _bears(feed.protocol, move.fault) else move
        for move in story.moves
        if move.kind in CALM and move.word not in BEYOND and move.kind != "drop_table"
    )
    plain = replace(setup, feed=feed, job=job, plain=True, tables_before=0, schema_file_late=False)
    return replace(story, setup=plain, moves=moves)


@pytest.mark.parametrize("seed", range(150))
def test_a_calm_story_ends_in_the_truth(seed: int) -> None:
    outcome = run(calm(seed), ReferenceLab)
    assert outcome.finding is None


def touched(seed: int, kind: MoveKind) -> tuple[Story, Outcome]:
    """A calm story after which another writer does something to the lake that the reference cannot notice."""
    story = calm(seed)
    after = tuple(Move(kind=kind, dice=seed + at) for at in range(2))
    settle = (
        Move(kind="send", n=1000),
        Move(kind="batch", n=1000),
        Move(kind="wait", n=70),
        Move(kind="batch", n=1000),
    )
    story = replace(story, moves=(*story.moves, *settle, *after))
    return story, run(story, ReferenceLab)


@pytest.mark.parametrize("kind", ["insert_row", "delete_row", "drop_lake_column", "drop_lake_table", "rollback"])
def test_what_the_job_does_not_notice_is_a_finding(kind: MoveKind) -> None:
    found = [outcome.finding.kind for seed in range(20) if (outcome := touched(seed, kind)[1]).finding]
    assert set(found) <= {"wrong data", "lost table", "unexpected exception", "a stop without a way out"}
    assert "lost table" in found if kind == "drop_lake_table" else "wrong data" in found


def test_the_same_seed_gives_the_same_story_and_outcome() -> None:
    for seed in range(30):
        first, second = draw(seed), draw(seed)
        assert first == second
        assert msgspec.json.decode(msgspec.json.encode(first), type=Story) == first
        assert run(first, ReferenceLab, trace=True) == run(second, ReferenceLab, trace=True)


def test_a_story_is_shrunk_to_what_its_finding_needs() -> None:
    story, outcome = next(
        (story, outcome)
        for seed in range(20)
        for story, outcome in [touched(seed, "delete_row")]
        if outcome.finding and outcome.finding.kind == "wrong data"
    )
    assert outcome.finding is not None
    smaller = shrink(story, ReferenceLab)
    again = run(smaller, ReferenceLab).finding
    assert again is not None
    assert again.signature == outcome.finding.signature
    assert len(smaller.moves) <= 8
    assert "delete_row" in {move.kind for move in smaller.moves}


def test_the_command_counts_and_ends_with_one_on_findings(capsys: pytest.CaptureFixture[str]) -> None:
    seeds = [seed for seed in range(60) if run(draw(seed), ReferenceLab).finding]
    assert main(["--seeds", str(seeds[0]), "--lab", "tests.simulator.reference_lab:ReferenceLab"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("1 stories, ")
    assert f"seeds {seeds[0]}" in printed
