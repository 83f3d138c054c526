"""A compiled expression: what kind of value it gives, and the function from a row to the value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from ticdc_spark.config.expressions import convert
from ticdc_spark.config.expressions.collations import Collation
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Row

Kind: TypeAlias = Literal[
    "null", "int", "decimal", "real", "text", "bytes", "date", "datetime", "time", "names", "bits", "json"
]
"""``names``: an ENUM or SET: a number, whose text is of its members. ``bits``: X'…': a number among numbers, bytes
among texts. A BIT column is an int, and bytes only to functions of texts. ``date`` and ``datetime``:
``YYYY-MM-DD hh:mm:ss.ffffff``. ``time``: microseconds."""
Evaluate: TypeAlias = Callable[[Row], Any]

NUMERIC = ("int", "decimal", "real")
MOMENTS = ("date", "datetime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A compiled expression. ``of`` gives ``None`` for NULL."""

    kind: Kind
    of: Evaluate
    scale: int = 0
    """Digits after the point, of a decimal or a time."""
    unsigned: bool = False
    collation: Collation | None = None
    """The collation of a text; ``None`` for a literal."""
    literal: bool = False
    text: Callable[[Any], str] | None = None
    """Gives the text of a value whose kind has another text: an ENUM's name, a FLOAT's shortest digits."""
    size: int = 0
    """How many bytes a BIT or X'…' has."""
    year: bool = False
    """Whether it is a YEAR. A two-digit literal beside it is a year too. Beside a date it is YYYY-00-00."""


class Unsupported(Exception):
    """SQL that cannot be evaluated here; the message names it."""


class UnsupportedFunction(Unsupported):
    """A function that cannot be evaluated: the parser's name for it, and the unsupported detail."""

    def __init__(self, function: str, detail: str = "") -> None:
        super().__init__(function + detail)
        self.function, self.detail = function, detail


def literal(kind: Kind, value: Any, **more: Any) -> Node:
    """A constant."""
    return Node(kind=kind, of=lambda _row: value, literal=True, **more)


def value_of(node: Node) -> Any:
    """The value of a literal, or of what is computed of literals. Raises: UsageError if that is an error in SQL."""
    try:
        return node.of({})
    except (MessageError, ArithmeticError) as error:
        raise UsageError(str(error) if isinstance(error, MessageError) else "a number is too large") from error


def mapped(node: Node, kind: Kind, function: Callable[[Any], Any], **more: Any) -> Node:
    """A function of one value that gives NULL for NULL."""
    of = node.of

    def evaluate(row: Row) -> Any:
        value = of(row)
        return None if value is None else function(value)

    return Node(kind=kind, of=evaluate, literal=node.literal, **more)


def joined(nodes: list[Node], kind: Kind, function: Callable[..., Any], **more: Any) -> Node:
    """A function of several values that gives NULL if one of them is."""
    ofs = [node.of for node in nodes]

    def evaluate(row: Row) -> Any:
        values = []
        for of in ofs:
            value = of(row)
            if value is None:
                return None
            values.append(value)
        return function(*values)

    return Node(kind=kind, of=evaluate, literal=all(node.literal for node in nodes), **more)


def as_number(node: Node) -> Node:
    """As an int, decimal or real: a text becomes a real, a time a decimal."""
    match node.kind:
        case "int" | "decimal" | "real" | "null":
            return replace(node, size=0)
        case "names" | "bits":
            return replace(node, kind="int", text=None, unsigned=True, size=0)
        case "text":
            return mapped(node, "real", convert.text_to_real)
        case "bytes":
            return mapped(node, "real", lambda value: convert.text_to_real(value.decode("latin-1")))
        case "date":
            return mapped(node, "int", lambda value: int(convert.moment_to_number(value[:10], 0)))
        case "datetime":
            digits = node.scale
            if digits == 0:
                return mapped(node, "int", lambda value: int(convert.moment_to_number(value, 0)))
            return mapped(node, "decimal", lambda value: convert.moment_to_number(value, digits), scale=digits)
        case "time":
            if node.scale == 0:
                return mapped(node, "int", lambda value: int(convert.time_to_number(value)))
            return mapped(node, "decimal", convert.time_to_number, scale=node.scale)
    raise Unsupported(f"a {node.kind} value as a number (->> gives its text)")


def as_real(node: Node) -> Node:
    """As a real."""
    number = as_number(node)
    return number if number.kind in ("real", "null") else mapped(number, "real", float)


def as_decimal(node: Node) -> Node:
    """As a decimal; a real by its shortest text."""
    number = as_number(node)
    if number.kind in ("decimal", "null"):
        return number
    if number.kind == "int":
        return mapped(number, "decimal", lambda value: Decimal(int(value)))
    return mapped(number, "decimal", lambda value: Decimal(repr(value)), scale=30)


def as_exact(node: Node) -> Node:
    """As a decimal; a text by its digits, not by the real that it becomes among numbers."""
    if node.kind in ("text", "bytes"):
        return mapped(as_text(node), "decimal", convert.text_to_decimal)
    return as_decimal(node)


def as_integer(node: Node) -> Node:
    """As an int that counts something: texts are cut at the point, numbers rounded, too large ones BIGINT's largest."""
    if node.kind in ("text", "bytes"):
        node = mapped(as_text(node), "int", convert.text_to_integer)
    number = as_number(node)
    if number.kind == "null":
        return number
    return mapped(number, "int", lambda value: min(max(convert.nearest(value), -(2**63)), 2**63 - 1))


def as_bits(node: Node) -> Node:
    """As an int of 64 bits; a text is a decimal first. Raises, of a row: MessageError if BIGINT does not hold it.

    MariaDB rounds a real as if it were a decimal.
    """
    number = as_exact(node) if node.kind in ("text", "bytes") else as_number(node)
    if number.kind in ("int", "null"):
        return number
    return mapped(number, "int", lambda value: in_range(convert.nearest(value), unsigned=value > 0))


def as_text(node: Node) -> Node:
    """As a text."""
    collation = node.collation
    if node.size or node.kind == "bits":
        raise Unsupported("a BIT or X'…' as text")
    match node.kind:
        case "text" | "null":
            return node
        case "names":
            assert node.text is not None
            return mapped(node, "text", node.text, collation=collation)
        case "int":
            digits = 4 if node.year else 1
            return mapped(node, "text", lambda value: f"{int(value):0{digits}}")
        case "decimal":
            scale = node.scale
            return mapped(node, "text", lambda value: _decimal_text(convert.round_half_up(value, scale)))
        case "real":
            return mapped(node, "text", node.text or convert.real_to_text)
        case "bytes":
            return mapped(node, "text", lambda value: value.decode("utf-8", "surrogateescape"), collation=BINARY)
        case "date":
            return mapped(node, "text", lambda value: value[:10])
        case "datetime":
            size = 20 + node.scale if node.scale else 19
            return mapped(node, "text", lambda value: value[:size])
        case "time":
            fraction = node.scale
            return mapped(node, "text", lambda value: _time_text(value, fraction))
    raise Unsupported(f"a {node.kind} value as text (->> gives its text)")


def _decimal_text(value: Decimal) -> str:
    return format(value or abs(value), "f")


def has_bytes(node: Node) -> bool:
    """Whether functions of texts take it as bytes."""
    return node.kind in ("bytes", "bits") or node.size > 0


def as_bytes(node: Node) -> Node:
    """As bytes."""
    if node.kind in ("bytes", "null"):
        return node
    if node.size or node.kind == "bits":
        size = node.size
        return mapped(node, "bytes", lambda value: value.to_bytes(size, "big"))
    return mapped(as_text(node), "bytes", encode)


def as_moment(node: Node) -> Node:
    """As a date and time. A text or number that is none becomes NULL; such a literal is refused."""
    if node.kind in MOMENTS or node.kind == "null":
        return replace(node, kind="datetime") if node.kind == "date" else node
    if node.size:
        raise Unsupported("a BIT as a date (+ 0 makes it a number)")
    if node.year:
        return mapped(node, "datetime", lambda value: f"{value:04}-00-00{convert.MIDNIGHT}")
    if node.kind == "int" or (node.kind in NUMERIC and node.literal):
        found = mapped(node, "datetime", convert.number_to_moment, scale=6)
    elif node.kind in ("text", "bytes", "names"):
        found = mapped(as_text(node), "datetime", convert.text_to_moment, scale=6)
    else:
        raise Unsupported(f"a {node.kind} value as a date")
    if node.literal and value_of(node) is not None and value_of(found) is None:
        raise Unsupported(f"{value_of(node)!r} as a date and time: write 'YYYY-MM-DD hh:mm:ss'")
    return found


def as_time(node: Node) -> Node:
    """As a TIME. A text or number that is none becomes NULL; such a literal is refused."""
    if node.kind in ("time", "null"):
        return node
    if node.kind not in ("text", "int"):
        raise Unsupported(f"a {node.kind} value as a time of day")
    found = mapped(as_text(node), "time", convert.text_to_time, scale=6)
    if node.literal and value_of(node) is not None and value_of(found) is None:
        raise Unsupported(f"{value_of(node)!r} as a time: write 'hh:mm:ss'")
    return found


def as_truth(node: Node) -> Evaluate:
    """Whether it is true: as a number it is not 0. ``None`` for NULL."""
    number = as_number(node)
    of = number.of

    def evaluate(row: Row) -> bool | None:
        value = of(row)
        return None if value is None else value != 0

    return evaluate


def encode(text: str) -> bytes:
    """The bytes of a text that ``as_text`` may have made of bytes."""
    return text.encode("utf-8", "surrogateescape")


def in_range(value: int, *, unsigned: bool) -> int:
    """An integer result. Raises: MessageError if MySQL's BIGINT overflows."""
    low, high = (0, 2**64 - 1) if unsigned else (-(2**63), 2**63 - 1)
    if not low <= value <= high:
        raise MessageError(f"{value} is out of the range of BIGINT{' UNSIGNED' if unsigned else ''}")
    return value


def _time_text(micros: int, digits: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    text = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}"[: len(text) + 1 + digits] if digits else text


BINARY = Collation("binary")
