"""Stories: drawn from a seed, printed, run to an outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import msgspec
from msgspec.structs import replace

from tests.simulator.faults import Fault
from tests.simulator.moves import Move
from tests.simulator.operator import excuse_skipped, perform
from tests.simulator.operator_lake import disarm
from tests.simulator.seams import LabMaker
from tests.simulator.setup import SCHEMA_TIMEOUT, Setup
from tests.simulator.snapshots import is_under_way
from tests.simulator.verdict import judge_others, judge_stop, judge_tables
from tests.simulator.verdict_more import judge_files
from tests.simulator.world import Finding, Silent, World, unexpected
from ticdc_spark.errors import UnsupportedDdl


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """A world and what happens in it."""

    seed: int
    setup: Setup
    moves: tuple[Move, ...]

    def text(self) -> str:
        """As a person reads it, a line a move."""
        lines = [f"seed {self.seed}", f"  feed {_short(self.setup.feed)}", f"  job {_short(self.setup.job)}"]
        lines.append(f"  world {_short(self.setup)}")
        return "\n".join([*lines, *(f"  {at:3d} {move.line()}" for at, move in enumerate(self.moves))])


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a story."""

    finding: Finding | None
    steps: int
    """Moves done, the end included."""
    actions: int
    """Durable actions of the job."""
    moves: Counter[str]
    faults: Counter[str]
    stops: tuple[str, ...]
    batches: int
    draws: Counter[str] = msgspec.field(default_factory=Counter)
    """What ``draw_more`` draws: how often it happened."""
    trace: tuple[str, ...] = ()


def run(
    story: Story,
    make_lab: LabMaker,
    *,
    trace: bool = False,
    judge: Callable[[World], Finding | None] = lambda _: None,
) -> Outcome:
    """Tell a story to its end, or to its first finding. ``judge``: judges the end, too."""
    world = World(story.setup, make_lab)
    moves: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    lines: list[str] = []
    finding: Finding | None = None
    steps = 0
    try:
        possible = [(at, move) for at, move in enumerate(story.moves) if move.kind not in world.lab.lacks]
        for at, move in possible:
            steps += 1
            moves[f"ddl {move.word}" if move.kind == "ddl" else move.kind] += 1
            try:
                _do(world, move)
            finally:
                if trace:
                    lines += [f"  {at:3d} {move.line()}", *(f"        {note}" for note in world.notes)]
                world.notes.clear()
        steps += _end(world)
        _raise(judge(world))
    except Silent as silent:
        finding = silent.finding
    lines += [f"  end {note}" for note in world.notes]
    faults.update(world.injector.met)
    return Outcome(
        finding=finding,
        steps=steps,
        actions=world.injector.actions.total(),
        moves=moves,
        faults=faults,
        stops=tuple(world.stops),
        batches=world.batches,
        draws=world.all_draws(),
        trace=tuple(lines),
    )


def _do(world: World, move: Move) -> None:
    if move.kind == "batch":
        _batch(world, move.n, move.fault)
        return
    try:
        perform(world, move)
    except Exception as error:
        raise Silent(unexpected(error)) from error


def _batch(world: World, most: int, fault: Fault | None = None) -> str:
    result = world.batch(most, fault)
    _raise(judge_others(world) or judge_files(world))
    if result == "stopped" and world.last_stop is not None:
        _raise(judge_stop(world, world.last_stop, world.fired))
    if result == "committed":
        view = world.lab.view()
        world.note(f"applied {view.applied}")
        if view.mode != "arrival":  # There, tables equal the source at no known commit_ts while changes come.
            _raise(judge_tables(world, view, final=False))
    return result


def _end(world: World) -> int:
    """Everything is sent, and the job is run without faults until it has applied it or stops."""
    rand = Random(99)
    disarm(world)
    world.stop()  # so that the job looks at its tables once more
    _batch(world, 1000)
    last = world.ticdc.drain(rand)
    steps = quiet = 0
    waited, lives_on = 0.0, False
    while steps < 60:
        steps += 1
        before = world.lab.view()
        result = _batch(world, 1000)
        view = world.lab.view()
        if result == "stopped":
            proposed = world.proposed_skip() if isinstance(world.last_stop, UnsupportedDdl) else None
            if proposed is None or proposed in world.job.skip_ddl:
                world.note("the job stays stopped")
                if view.applied:
                    _raise(judge_tables(world, view, final=False))
                return steps
            world.excuses.disturb("skip_ddl")
            world.job = replace(world.job, skip_ddl=(*world.job.skip_ddl, proposed))
            excuse_skipped(world, proposed.commit_ts)
            continue
        moved = result == "committed" or (view.applied, view.batch) != (before.applied, before.batch)
        quiet = 0 if moved else quiet + 1
        if quiet >= 2 and (view.applied >= last - 1 or waited > SCHEMA_TIMEOUT + 100):
            waits = any("behind the others" in seen.detail or is_under_way(seen) for seen in view.tables.values())
            if lives_on or not waits:
                break
            # What TiCDC sends again is complete at a watermark beyond all that it had sent before; and the source may
            # have changed while a table was read.
            lives_on, quiet, last = True, 0, world.ticdc.drain(rand)
            continue
        if quiet:
            world.clock.advance(70.0)
            waited += 70.0
    _raise(_judge_end(world, last))
    return steps


def _judge_end(world: World, last: int) -> Finding | None:
    view = world.lab.view()
    if view.applied < last - 1:
        detail = (
            f"applied {view.applied}, and should be {last - 1}; held by: {view.hold or 'nothing that status shows'}"
        )
        if view.mode == "arrival":
            return None  # No watermark came while it waited for the first one, and nothing promises how far it is.
        if not view.hold:
            return Finding(kind="stuck, and nothing says why", where="end", detail=detail)
        if not world.excuses.disturbances:
            return Finding(kind="stuck", where=view.hold[:20], detail=detail)
        return judge_tables(world, view, final=False)
    return judge_tables(world, view, final=True)


def _raise(finding: Finding | None) -> None:
    if finding is not None:
        raise Silent(finding)


def _short(value: msgspec.Struct) -> str:
    """The fields that are not what they are by default."""
    fields = msgspec.structs.fields(type(value))
    parts = ((one.name, getattr(value, one.name), one.default) for one in fields)
    return " ".join(f"{name}={now!r}" for name, now, usual in parts if name not in ("feed", "job") and now != usual)
