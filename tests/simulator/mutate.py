"""Ways to break the product on purpose, each of which stories must find: one decision each, named by what is wrong.

A mutation replaces a node of a function's syntax tree; the function itself gets the new code, so that whoever holds it
already is broken, too. Neither a new format nor a move of the function matters. A function or a node that is not there
any more, or more than once, is an error, and the mutation is to be written for what is there instead.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import FunctionType
from typing import Any

import msgspec
import pytest

import ticdc_spark
from tests.simulator.draw import draw_basic as draw
from tests.simulator.runner import quietly
from tests.simulator.seams import LabMaker
from tests.simulator.story import run
from tests.simulator.syntax import replaced
from tests.simulator.world import Finding

_FUTURE = inspect.CO_FUTURE_ANNOTATIONS if hasattr(inspect, "CO_FUTURE_ANNOTATIONS") else 0x1000000
_TESTS = Path(__file__).parents[1]
_SRC = Path(ticdc_spark.__file__).parent
_ROOTS = {_SRC: _SRC.parent, _TESTS / "simulator": _TESTS.parent, _TESTS / "memory_sink": _TESTS.parent}
"""Packages in which functions are looked for, and where their modules' names begin."""


class Edit(msgspec.Struct, frozen=True):
    """A change of one function."""

    where: str
    """``function`` or ``Class.method``; behind ``file:`` where several files have one of that name."""
    old: str
    """What stands once in it, see ``syntax.replaced``."""
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
    """The name of a test that finds it, where it takes a combination that random stories rarely draw."""
    seeds: tuple[int, ...] = ()
    """The stories that are run, where few of the random ones have the combination that it takes; ``()``: any."""


@contextmanager
def applied(mutation: Mutation) -> Iterator[None]:
    """The product with a mutation. Raises: AssertionError where what it changes is not there once"""
    with ExitStack() as stack:
        for where in dict.fromkeys(edit.where for edit in mutation.edits):
            stack.enter_context(_edited(where, [edit for edit in mutation.edits if edit.where == where]))
        yield


@contextmanager
def _edited(where: str, edits: list[Edit]) -> Iterator[None]:
    function = function_of(where)
    definition = _defined(where)[1]
    for edit in edits:
        definition = replaced(definition, edit.old, edit.new)
    flags = function.__code__.co_flags & _FUTURE
    code = compile(ast.Module([definition], []), f"<mutation of {where}>", "exec", flags, dont_inherit=True)
    made: dict[str, Any] = dict(function.__globals__)
    exec(code, made)
    before = function.__code__
    function.__code__ = made[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = before


@lru_cache
def _defined(where: str) -> tuple[str, ast.FunctionDef]:
    """The module of ``Edit.where``, and the function without its decorators. Raises: AssertionError"""
    place, _, name = where.rpartition(":")
    found = []
    for package, root in _ROOTS.items():
        for file in package.rglob("*.py"):
            module = file.relative_to(root).with_suffix("").parts
            text = _text(file) if "/".join(("", *module)).endswith(f"/{place}" if place else "") else ""
            if f"def {name.rpartition('.')[2]}(" in text:
                found += [(".".join(module), one) for one in _functions(ast.parse(text), name.split("."))]
    assert len(found) == 1, f"{where}: there are {len(found)} such functions: {[module for module, _ in found]}"
    found[0][1].decorator_list = []
    return found[0]


@lru_cache(None)
def _text(file: Path) -> str:
    return file.read_text()


def _functions(scope: ast.Module | ast.ClassDef, path: list[str]) -> Iterator[ast.FunctionDef]:
    for inner in scope.body:
        if isinstance(inner, ast.FunctionDef) and [inner.name] == path:
            yield inner
        elif isinstance(inner, ast.ClassDef) and inner.name == path[0]:
            yield from _functions(inner, path[1:])


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
    found: Any = import_module(_defined(where)[0])
    for name in where.rpartition(":")[2].split("."):
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


def place_of_test(mutation: Mutation) -> str:
    """Where pytest finds the test that a mutation names. Raises: AssertionError"""
    files = [file for file in _TESTS.rglob("test_*.py") if f"\ndef {mutation.found_by}(" in _text(file)]
    assert len(files) == 1, f"{mutation.found_by} is in {files}"
    return f"{files[0]}::{mutation.found_by}"


def one(
    name: str, where: str, old: str, new: str, *needs: str, found_by: str = "", seeds: tuple[int, ...] = ()
) -> Mutation:
    """A mutation of one edit."""
    return Mutation(name, (Edit(where, old, new),), needs, found_by, seeds)
