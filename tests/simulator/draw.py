"""Draw a story from a seed."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from tests.simulator.draw_more import with_more
from tests.simulator.faults import FAULT_KINDS, Fault
from tests.simulator.feed import Feed
from tests.simulator.moves import Move, MoveKind
from tests.simulator.setup import JobSetup, Setup
from tests.simulator.story import Story
from tests.simulator.ticdc import DEFAULT_TOPIC
from tests.simulator.wire import WIRES

_FILTERS = ("app.t*", "*.* !*.x*", "*.*", "app.*")
_STEPS = 60
_DDL_WEIGHTS = {
    "create_table": 3,
    "create_like": 1,
    "create_database": 1,
    "drop_database": 1,
    "drop_table": 2,
    "recreate_table": 2,
    "truncate_table": 2,
    "rename_table": 3,
    "move_table": 1,
    "swap_tables": 2,
    "rename_many": 1,
    "add_column": 4,
    "drop_column": 2,
    "rename_column": 2,
    "modify_column": 2,
    "lossy_modify": 2,
    "add_index": 1,
    "drop_index": 1,
    "exchange_partition": 1,
    "silent_version": 1,
    "silent_column": 1,
}
_OPERATOR: tuple[tuple[MoveKind, ...], ...] = (
    ("tables",),
    ("topics",),
    ("skip_ddl", "skip_any_ddl"),
    ("adopt", "foreign_table"),
    ("garbage", "corrupt", "mangle", "on_reject", "resume"),
    ("widen", "late_rows"),
    ("drop_table",),
    ("restore_lake",),
    ("save_lake", "restore_lake"),
    ("save_lake", "restore_lake", "restore_table"),
    ("rollback",),
    ("compact", "expire"),
    ("insert_row", "delete_row"),
    ("drop_lake_column", "drop_lake_table"),
    ("recreate_topic", "trim_topic"),
    ("more_partitions",),
    ("hang", "late_rows"),
)
"""What an operator is up to; a story has one or a few of these, since each alone must end well."""


def draw(seed: int, steps: int = _STEPS) -> Story:
    """The story of a seed."""
    return with_more(draw_basic(seed, steps))


def draw_basic(seed: int, steps: int = _STEPS) -> Story:
    """The story of a seed without what ``draw_more`` has. Some are narrow: few kinds of DDL and one kind of operator,
    whose combinations are long."""
    rand = Random(seed)
    setup = _setup(rand)
    narrow = rand.random() < 0.3
    ddl = _some(rand, tuple(_DDL_WEIGHTS), 3 if narrow else 8)
    if rand.random() < 0.7:
        ddl = [name for name in ddl if name != "exchange_partition"] or ["add_column"]
    faulty = rand.random() < (0.3 if narrow else 0.6)
    meddling = rand.choice((0.05, 0.1, 0.3))
    calm = rand.random() < 0.35
    operator: list[MoveKind] = []
    groups = 1 if narrow else 1 + (rand.random() < 0.4) + (rand.random() < 0.2)
    for group in [] if calm else rand.sample(_OPERATOR, groups):
        operator += group
    setup = _suited(rand, setup, operator)
    if narrow:
        setup = replace(setup, feed=replace(setup.feed, withheld=-1))
    if setup.feed.withheld >= 0 and not calm:
        operator += ["widen", "late_rows"]
    if setup.schema_file_late:
        operator.append("schema_file")
    moves = [Move(kind="ddl", word="create_table", dice=rand.getrandbits(30)) for _ in range(rand.randrange(1, 4))]
    moves += [_move(rand, ddl, operator, meddling, faulty=faulty) for _ in range(steps // 2 + rand.randrange(steps))]
    return Story(seed=seed, setup=setup, moves=tuple(moves))


def _setup(rand: Random) -> Setup:
    protocol = rand.choice(tuple(WIRES))
    zone = rand.choice(("UTC", "UTC", "UTC", "Asia/Shanghai", "Asia/Shanghai", "America/New_York"))
    before = rand.choice((0, 0, 0, 1, 2))
    feed = Feed(
        protocol=protocol,
        zone=zone,
        partitions=rand.choice((1, 1, 2, 3)),
        topic_per_table=rand.random() < 0.5,
        by_key=rand.random() < 0.6,
        idle_partitions=int(rand.random() < 0.1),
        bootstrap=rand.random() < 0.7 or before > 0,
        batched=rand.random() < 0.4,
        no_pre_table=rand.random() < 0.3,
        reorder=rand.choice((0.0, 0.3)),
        duplicates=rand.choice((0.0, 0.0, 0.2)),
        uneven=rand.random() < 0.4,
        withheld=rand.choice((-1, -1, -1, -1, 0, 1)),
    )
    job = JobSetup(
        protocol=protocol,
        source_timezone=zone,
        tables=tuple(rand.choice(_FILTERS).split()) if rand.random() < 0.12 else (),
        topics=(DEFAULT_TOPIC, f"{DEFAULT_TOPIC}_app_t1") if feed.topic_per_table and rand.random() < 0.1 else None,
        starting="latest" if rand.random() < 0.06 else "earliest",
        on_reject=rand.choice(("stop", "stop", "quarantine", "continue")),
        late_rows=rand.choice(("fail", "fail", "apply-if-newest")),
        drop_table="keep" if rand.random() < 0.1 else "apply",
        adopt=rand.random() < 0.1,
    )
    late = before > 0 and protocol != "simple" and rand.random() < 0.15
    return Setup(feed=feed, job=job, tables_before=before, schema_file_late=late, raw_key_changes=rand.random() < 0.3)


def _suited(rand: Random, setup: Setup, operator: list[MoveKind]) -> Setup:
    """A setup in which the operator's moves have something to do, more often than not."""
    feed, job = setup.feed, setup.job
    if "resume" in operator and rand.random() < 0.6:
        job = replace(job, on_reject="quarantine")
    if "topics" in operator and rand.random() < 0.6:
        feed = replace(feed, topic_per_table=True)
        job = replace(job, topics=(DEFAULT_TOPIC, f"{DEFAULT_TOPIC}_app_t1"))
    if "foreign_table" in operator and rand.random() < 0.6:
        job = replace(job, adopt=True)
    return replace(setup, feed=feed, job=job)


def _some(rand: Random, names: tuple[str, ...], most: int) -> list[str]:
    """Some kinds of DDL, each as often as it weighs: a story of few kinds meets their combinations more often."""
    chosen = rand.sample(names, 1 + rand.randrange(most))
    return [name for name in chosen for _ in range(_DDL_WEIGHTS[name])]


def _move(rand: Random, ddl: list[str], operator: list[MoveKind], meddling: float, *, faulty: bool) -> Move:
    """``meddling``: the share of the operator's moves."""
    dice, chance = rand.getrandbits(30), rand.random()
    if operator and chance < meddling:
        return _operator_move(rand, rand.choice(operator), dice)
    chance = rand.random()
    if chance < 0.3:
        return Move(kind="transaction", dice=dice)
    if chance < 0.42:
        return Move(kind="ddl", word=rand.choice(ddl), dice=dice)
    if chance < 0.68:
        return Move(kind="send", n=1 + rand.randrange(25), dice=dice)
    if chance < 0.9:
        return Move(kind="batch", n=rand.choice((3, 10, 1000)), dice=dice, fault=_fault(rand) if faulty else None)
    kinds: tuple[MoveKind, ...] = ("advance", "advance", "restart", "stall", "stop", "kill", "wait", "wait")
    kind = rand.choice(kinds)
    return Move(kind=kind, dice=dice, n=rand.choice((70, 70, 700)) if kind == "wait" else 0)


def _fault(rand: Random) -> Fault | None:
    if rand.random() < 0.6:
        return None
    at = rand.randrange(4) if rand.random() < 0.5 else rand.randrange(14)
    return Fault(at=at, kind=rand.choice(FAULT_KINDS), others=1 + rand.randrange(2))


def _operator_move(rand: Random, kind: MoveKind, dice: int) -> Move:
    words: dict[MoveKind, tuple[str, ...]] = {
        "tables": _FILTERS,
        "adopt": ("true", "false"),
        "on_reject": ("stop", "quarantine", "continue"),
        "late_rows": ("fail", "apply-if-newest"),
        "drop_table": ("apply", "keep"),
    }
    word = rand.choice(words[kind]) if kind in words else ""
    return Move(kind=kind, dice=dice, word=word, n=1 + rand.randrange(4) if kind == "rollback" else 0)
