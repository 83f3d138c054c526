"""The command line: run the stories of some seeds, and print what must never happen."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from typing import TypeAlias, cast

import msgspec

from tests.simulator.draw import draw
from tests.simulator.draw_harder import draw_harder_reads
from tests.simulator.draw_keyless import draw_keyless
from tests.simulator.draw_snapshots import draw_generated, draw_more_snapshots, draw_repairs
from tests.simulator.seams import LabMaker
from tests.simulator.shrink import shrink
from tests.simulator.story import Outcome, Story, run

DEFAULT_LAB = "tests.simulator.job_lab:JobLab"
_CHUNK = 400
"""Stories of one process: its memory grows by about 1 MB a story without the collector."""
_NO_END = 1 << 60
Draw: TypeAlias = Callable[[int, int], Story]
_SHOW_EVERY = 30.0
"""Seconds between two lines about how far a long run is."""


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
    draws: Counter[str] = msgspec.field(default_factory=Counter)
    found: dict[str, Found] = {}

    def add(self, story: Story, outcome: Outcome) -> None:
        self.stories += 1
        self.steps += outcome.steps
        self.actions += outcome.actions
        self.batches += outcome.batches
        self.moves += outcome.moves
        self.faults += outcome.faults
        self.draws += outcome.draws
        self.stops.update(stop.partition(":")[0] for stop in outcome.stops)
        if outcome.finding is not None:
            self.merge_found(outcome.finding.signature, Found(story, outcome, (story.seed,)))

    def merge_found(self, signature: str, found: Found) -> None:
        old = self.found.get(signature)
        first = found if old is None else Found(old.story, old.outcome, (*old.seeds, *found.seeds))
        self.found[signature] = first

    def merge(self, other: Totals) -> None:
        for name in ("stories", "steps", "actions", "batches", "moves", "faults", "stops", "draws"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for signature, found in other.found.items():
            self.merge_found(signature, found)


def make_lab(path: str) -> LabMaker:
    """The maker that ``module:name`` names."""
    module, _, name = path.partition(":")
    return cast(LabMaker, getattr(import_module(module), name))


def run_stories(seeds: range, steps: int, path: str, drawn: Draw = draw) -> Totals:
    """Tell the stories of some seeds."""
    totals, lab = Totals(), make_lab(path)
    with quietly(), without_collector():
        for seed in seeds:
            story = drawn(seed, steps)
            totals.add(story, run(story, lab))
    return totals


@contextmanager
def without_collector() -> Iterator[None]:
    """Without Python's collector of cycles, which takes an eighth of the time: a stretch leaves little behind. What was
    there before is not looked at afterwards, either: that took a quarter."""
    before = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if before:
            gc.enable()


@contextmanager
def quietly() -> Iterator[None]:
    """Without what the job logs in stories: thousands of warnings, as they should be."""
    log = logging.getLogger("ticdc_spark")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def tell_all(
    chunks: Iterable[range], steps: int, path: str, jobs: int, enough: Callable[[Totals], bool], drawn: Draw = draw
) -> Totals:
    """Run the stories of chunks of seeds over ``jobs`` processes, until there are no more or ``enough`` is true."""
    totals = Totals()
    for part in _results(chunks, steps, path, jobs, drawn):
        totals.merge(part)
        if enough(totals):
            break
    return totals


def _results(chunks: Iterable[range], steps: int, path: str, jobs: int, drawn: Draw) -> Iterator[Totals]:
    """In the order of the chunks, of which there may be no end."""
    if jobs == 1:
        yield from (run_stories(chunk, steps, path, drawn) for chunk in chunks)
        return
    waiting: deque[Future[Totals]] = deque()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for chunk in chunks:
                waiting.append(pool.submit(_run_in_process, chunk, steps, path, drawn))
                if len(waiting) > 2 * jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _run_in_process(chunk: range, steps: int, path: str, drawn: Draw) -> Totals:
    """A process that ends with its chunk gives back what the collector would have to find. It is forked from one that
    has imported everything."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__, path.partition(":")[0]])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(run_stories, chunk, steps, path, drawn).result()


def _chunks(seeds: range) -> Iterator[range]:
    for at in range(0, len(seeds), _CHUNK):
        yield seeds[at : at + _CHUNK]


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 on findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seeds", default="0-1000", help="a seed, or first-last")
    parser.add_argument(
        "--steps-total",
        type=int,
        default=0,
        help="stories of one seed after the other, from the first of --seeds on, until so many steps were done",
    )
    parser.add_argument("--steps", type=int, default=60, help="about so many moves a story")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0: one a core")
    parser.add_argument("--shrink", action="store_true", help="print the smallest story of each finding")
    parser.add_argument("--story", action="store_true", help="print every move of the first story, and what it did")
    parser.add_argument("--first", action="store_true", help="end at the first finding")
    parser.add_argument("--snapshots", action="store_true", help="let jobs begin with full reads, and ask for more")
    parser.add_argument("--repairs", action="store_true", help="the same, and let rows be read again")
    parser.add_argument("--generated", action="store_true", help="the same, with virtual generated columns")
    parser.add_argument("--harder", action="store_true", help="let several things go wrong at once")
    parser.add_argument("--keyless", action="store_true", help="let tables have no key")
    parser.add_argument("--lab", default=DEFAULT_LAB, help="module:name of what makes the laboratory")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), _NO_END if options.steps_total else int(last or first) + 1)
    draws = {
        "harder": draw_harder_reads,
        "snapshots": draw_more_snapshots,
        "repairs": draw_repairs,
        "generated": draw_generated,
        "keyless": draw_keyless,
    }
    drawn = next((of for name, of in draws.items() if getattr(options, name)), draw)
    jobs = options.jobs or os.cpu_count() or 1
    began = shown = time.perf_counter()

    def enough(totals: Totals) -> bool:
        nonlocal shown
        if time.perf_counter() - shown > _SHOW_EVERY:
            shown = time.perf_counter()
            firsts = ", ".join(str(found.story.seed) for found in totals.found.values()) or "none"
            sys.stderr.write(f"{_sum(totals, shown - began)}; seeds of findings: {firsts}\n")
        return bool(options.first and totals.found) or 0 < options.steps_total <= totals.steps

    totals = tell_all(_chunks(seeds), options.steps, options.lab, jobs, enough, drawn)
    _report(totals, time.perf_counter() - began)
    lab = make_lab(options.lab)
    with quietly():
        if options.story:
            story = drawn(seeds[0], options.steps)
            _say(story.text(), *run(story, lab, trace=True).trace)
        for signature, found in sorted(totals.found.items(), key=lambda item: -len(item[1].seeds)):
            _say("", f"{len(found.seeds)} x {signature}", f"  seeds {', '.join(map(str, found.seeds[:12]))}")
            _say(*lines_of(found.story, lab, shrunk=options.shrink))
    return int(bool(totals.found))


def lines_of(story: Story, lab: LabMaker, *, shrunk: bool) -> list[str]:
    """The finding of a story, for people; ``shrunk``: with the smallest story that has it, move by move."""
    if shrunk:
        story = shrink(story, lab)
    outcome = run(story, lab, trace=True)
    lines = [f"  {line}" for line in outcome.finding.detail.splitlines()] if outcome.finding else ["  no finding"]
    return [*lines, story.text().split("\n    0 ")[0], *outcome.trace] if shrunk else lines


def _sum(totals: Totals, seconds: float) -> str:
    rate = totals.stories / seconds if seconds else 0.0
    return (
        f"{totals.stories} stories, {totals.steps} steps, {totals.batches} batches, {totals.actions} durable actions "
        f"in {seconds:.1f} s ({rate:.0f} stories/s, {totals.steps / seconds if seconds else 0:.0f} steps/s)"
    )


def _report(totals: Totals, seconds: float) -> None:
    _say(_sum(totals, seconds))
    for title, counts in (
        ("moves", totals.moves),
        ("faults", totals.faults),
        ("stops", totals.stops),
        ("new draws", totals.draws),
    ):
        _say(f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    _say(f"findings: {sum(len(found.seeds) for found in totals.found.values())} of {len(totals.found)} kinds")


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
