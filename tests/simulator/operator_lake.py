"""What an operator, and other tools, do to the lake, and to the state of the job with it."""

from __future__ import annotations

from random import Random

from tests.simulator.columns import make_value
from tests.simulator.database import Live
from tests.simulator.files import Rival, RivalKind
from tests.simulator.letters import folded
from tests.simulator.moves import Move
from tests.simulator.world import World
from ticdc_spark.model import Value


def _lake_table(world: World, rand: Random) -> tuple[tuple[str, str], Live | None] | None:
    tables = sorted(world.lab.lake.tables())
    if not tables:
        return None
    name = rand.choice(tables)
    world.left_alone.pop(name, None)
    any_letters = folded(name)
    live = world.database.now.get(any_letters)
    world.excuses.unsettled.update(uid for uid, sent in world.ticdc.sent.items() if any_letters in sent.names)
    if world.setup.job.snapshot:
        world.excuses.unsettled.update(world.named(any_letters))  # also one of which no message was sent yet
    world.note(f"{name}")
    return name, live


def save_lake(world: World, move: Move, rand: Random) -> None:
    world.backup = world.save()


def restore_lake(world: World, move: Move, rand: Random) -> None:
    world.excuses.lake_touched = True
    world.left_alone.clear()
    world.restore()


def restore_table(world: World, move: Move, rand: Random) -> None:
    found = _lake_table(world, rand)
    if found is not None:
        world.excuses.lake_touched = True
        world.lab.lake.restore_table(found[0], world.backup.lake)


def rollback(world: World, move: Move, rand: Random) -> None:
    found = _lake_table(world, rand)
    if found is not None:
        world.excuses.lake_touched = True
        world.lab.lake.rollback(found[0], move.n or 1)


def compact(world: World, move: Move, rand: Random) -> None:
    for name in sorted(world.lab.lake.tables()):
        if rand.random() < 0.7:
            world.lab.lake.compact(name)


def expire(world: World, move: Move, rand: Random) -> None:
    for name in sorted(world.lab.lake.tables()):
        if rand.random() < 0.7:
            world.lab.lake.expire(name)


def insert_row(world: World, move: Move, rand: Random) -> None:
    found = _lake_table(world, rand)
    if found is not None and found[1] is not None:
        world.excuses.lake_touched = True
        world.lab.lake.insert(found[0], _any_row(found[1], rand))


def delete_row(world: World, move: Move, rand: Random) -> None:
    found = _lake_table(world, rand)
    if found is not None:
        world.excuses.lake_touched = True
        world.lab.lake.delete(found[0], rand.randrange(8))


def drop_lake_column(world: World, move: Move, rand: Random) -> None:
    found = _lake_table(world, rand)
    if found is not None:
        world.excuses.lake_touched = True
        columns = [name for name in world.lab.lake.tables()[found[0]].columns if name not in ("id", "line")]
        if columns:
            world.lab.lake.drop_column(found[0], rand.choice(columns))


def drop_lake_table(world: World, move: Move, rand: Random) -> None:
    found = _lake_table(world, rand)
    if found is not None:
        world.excuses.lake_touched = True
        world.lab.lake.drop(found[0])


def foreign_table(world: World, move: Move, rand: Random) -> None:
    """A table that no job made stands where one of the source's tables is to come, or is."""
    live = world.live(rand)
    if live is not None and live.name not in set(map(folded, world.lab.lake.tables())):
        world.excuses.lake_touched = True
        world.excuses.foreign.add(live.name)
        for uid in {live.uid, *world.named(live.name)}:
            world.excuses.unsettled.add(uid)
            world.excuses.weak[uid] = "a table that no job made was there"
        row = _any_row(live, rand)
        required: tuple[str, ...] = ()
        if move.word == "required":
            required = tuple(name for name, value in row.items() if value is not None)
            world.draws["tables with NOT NULL columns to adopt"] += 1
        world.lab.lake.create(live.table, [row], required)
        if not world.job.adopt:
            own = live.table.schema, live.table.name
            world.left_alone[own] = world.lab.lake.tables()[own]


def rival(world: World, move: Move, rand: Random) -> None:
    """The next commits to a table meet another tool's compaction, or a catalog that refuses one of them."""
    _arm(world, rand, "compact" if move.word != "refuses" or rand.random() < 0.7 else "nobody", move)


def rival_writer(world: World, move: Move, rand: Random) -> None:
    """The next commits to a table meet another writer's DELETE."""
    world.excuses.lake_touched = True
    world.excuses.unsettled.update(world.uids())
    world.excuses.rival_deletes = True
    world.left_alone.clear()
    _arm(world, rand, "delete", move)


def _arm(world: World, rand: Random, kind: RivalKind, move: Move) -> None:
    files = getattr(world.lab, "files", None)
    if files is not None:
        refuses = rand.choice((1, 2, 2)) if move.word == "refuses" else 0
        files.rival = Rival(after=rand.randrange(3), kind=kind, refuses=refuses)


def disarm(world: World) -> None:
    """No other writer meets a commit of the job from now on: what it did after the job's last look is not seen."""
    files = getattr(world.lab, "files", None)
    if files is not None:
        files.rival = None


def _any_row(live: Live, rand: Random) -> dict[str, Value]:
    row = {item.column.name: make_value(rand, item) for item in live.specs}
    return {**row, **dict(zip(live.keys, any_key(live, rand), strict=True))}


def any_key(live: Live, rand: Random) -> tuple[Value, ...]:
    if live.keys and live.rows and rand.random() < 0.5:
        return rand.choice(tuple(live.rows))
    kinds = {item.column.name: item for item in live.specs}
    return tuple(make_value(rand, kinds[name]) for name in live.keys)
