"""Steps of a conversion: one Spark SQL template and one Python function with the same result."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType

Cell: TypeAlias = str | bytes
NOTHING_FOLLOWS = "(?![^0])(?!0)"
"""The end of the text. Java's ``$`` also matches before a line break."""


class Step(msgspec.Struct, frozen=True):
    """A part of a conversion. A value without a result is NULL in SQL and a ``MessageError`` in Python."""

    sql: str
    """Spark SQL over ``{x}``."""
    python: Callable[[Cell], Cell]
    """The same for a canonical value that is not NULL."""
    reason: str = ""
    """Why the result may differ from the source's; ``""`` when it is exact."""


def same(cell: Cell) -> Cell:
    """The value unchanged."""
    return cell


KEEP = Step("{x}", same)


def cast(kind: str, python: Callable[[Cell], Cell] = same) -> Step:
    """A Spark cast that returns NULL if it fails."""
    return Step(f"try_cast({{x}} AS {kind})", python)


def unknown(kind: str, reason: str) -> Step:
    """No conversion: every value becomes NULL, for ``reason``."""

    def refuse(_: Cell) -> Cell:
        raise MessageError(reason)

    return Step(f"CASE WHEN {{x}} IS NULL THEN CAST(NULL AS {kind}) END", refuse, reason)


def approximate(step: Step, reason: str) -> Step:
    """The same step, marked as inexact."""
    return msgspec.structs.replace(step, reason=reason)


def render(steps: tuple[Step, ...], old: str) -> str:
    """Nest the steps' SQL around ``old``, evaluating each step once."""
    expression = old
    for at, step in enumerate(steps):
        if step.sql.count("{x}") > 1 and expression != old:
            body = step.sql.replace("{x}", f"v{at}")
            expression = f"element_at(transform(array({expression}), v{at} -> {body}), 1)"
        else:
            expression = step.sql.replace("{x}", expression)
    return expression


def literal(text: str) -> str:
    """A SQL string; text with quotes, backslashes or control characters is written as bytes."""
    if text.isprintable() and "'" not in text and "\\" not in text:
        return f"'{text}'"
    return f"decode(X'{text.encode().hex()}', 'UTF-8')"


def matches(pattern: str) -> str:
    """A SQL condition: the whole of ``{x}`` matches. The pattern holds no backslash and no quote."""
    return f"{{x}} RLIKE '^(?:{pattern}){NOTHING_FOLLOWS}'"


def text_of(cell: Cell) -> str:
    """A value as text.

    Raises: MessageError for bytes (a text column's value that is not UTF-8).
    """
    if isinstance(cell, bytes):
        raise MessageError(f"{cell!r:.80} is not UTF-8")
    return cell


def refused(cell: Cell, to: ColumnType) -> MessageError:
    """The error for a value that strict mode does not convert to ``to``."""
    return MessageError(f"{cell!r:.80} does not fit {to.name}")
