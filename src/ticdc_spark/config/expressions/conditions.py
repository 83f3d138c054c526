"""Conditions: AND, OR, NOT in three values, IS, LIKE and REGEXP."""

from __future__ import annotations

from functools import lru_cache

from ticdc_spark.config.expressions import collations
from ticdc_spark.config.expressions.nodes import (
    BINARY,
    Evaluate,
    Node,
    as_bytes,
    as_text,
    as_truth,
    has_bytes,
    mapped,
    value_of,
)
from ticdc_spark.config.rules import compiled_regex, regex
from ticdc_spark.model import Row


def conjunction(left: Node, right: Node) -> Node:
    """``AND``."""
    first, second = as_truth(left), as_truth(right)

    def evaluate(row: Row) -> bool | None:
        one = first(row)
        if one is False:
            return False
        other = second(row)
        return False if other is False else None if one is None or other is None else True

    return truth(evaluate)


def disjunction(left: Node, right: Node) -> Node:
    """``OR``."""
    first, second = as_truth(left), as_truth(right)

    def evaluate(row: Row) -> bool | None:
        one = first(row)
        if one:
            return True
        other = second(row)
        return True if other else None if one is None or other is None else False

    return truth(evaluate)


def exclusive(left: Node, right: Node) -> Node:
    """``XOR``."""
    first, second = as_truth(left), as_truth(right)

    def evaluate(row: Row) -> bool | None:
        one = first(row)
        other = None if one is None else second(row)
        return None if other is None else one != other

    return truth(evaluate)


def negation(node: Node) -> Node:
    """``NOT``."""
    of = as_truth(node)

    def evaluate(row: Row) -> bool | None:
        value = of(row)
        return None if value is None else not value

    return truth(evaluate)


def is_value(node: Node, wanted: bool | None) -> Node:
    """``IS TRUE``, ``IS FALSE``, and ``IS NULL`` or ``IS UNKNOWN`` for ``None``."""
    if wanted is None:
        of = node.of
        return truth(lambda row: of(row) is None)
    test = as_truth(node)
    return truth(lambda row: test(row) is wanted)


def like(node: Node, pattern: Node, escape: str) -> Node:
    """``LIKE``: ``%`` is any text and ``_`` one character, under the collation of both."""
    collation = shared_collation(node, pattern)
    read = _as_characters if collation is BINARY else as_text
    text, template = read(node).of, read(pattern).of

    def evaluate(row: Row) -> bool | None:
        value, wild = text(row), template(row)
        if value is None or wild is None:
            return None
        shape = compiled_regex(_like_regex(wild, escape, collation))
        return shape.search(_searchable(collation.letters(value))) is not None

    return truth(evaluate)


def matches(node: Node, pattern: Node) -> Node:
    """``REGEXP``, in TiDB's dialect, which is RE2. It ignores case if the collation does."""
    collation = shared_collation(node, pattern)
    flags = "(?i)" if collation.folds else ""
    if pattern.literal and value_of(pattern) is not None:
        regex(flags + str(value_of(as_text(pattern))), "REGEXP")
    text, template = as_text(node).of, as_text(pattern).of

    def evaluate(row: Row) -> bool | None:
        value, shape = text(row), template(row)
        if value is None or shape is None:
            return None
        return regex(flags + shape, "REGEXP").search(_searchable(value)) is not None

    return truth(evaluate)


def truth(of: Evaluate) -> Node:
    """A node of a condition: 1, 0 or NULL."""
    return Node(kind="int", of=of)


def _searchable(text: str) -> str:
    """The text without lone surrogates, which represent bytes that are not UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _as_characters(node: Node) -> Node:
    """One character a byte."""
    return mapped(as_bytes(node), "text", lambda value: value.decode("latin-1"))


@lru_cache(4096)
def _like_regex(pattern: str, escape: str, collation: collations.Collation) -> str:
    found, escaped = ["(?s)\\A"], False
    for char in pattern:
        if escaped or char not in (escape, "%", "_"):
            found.append(_quoted(collation.letters(char)))
            escaped = False
        elif char == escape:
            escaped = True
        else:
            found.append(".*" if char == "%" else ".")
    if escaped:
        found.append(_quoted(escape))
    return "".join(found) + "\\z"


def _quoted(text: str) -> str:
    return "".join(char if char.isalnum() or char >= "\x80" else f"\\x{{{ord(char):x}}}" for char in _searchable(text))


def shared_collation(left: Node, right: Node) -> collations.Collation:
    """The collation in which two values compare."""
    if has_bytes(left) or has_bytes(right):
        return BINARY
    return collations.united((left.collation, right.collation)) or collations.DEFAULT
