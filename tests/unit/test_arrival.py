"""Arrival mode without Spark: what wins however messages come, and when a DDL is due."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.arrival import ArrivalApplier, Milliseconds
from tests.reference.state import Key
from ticdc_spark.model import Row
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.debezium import DECODER
from ticdc_spark.replicate.arrival import (
    Arrived,
    DdlId,
    Held,
    Net,
    TopicDdls,
    follows,
    is_replay,
    join,
    net,
    read_copy,
    settle,
    take_due,
)

NOTHING = Held()
Change = tuple[int, bool]
"""commit_ts (0: hidden), deleted."""


def arrived(changes: list[Change]) -> list[Arrived]:
    return [Arrived(commit_ts, deleted, at) for at, (commit_ts, deleted) in enumerate(changes)]


def one_by_one(changes: list[Arrived], exact: bool, held: Held = NOTHING) -> tuple[Held, Arrived | None]:
    """Settle each change by itself: what a key holds at the end, and the change that it is."""
    winner = None
    for change in changes:
        held, won = settle(held, net([change], exact=exact), exact=exact)
        winner = won or winner
    return held, winner


def in_reference(changes: list[Arrived], exact: bool) -> tuple[tuple[int, int], str | None]:
    """The same by the reference applier, which was written apart."""
    applier = (ArrivalApplier if exact else Milliseconds)(DECODER, ReadOptions(), {})
    rows: dict[Key, Row] = {}
    held: dict[Key, tuple[int, int]] = {}
    for change in changes:
        image = None if change.deleted else {"at": str(change.at)}
        applier.arrive(rows, held, ("k",), image, change.commit_ts)
    row = rows.get(("k",))
    return held.get(("k",), (0, 0)), None if row is None else str(row["at"])


CHANGES = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=12).map(arrived)


@given(CHANGES, st.booleans())
def test_it_is_what_the_reference_does(changes: list[Arrived], exact: bool) -> None:
    held, winner = one_by_one(changes, exact)
    expected, row = in_reference(changes, exact)
    assert (held.commit_ts, held.rank) == expected
    assert (None if winner is None or winner.deleted else str(winner.at)) == row


@given(CHANGES, CHANGES, st.booleans())
def test_a_batch_at_once_is_its_changes_one_by_one(before: list[Arrived], batch: list[Arrived], exact: bool) -> None:
    held, _ = one_by_one(before, exact)
    assert settle(held, net(batch, exact=exact), exact=exact) == one_by_one(batch, exact, held)


@given(CHANGES, CHANGES, CHANGES, st.booleans())
def test_a_batch_can_be_reduced_in_parts(a: list[Arrived], b: list[Arrived], c: list[Arrived], exact: bool) -> None:
    first, second, third = (net(part, exact=exact) for part in (a, b, c))
    whole = net([*a, *b, *c], exact=exact)
    assert join(join(first, second, exact=exact), third, exact=exact) == whole
    assert join(first, join(second, third, exact=exact), exact=exact) == whole
    assert join(first, Net(), exact=exact) == join(Net(), first, exact=exact) == first


TIMED = st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=12, unique_by=lambda c: c)


@given(TIMED.map(arrived), st.randoms(use_true_random=False))
def test_with_commit_ts_no_order_matters(changes: list[Arrived], random: Random) -> None:
    shuffled = [*changes, *random.choices(changes, k=5)]
    random.shuffle(shuffled)
    assert one_by_one(shuffled, exact=True) == one_by_one(changes, exact=True)
    held, winner = one_by_one(changes, exact=True)
    newest = max(changes, key=lambda change: (change.commit_ts, not change.deleted))
    assert (held.commit_ts, winner) == (newest.commit_ts, newest)


@given(
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.data(),
    st.sampled_from(["exact", "ms", "hidden deletes", "hidden"]),
)
def test_a_stretch_sent_again_ends_where_it_ended(ops: list[bool], data: st.DataObject, mode: str) -> None:
    """One partition, in order: whatever is sent again from anywhere, at its end the key is as it was."""
    at, sent = 10, []
    for deleted in ops:
        at += data.draw(st.integers(0 if mode == "ms" else 1, 2))
        hidden = mode == "hidden" or (mode == "hidden deletes" and deleted)
        sent.append((0 if hidden else at, deleted))
    changes, exact = arrived(sent), mode != "ms"
    start = data.draw(st.integers(0, len(changes) - 1))
    held, winner = one_by_one([*changes, *changes[start:]], exact)
    once_held, once = one_by_one(changes, exact)
    assert held.commit_ts == once_held.commit_ts
    assert winner and once
    assert (winner.deleted, None if winner.deleted else winner.at) == (once.deleted, None if once.deleted else once.at)


@pytest.mark.parametrize(
    ("changes", "exact", "winner"),
    [
        ([(5, True), (3, False)], True, 0),  # an old insert again, after the delete
        ([(5, False), (5, True)], True, 0),  # delete and insert of one commit, the other way round
        ([(5, True), (5, False)], True, 1),
        ([(5, False), (5, True)], False, 1),  # of one millisecond: the offset tells
        ([(5, False), (5, False)], True, 0),  # a replay, whose image may be of an older schema
        ([(5, False), (0, True)], True, 1),  # a delete without commit_ts
        ([(5, False), (0, True), (5, False)], True, 2),  # … and the insert behind it in one commit
        ([(5, False), (0, True), (4, False)], True, 1),  # … and an older row
        ([(0, False), (0, False)], True, 1),
    ],
)
def test_which_change_wins(changes: list[Change], exact: bool, winner: int) -> None:
    _, won = one_by_one(arrived(changes), exact)
    assert won is not None and won.at == winner


# ---- DDLs


def ident(number: int) -> DdlId:
    return (f"ALTER TABLE t ADD c{number} INT", "s", "t")


def test_a_ddl_waits_for_its_copy_in_every_partition() -> None:
    ddls: TopicDdls | None = TopicDdls()
    for partition in (1, 1, 0):
        assert ddls is not None
        assert take_due(ddls, range(3)) == ((), ddls)
        ddls = read_copy(ddls, 10, ident(1), partition, 7)
    assert ddls is not None and len(ddls.waiting) == 1
    assert take_due(ddls, range(3))[0] == ()
    due, rest = take_due(ddls, range(3), finished=frozenset({2}))
    assert [ddl.identity for ddl in due] == [ident(1)]
    assert rest == TopicDdls(10, frozenset({ident(1)}))
    assert read_copy(rest, 10, ident(1), 2, 99) is None  # the copy of the partition that was taken for finished
    assert read_copy(rest, 9, ident(0), 0, 99) is None  # sent again after a restart of TiCDC
    assert read_copy(rest, 10, ident(2), 0, 8) is not None  # RENAME TABLE a TO b, c TO d: two of one commit_ts


SENT = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(
    lambda steps: [(10 + sum(steps[: at + 1]), ident(at)) for at in range(len(steps))]
)


@given(SENT, st.integers(1, 3), st.data())
def test_each_ddl_is_due_once_and_in_order(sent: list[tuple[int, DdlId]], count: int, data: st.DataObject) -> None:
    """However partitions are read, and whatever comes again in them."""
    partitions = []
    for _ in range(count):
        again = data.draw(st.integers(0, len(sent)))
        start = data.draw(st.integers(0, again))
        partitions.append([*sent[:again], *sent[start:again], *sent[again:], *sent[start:]])
    at, done, ddls = [0] * count, [], TopicDdls()
    while any(read < len(partition) for read, partition in zip(at, partitions, strict=True)):
        place = data.draw(st.sampled_from([p for p in range(count) if at[p] < len(partitions[p])]))
        for _ in range(data.draw(st.integers(1, 4))):
            if at[place] < len(partitions[place]):
                commit_ts, identity = partitions[place][at[place]]
                ddls = read_copy(ddls, commit_ts, identity, place, at[place]) or ddls
                at[place] += 1
        due, ddls = take_due(ddls, range(count))
        done += [(ddl.commit_ts, ddl.identity) for ddl in due]
        assert all(min(at) > sent.index(each) for each in done)
    assert done == sent
    assert ddls.waiting == ()
    assert len(ddls.done) <= sum(commit_ts == sent[-1][0] for commit_ts, _ in sent)


def test_what_follows_a_ddl() -> None:
    ddls = read_copy(TopicDdls(), 10, ident(1), 0, 100)
    assert ddls is not None
    (ddl,) = ddls.waiting
    assert [follows(ddl, ts, 0, 1, exact=True) for ts in (9, 10, 11)] == [False, False, True]
    assert [follows(ddl, ts, 1, 1, exact=True) for ts in (9, 10, 11)] == [False, False, True]
    # hidden, or of the same millisecond: behind its copy in the row's own partition
    for commit_ts in (0, 10):
        assert [follows(ddl, commit_ts, 0, offset, exact=False) for offset in (99, 101)] == [False, True]
        assert not follows(ddl, commit_ts, 1, 101, exact=False)
    assert [follows(ddl, ts, 0, 1, exact=False) for ts in (9, 11)] == [False, True]


def test_what_came_before_a_ddl_is_a_replay() -> None:
    assert [is_replay(10, ts, exact=True) for ts in (0, 9, 10, 11)] == [False, True, True, False]
    assert [is_replay(10, ts, exact=False) for ts in (0, 9, 10, 11)] == [False, True, False, False]
