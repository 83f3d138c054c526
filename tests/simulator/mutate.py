"""Ways to break the product on purpose, each of which stories must find: one decision each, named by what is wrong.

A mutation replaces a few words of a function's source; the function itself gets the new code, so that whoever holds it
already is broken, too. One whose text is not there any more is an error, and is to be written anew.
"""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib import import_module
from itertools import islice
from types import FunctionType
from typing import Any

import msgspec
import pytest

from tests.simulator.draw import draw_basic as draw
from tests.simulator.runner import quietly
from tests.simulator.seams import LabMaker
from tests.simulator.story import run
from tests.simulator.world import Finding

_FUTURE = inspect.CO_FUTURE_ANNOTATIONS if hasattr(inspect, "CO_FUTURE_ANNOTATIONS") else 0x1000000


class Edit(msgspec.Struct, frozen=True):
    """A change of one function."""

    where: str
    """``module:function`` or ``module:Class.method``; a module below ``ticdc_spark``, or of the laboratory in full."""
    old: str
    """Words that stand once in its source."""
    new: str


class Mutation(msgspec.Struct, frozen=True):
    """One way to break the product."""

    name: str
    """What is wrong then."""
    edits: tuple[Edit, ...]
    needs: tuple[str, ...] = ()
    """What a story must have for it: kinds of moves and of faults, schema changes, see ``features``. Others are not
    run, which would only take time."""
    found_by: str = ""
    """A test that finds it, where it takes a combination that random stories rarely draw."""
    seeds: tuple[int, ...] = ()
    """The stories that are run, where few of the random ones have the combination that it takes; ``()``: any."""


@contextmanager
def applied(mutation: Mutation) -> Iterator[None]:
    """The product with a mutation. Raises: AssertionError where its words are not there once"""
    with ExitStack() as stack:
        for where in dict.fromkeys(edit.where for edit in mutation.edits):
            stack.enter_context(_edited(where, [edit for edit in mutation.edits if edit.where == where]))
        yield


@contextmanager
def _edited(where: str, edits: list[Edit]) -> Iterator[None]:
    function = function_of(where)
    source = textwrap.dedent(inspect.getsource(function))
    source = source[source.index("def ") :]  # without its decorators
    for edit in edits:
        assert source.count(edit.old) == 1, f"{where}: {edit.old!r} stands there {source.count(edit.old)} times"
        source = source.replace(edit.old, edit.new)
    flags = function.__code__.co_flags & _FUTURE
    made: dict[str, Any] = dict(function.__globals__)
    exec(compile(source, f"<mutation of {where}>", "exec", flags, dont_inherit=True), made)
    before = function.__code__
    function.__code__ = made[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = before


def pytest_collection_finish(session: pytest.Session) -> None:
    """As a plugin of pytest (``-p tests.simulator.mutate``): run tests with the mutation that ``MUTATION`` names."""
    from tests.simulator.mutations import MUTATIONS

    (mutation,) = (one for one in MUTATIONS if one.name == os.environ["MUTATION"])
    session.config.add_cleanup(_apply_for_good(mutation).close)


def _apply_for_good(mutation: Mutation) -> ExitStack:
    stack = ExitStack()
    stack.enter_context(applied(mutation))
    return stack


def function_of(where: str) -> FunctionType:
    """The function of ``Edit.where``."""
    module, _, path = where.partition(":")
    found: Any = import_module(module if module.startswith("tests.") else f"ticdc_spark.{module}")
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    found = found.fget if isinstance(found, property) else found
    return getattr(found, "__wrapped__", found)  # type: ignore[no-any-return]


class Caught(msgspec.Struct, frozen=True):
    """The first story that finds a mutation."""

    seed: int
    tried: int
    """Stories that were run."""
    finding: Finding


@lru_cache(1 << 16)
def features(seed: int) -> frozenset[str]:
    """What the story of a seed has: kinds of moves and faults, schema changes, and what its world is like."""
    story = draw(seed)
    setup, feed = story.setup, story.setup.feed
    found: set[str] = {feed.protocol, setup.job.on_reject, setup.job.late_rows, setup.job.starting}
    for move in story.moves:
        found |= {move.kind, f"ddl {move.word}"} if move.kind == "ddl" else {move.kind, move.word}
        if move.fault is not None:
            found |= {"fault", move.fault.kind}
    found |= {"topic_per_table"} if feed.topic_per_table else set()
    return frozenset(found)


def catch(mutation: Mutation, seeds: Iterable[int], lab: LabMaker, most: int) -> Caught | None:
    """Look for a story that ends in a finding with a mutation, and in none, or another one, without.

    ``most``: so many stories are run.
    """
    needs = frozenset(mutation.needs)
    with quietly():
        for tried, seed in enumerate(islice((seed for seed in seeds if needs <= features(seed)), most), 1):
            with applied(mutation):
                found = run(draw(seed), lab).finding
            if found is None:
                continue
            usual = run(draw(seed), lab).finding
            if usual is None or usual.signature != found.signature:
                return Caught(seed, tried, found)
    return None


def one(
    name: str, where: str, old: str, new: str, *needs: str, found_by: str = "", seeds: tuple[int, ...] = ()
) -> Mutation:
    """A mutation of one edit."""
    return Mutation(name, (Edit(where, old, new),), needs, found_by, seeds)
