"""Comparisons: the kinds of both sides decide how MySQL compares them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ticdc_spark.config.expressions import collations, convert
from ticdc_spark.config.expressions.conditions import shared_collation, truth
from ticdc_spark.config.expressions.nodes import (
    MOMENTS,
    NUMERIC,
    Evaluate,
    Kind,
    Node,
    Unsupported,
    as_bytes,
    as_decimal,
    as_integer,
    as_moment,
    as_number,
    as_real,
    as_text,
    as_time,
    literal,
    value_of,
)
from ticdc_spark.model import Row

TEXTUAL = frozenset(("text", "names", "bytes", "bits"))
"""Kinds that compare as texts or bytes if both sides are one of them."""
TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def comparison(sign: str, left: Node, right: Node) -> Node:
    """``=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``: NULL if a side is."""
    if "null" in (left.kind, right.kind):
        return truth(lambda _row: None)
    order, test = _order(left, right), TESTS[sign]

    def evaluate(row: Row) -> bool | None:
        found = order(row)
        return None if found is None else test(found, 0)

    return truth(evaluate)


def null_safe(left: Node, right: Node) -> Node:
    """``<=>``: NULL equals only NULL."""
    if "null" in (left.kind, right.kind):
        other = left.of if right.kind == "null" else right.of
        return truth(lambda row: other(row) is None)
    order, of_left, of_right = _order(left, right), left.of, right.of

    def evaluate(row: Row) -> bool:
        found = order(row)
        return of_left(row) is None and of_right(row) is None if found is None else found == 0

    return truth(evaluate)


def between(node: Node, low: Node, high: Node) -> Node:
    """``BETWEEN``; all sides are evaluated, as an overflow in one is an error. Beside a number all are numbers."""
    bounds = _with_one_collation(node, (low, high))
    if node.kind in TEXTUAL and any(bound.kind in NUMERIC for bound in bounds):
        if any(bound.kind not in (*NUMERIC, *TEXTUAL, "null") for bound in bounds):
            raise Unsupported(f"BETWEEN {low.kind} AND {high.kind} of a {node.kind} value")
        node = as_number(node)
    above, below, of = comparison(">=", node, bounds[0]).of, comparison("<=", node, bounds[1]).of, node.of

    def evaluate(row: Row) -> bool | None:
        if of(row) is None:
            return None
        first, second = above(row), below(row)
        return False if first is False or second is False else None if first is None or second is None else True

    return truth(evaluate)


def contained(left: Node, members: Sequence[Node]) -> Node:
    """``IN``: true if a member is equal, else NULL if a comparison is NULL. Texts share one collation."""
    tests = [comparison("=", left, member).of for member in _with_one_collation(left, members)]
    of_left = left.of

    def evaluate(row: Row) -> bool | None:
        if of_left(row) is None:
            return None
        unknown = False
        for test in tests:
            found = test(row)
            if found:
                return True
            unknown = unknown or found is None
        return None if unknown else False

    return truth(evaluate)


def common_kind(nodes: Sequence[Node]) -> Kind:
    """The kind to which CASE, COALESCE, IF and GREATEST convert all their values."""
    kinds = {node.kind for node in nodes if node.kind != "null"}
    if not kinds:
        return "null"
    if any(node.size for node in nodes):
        raise Unsupported("a BIT or X'…' as one of several values (+ 0 makes it a number)")
    if kinds <= set(NUMERIC):
        return "real" if "real" in kinds else "decimal" if "decimal" in kinds else "int"
    if len(kinds) == 1 and not kinds & {"names", "json"}:
        return kinds.pop()
    if kinds <= set(MOMENTS):
        return "datetime"
    if "json" in kinds:
        raise Unsupported("a JSON value beside others (->> gives its text)")
    return "bytes" if "bytes" in kinds else "text"


def as_kind(node: Node, kind: Kind) -> Node:
    """The value as this kind."""
    if node.kind in (kind, "null"):
        return node
    match kind:
        case "real":
            return as_real(node)
        case "decimal":
            return as_decimal(node)
        case "int":
            return as_integer(node)
        case "datetime" | "date":
            return as_moment(node)
        case "bytes":
            return as_bytes(node)
        case _:
            return as_text(node)


def _order(left: Node, right: Node) -> Evaluate:
    """-1, 0 or 1 of two sides that may be NULL."""
    kinds = {left.kind, right.kind}
    if "json" in kinds:
        raise Unsupported("a comparison with a JSON value (->> gives its text)")
    if kinds & set(MOMENTS):
        if "time" in kinds:
            raise Unsupported("a comparison of a date with a time of day")
        if _is_moment(left) and _is_moment(right):
            return _plain(as_moment(left), as_moment(right))
    elif "time" in kinds and kinds <= {"time", "text"}:
        return _plain(as_time(left), as_time(right))
    if kinds <= TEXTUAL and kinds != {"bits"}:
        if kinds & {"bytes", "bits"}:
            return _plain(as_bytes(left), as_bytes(right))
        return _texts(as_text(left), as_text(right), shared_collation(left, right))
    left, right = _exact(left, right), _exact(right, left)
    if left.year != right.year:
        left, right = _full_year(left), _full_year(right)
    one, other = as_number(left), as_number(right)
    if "real" in (one.kind, other.kind):
        return _plain(as_real(one), as_real(other))
    return _plain(one, other)


def _is_moment(node: Node) -> bool:
    """Whether a value that is compared with a date is read as one: texts, dates, years, and number literals."""
    return node.kind in (*MOMENTS, "text", "bytes", "names") or node.year or (node.kind in NUMERIC and node.literal)


def _exact(node: Node, other: Node) -> Node:
    """A literal beside an integer, and a text beside a decimal, are exact: as doubles, big numbers are equal."""
    kinds = {"int": ("text", "decimal", "real"), "decimal": ("text",)}.get(other.kind, ())
    if not node.literal or other.literal or node.kind not in kinds:
        return node
    text = str(value_of(node))
    if not convert.is_number(text):
        return node
    exact = convert.text_to_decimal(text)
    is_whole = exact.adjusted() < 30 and exact == exact.to_integral_value()
    return literal("int", int(exact)) if is_whole else literal("decimal", exact)


def _full_year(node: Node) -> Node:
    if node.year or not node.literal or node.kind != "int":
        return node
    value = value_of(node)
    if value is None or not 0 < value < 100:
        return node
    full = value + (2000 if value < 70 else 1900)
    return replace(node, of=lambda _row: full)


def _with_one_collation(left: Node, members: Sequence[Node]) -> list[Node]:
    texts = [node for node in (left, *members) if node.kind != "null"]
    if any(node.kind not in TEXTUAL for node in texts):
        return list(members)
    if any(node.kind in ("bytes", "bits") for node in texts):
        return [as_bytes(node) for node in members]
    name = (collations.united(node.collation for node in texts) or collations.DEFAULT).name
    return [replace(as_text(node), collation=collations.Collation(name, explicit=True)) for node in members]


def _plain(left: Node, right: Node) -> Evaluate:
    one, other = left.of, right.of

    def evaluate(row: Row) -> int | None:
        first = one(row)
        second = None if first is None else other(row)
        if second is None:
            return None
        return 0 if first == second else -1 if first < second else 1

    return evaluate


def _texts(left: Node, right: Node, collation: collations.Collation) -> Evaluate:
    one, other = left.of, right.of

    def evaluate(row: Row) -> int | None:
        first = one(row)
        second = None if first is None else other(row)
        return None if second is None else collations.compare(first, second, collation)

    return evaluate
