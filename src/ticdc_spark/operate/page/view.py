"""What a status page shows, whatever it is of: a headline and sections of facts, grids, charts and one listing.

Nothing here is HTML, and nothing is escaped: ``render`` does both.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

Tone: TypeAlias = Literal["", "good", "warn", "bad", "quiet"]
MOST = 500
"""Rows of a listing that are shown at once, at most."""


class Step(msgspec.Struct, frozen=True):
    """What to do next."""

    text: str
    command: str = ""
    """To be copied."""


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """What a page says first."""

    state: str
    tone: Tone
    reason: str
    since: str = ""
    steps: tuple[Step, ...] = ()


class Fact(msgspec.Struct, frozen=True):
    """A name and what is known by it."""

    name: str
    text: str
    tone: Tone = ""
    more: str = ""
    """What explains the text."""


class Facts(msgspec.Struct, frozen=True):
    """Facts beside each other; those without a text are left out."""

    rows: tuple[Fact, ...]
    form: Literal["columns", "lines", "tiles"] = "columns"
    """lines: one below the other, for long texts; tiles: large, for the few that matter most."""


class Cell(msgspec.Struct, frozen=True):
    """One cell of a grid."""

    text: str
    tone: Tone = ""
    more: str = ""


class Head(msgspec.Struct, frozen=True):
    """A column of a grid."""

    title: str
    form: Literal["", "number", "time"] = ""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """Rows and columns."""

    heads: tuple[Head, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    empty: str
    """In the place of a grid without rows."""
    note: str = ""
    """Below it: what it leaves out."""


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A value over time."""

    title: str
    points: tuple[tuple[float, float], ...]
    """Seconds since the epoch, and the value; in the order of time."""
    unit: Literal["seconds", "a second"]


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows of a listing are asked for."""

    search: str = ""
    state: str = ""
    offset: int = 0
    limit: int = 50


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of many."""

    query: Query
    choices: tuple[str, ...] = ()
    """States by which it can be narrowed; none: it has no states."""
    grid: Grid
    """Of the rows that are shown."""
    found: int
    """Rows that the query fits."""
    counts: str = ""
    """How many rows have which state, in words."""


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A command to copy, and what it does."""

    text: str
    command: str


Part: TypeAlias = Facts | Grid | Chart | Listing | Code


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the page with a title."""

    name: str
    """In the address: letters and ``-``."""
    title: str
    parts: tuple[Part, ...]
    is_folded: bool = False
    """Whether it is closed at first."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A whole page."""

    kind: Literal["job", "changefeed"]
    name: str
    headline: Headline
    sections: tuple[Section, ...]
    at: str
    """When this was so, in words."""


def moment(at: float) -> str:
    """A time in words, UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%SZ}"


def query_of(given: Mapping[str, str]) -> Query:
    """The query that an address has; what cannot be read counts as not given."""

    def number(name: str, default: int, most: int) -> int:
        text = given.get(name, "")
        return min(int(text), most) if text.isascii() and text.isdigit() and len(text) < 10 else default

    return Query(
        search=given.get("search", "")[:200],
        state=given.get("state", "")[:40],
        offset=number("offset", 0, 10**9),
        limit=max(1, number("limit", 50, MOST)),
    )


def steps_of(todo: str) -> tuple[Step, ...]:
    """What to do next, as ``status`` has it in one line, with its commands apart."""
    steps = []
    for part in filter(None, (one.strip() for one in todo.split("; "))):
        starts = [at for name in _COMMANDS if (at := part.find(name)) >= 0]
        at = min(starts, default=len(part))
        steps.append(Step(part[:at].strip().removesuffix(":"), part[at:].strip()))
    return tuple(steps)


_COMMANDS = ("ticdc-spark ", "cdc cli ", "jstack ", "kafka-configs ")
