"""What stories have besides: letters of names, tables of one shape, columns that rows lack, topics that go.

With dice of their own, so that the seeds of ``draw_basic`` tell the same as ever where none of it is drawn."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from tests.simulator.moves import Move, MoveKind
from tests.simulator.story import Story

_SALT = 0x2B7E15
_SHAPES = ("ddl archive_table", "ddl archive_table", "ddl swap_alike", "ddl swap_alike", "ddl create_like")
_RETURNS: tuple[tuple[str, ...], ...] = (
    ("ddl return_column",),
    ("ddl return_column", "transaction", "send", "batch", "restart", "transaction", "send", "batch"),
    ("ddl modify_column", "send", "batch", "restart", "send", "batch"),
    ("send", "batch", "ddl drop_database", "send", "batch"),
    ("ddl move_table", "transaction", "send", "batch"),
    ("ddl swap_tables", "transaction", "send", "batch"),
    ("skip_any_ddl",),
)
_ALL = ("send 1000", "advance", "send 1000", "batch 1000", "wait 70", "batch 1000", "batch 1000")
"""The topic of a dropped table gets no watermarks any more: the job passes over it only after a while."""
_TIDY: tuple[tuple[str, ...], ...] = (
    ("send 1000", "batch 1000", "ddl drop_table", *_ALL, "delete_topic", "batch"),
    ("send 1000", "batch 1000", "ddl drop_table", *_ALL, "delete_topic", "batch"),
    ("ddl drop_table", *_ALL, "delete_topic", "stop", "batch"),
    ("ddl drop_database", *_ALL, "delete_topic", "batch"),
    ("ddl rename_table", "ddl drop_table", *_ALL, "delete_topic", "batch"),
    (*_ALL, "delete_topic", "batch"),
)
_LEAVE: tuple[tuple[str, ...], ...] = (
    ("send", "batch", "leave_topic", "batch"),
    ("leave_topic", "batch", "topics", "batch"),
)
_FILES: tuple[tuple[str, ...], ...] = (
    ("transaction", "send", "rival", "batch"),
    ("transaction", "send", "rival refuses", "batch", "batch"),
    ("transaction", "send", "rival refuses", "batch", "batch"),
    ("transaction", "send", "rival_writer", "batch", "batch"),
)
_ADOPTED: tuple[tuple[str, ...], ...] = (
    ("ddl create_table", "foreign_table required", "send", "batch", "transaction", "transaction", "send", "batch"),
    ("foreign_table required", "send", "batch", "ddl modify_column", "transaction", "transaction", "send", "batch"),
    ("foreign_table required", "send", "batch", "ddl truncate_table", "transaction", "transaction", "send", "batch"),
)
_DURING_READS: tuple[tuple[str, ...], ...] = (
    ("rebuild", "batch", "ddl archive_table", "transaction", "transaction", "batch", "send", "batch"),
    ("rebuild", "batch", "batch", "ddl swap_alike", "transaction", "batch", "send", "batch"),
    ("rebuild", "batch", "meanwhile archive_table", "batch", "transaction", "send", "batch"),
    ("rebuild", "batch", "batch", "meanwhile swap_alike", "batch", "transaction", "send", "batch"),
    ("rebuild", "meanwhile archive_table", "batch", "kill", "batch", "transaction", "send", "batch"),
    ("ddl create_like", "ddl fill_tables", "send", "batch", "rebuild", "batch", "ddl swap_alike", "batch", "send"),
)
"""Moves, each with its word."""


def with_more(story: Story) -> Story:
    """The story, with what its seed draws besides: mostly nothing, or one thing."""
    rand = Random(story.seed ^ _SALT)
    setup, moves = story.setup, list(story.moves)
    feed = setup.feed
    if rand.random() < 0.12:
        feed = replace(feed, letters=rand.choice(("sql", "messages")))
        if feed.withheld < story.setup.tables_before and feed.protocol != "simple":
            # A schema file would have it: a table that takes its name in other letters is then a second one.
            feed = replace(feed, withheld=-1)
        _insert(moves, rand, [rand.choice(_RETURNS) for _ in range(rand.randrange(4))])
    if rand.random() < 0.06:
        _insert(moves, rand, [(rand.choice(_SHAPES),) for _ in range(1 + rand.randrange(3))])
    if rand.random() < 0.04:
        _insert(moves, rand, [("ddl return_column",)])
    if rand.random() < 0.03:
        feed = replace(feed, lacks=rand.randrange(2))
    if rand.random() < 0.03:
        _insert(moves, rand, [("ddl hidden_drop",)])
    if rand.random() < 0.06:
        feed = replace(feed, topic_per_table=True)
        _insert(moves, rand, [rand.choice(_TIDY) for _ in range(1 + rand.randrange(3))])
    if rand.random() < 0.02:
        feed = replace(feed, topic_per_table=True)
        _insert(moves, rand, [rand.choice(_LEAVE)])
    job = setup.job
    if rand.random() < 0.06:
        job = replace(job, row_deltas=True)
        _insert(moves, rand, [rand.choice(_FILES) for _ in range(rand.randrange(4))])
    if rand.random() < 0.03:
        job = replace(job, row_deltas=True, adopt=True)
        _insert(moves, rand, [rand.choice(_ADOPTED) for _ in range(1 + rand.randrange(2))])
    return replace(story, setup=replace(setup, feed=feed, job=job), moves=tuple(moves))


def with_more_reads(story: Story) -> Story:
    """A story of full reads, some with tables that take several waves, and with schema changes between these."""
    rand = Random(story.seed ^ _SALT ^ 0xA5)
    moves = list(story.moves)
    if rand.random() < 0.25:
        moves.insert(0, _move("ddl fill_tables", rand))
        _insert(moves, rand, [rand.choice(_DURING_READS) for _ in range(1 + rand.randrange(2))])
        _insert(moves, rand, [("ddl fill_tables",)])
    return replace(story, moves=tuple(moves))


def _insert(moves: list[Move], rand: Random, stretches: list[tuple[str, ...]]) -> None:
    """Put stretches of moves in, each at one place, now and then with others between."""
    for stretch in stretches:
        at = rand.randrange(len(moves) + 1)
        for line in stretch:
            moves.insert(at, _move(line, rand))
            at += 1 + (rand.randrange(3) if rand.random() < 0.2 else 0)


def _move(line: str, rand: Random) -> Move:
    name, _, word = line.partition(" ")
    kind: MoveKind = name  # type: ignore[assignment]
    n = {"send": rand.choice((20, 1000)), "batch": rand.choice((3, 1000))}.get(name, 0)
    if word.isdigit():
        word, n = "", int(word)
    return Move(kind=kind, word=word, n=n, dice=rand.getrandbits(30))
