"""The command line: tell the stories of some seeds, and print what must never happen."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from multiprocessing import get_context
from typing import cast

import msgspec

from tests.simulator.draw import draw
from tests.simulator.seams import LabMaker
from tests.simulator.shrink import shrink
from tests.simulator.story import Outcome, Story, run

DEFAULT_LAB = "tests.simulator.job_lab:JobLab"
_CHUNK = 50


class Found(msgspec.Struct, frozen=True):
    """The stories of one signature."""

    story: Story
    """The first one."""
    outcome: Outcome
    seeds: tuple[int, ...]


class Totals(msgspec.Struct):
    """What a stretch of seeds came to."""

    stories: int = 0
    steps: int = 0
    actions: int = 0
    batches: int = 0
    moves: Counter[str] = msgspec.field(default_factory=Counter)
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    stops: Counter[str] = msgspec.field(default_factory=Counter)
    found: dict[str, Found] = {}

    def add(self, story: Story, outcome: Outcome) -> None:
        self.stories += 1
        self.steps += outcome.steps
        self.actions += outcome.actions
        self.batches += outcome.batches
        self.moves += outcome.moves
        self.faults += outcome.faults
        self.stops.update(stop.partition(":")[0] for stop in outcome.stops)
        if outcome.finding is not None:
            self.merge_found(outcome.finding.signature, Found(story, outcome, (story.seed,)))

    def merge_found(self, signature: str, found: Found) -> None:
        old = self.found.get(signature)
        first = found if old is None else Found(old.story, old.outcome, (*old.seeds, *found.seeds))
        self.found[signature] = first

    def merge(self, other: Totals) -> None:
        for name in ("stories", "steps", "actions", "batches", "moves", "faults", "stops"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for signature, found in other.found.items():
            self.merge_found(signature, found)


def make_lab(path: str) -> LabMaker:
    """The maker that ``module:name`` names."""
    module, _, name = path.partition(":")
    return cast(LabMaker, getattr(import_module(module), name))


def tell(work: tuple[range, int, str]) -> Totals:
    """Tell the stories of some seeds."""
    seeds, steps, path = work
    totals, lab = Totals(), make_lab(path)
    for seed in seeds:
        story = draw(seed, steps)
        totals.add(story, run(story, lab))
    return totals


def tell_all(seeds: range, steps: int, path: str, jobs: int, found: Callable[[str], bool]) -> Totals:
    """Tell stories over ``jobs`` processes; ends early when ``found`` says so of a new signature."""
    chunks = [(seeds[at : at + _CHUNK], steps, path) for at in range(0, len(seeds), _CHUNK)]
    totals = Totals()
    for part in _results(chunks, jobs):
        totals.merge(part)
        if any(found(signature) for signature in part.found):
            break
    return totals


def _results(chunks: list[tuple[range, int, str]], jobs: int) -> Iterator[Totals]:
    if jobs == 1:
        yield from map(tell, chunks)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(tell, chunks)


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 on findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seeds", default="0-1000", help="a seed, or first-last")
    parser.add_argument("--steps", type=int, default=60, help="about so many moves a story")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--shrink", action="store_true", help="print the smallest story of each finding")
    parser.add_argument("--story", action="store_true", help="print every move of the first story, and what it did")
    parser.add_argument("--first", action="store_true", help="end at the first finding")
    parser.add_argument("--lab", default=DEFAULT_LAB, help="module:name of what makes the laboratory")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    began = time.perf_counter()
    totals = tell_all(seeds, options.steps, options.lab, options.jobs, lambda _: options.first)
    _report(totals, time.perf_counter() - began)
    lab = make_lab(options.lab)
    if options.story:
        story = draw(seeds[0], options.steps)
        _say(story.text(), *run(story, lab, trace=True).trace)
    for signature, found in sorted(totals.found.items(), key=lambda item: -len(item[1].seeds)):
        _say("", f"{len(found.seeds)} x {signature}", f"  seeds {', '.join(map(str, found.seeds[:12]))}")
        story = shrink(found.story, lab) if options.shrink else found.story
        outcome = run(story, lab, trace=True)
        if outcome.finding is not None:
            _say(*(f"  {line}" for line in outcome.finding.detail.splitlines()))
        if options.shrink:
            _say(story.text().split("\n    0 ")[0], *outcome.trace)
    return int(bool(totals.found))


def _report(totals: Totals, seconds: float) -> None:
    rate = totals.stories / seconds if seconds else 0.0
    _say(
        f"{totals.stories} stories, {totals.steps} steps, {totals.batches} batches, {totals.actions} durable actions "
        f"in {seconds:.1f} s ({rate:.0f} stories/s, {totals.steps / seconds if seconds else 0:.0f} steps/s)"
    )
    for title, counts in (("moves", totals.moves), ("faults", totals.faults), ("stops", totals.stops)):
        _say(f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    _say(f"findings: {sum(len(found.seeds) for found in totals.found.values())} of {len(totals.found)} kinds")


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
