"""The content of a status page: a headline, and sections of facts, grids, charts and one listing.

Nothing here is HTML, and nothing is escaped: ``render`` does both.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

Tone: TypeAlias = Literal["", "good", "warn", "bad", "quiet"]
MOST = 500
"""Largest number of rows that a listing shows at once."""


class Step(msgspec.Struct, frozen=True):
    """A next step."""

    text: str
    command: str = ""
    """A command to copy."""


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """The headline of a page."""

    state: str
    tone: Tone
    reason: str
    since: str = ""
    steps: tuple[Step, ...] = ()


class Fact(msgspec.Struct, frozen=True):
    """A name and its value."""

    name: str
    text: str
    tone: Tone = ""
    more: str = ""
    """An explanation of the text."""


class Facts(msgspec.Struct, frozen=True):
    """Facts side by side. Facts without a text are omitted."""

    rows: tuple[Fact, ...]
    form: Literal["columns", "lines", "tiles"] = "columns"
    """lines: one below the other, for long texts; tiles: large, for the most important ones."""


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
    """Shown instead of a grid without rows."""
    note: str = ""
    """Shown below the grid: what it omits."""


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A value over time."""

    title: str
    points: tuple[tuple[float, float], ...]
    """(seconds since the epoch, value), ordered by time."""
    unit: Literal["seconds", "a second"]


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """The requested rows of a listing."""

    search: str = ""
    state: str = ""
    offset: int = 0
    limit: int = 50


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of many."""

    query: Query
    choices: tuple[str, ...] = ()
    """States to filter by; empty: rows have no state."""
    grid: Grid
    """The rows that are shown."""
    found: int
    """The number of matching rows."""
    counts: str = ""
    """The number of rows by state, as text."""


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A command to copy, and its purpose."""

    text: str
    command: str


Part: TypeAlias = Facts | Grid | Chart | Listing | Code


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the page with a title."""

    name: str
    """The anchor in the address: letters and ``-``."""
    title: str
    parts: tuple[Part, ...]
    is_folded: bool = False
    """Whether it is closed initially."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A whole page."""

    kind: Literal["job", "changefeed"]
    name: str
    headline: Headline
    sections: tuple[Section, ...]
    at: str
    """The time of this content, as text."""


def moment(at: float) -> str:
    """A time as text, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%SZ}"


def query_of(given: Mapping[str, str]) -> Query:
    """The query in an address. Invalid parameters are ignored."""

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
    """The next steps from the text that ``status`` shows on one line, with commands separated."""
    steps = []
    for part in filter(None, (one.strip() for one in todo.split("; "))):
        starts = [at for name in _COMMANDS if (at := part.find(name)) >= 0]
        at = min(starts, default=len(part))
        steps.append(Step(part[:at].strip().removesuffix(":"), part[at:].strip()))
    return tuple(steps)


_COMMANDS = ("ticdc-spark ", "cdc cli ", "jstack ", "kafka-configs ")
