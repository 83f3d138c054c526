"""Functions that choose one of several values, after all are converted to one kind."""

from __future__ import annotations

from typing import Any

from ticdc_spark.config.expressions import collations
from ticdc_spark.config.expressions.compare import as_kind, common_kind, comparison
from ticdc_spark.config.expressions.nodes import Kind, Node, Unsupported, as_truth
from ticdc_spark.model import Row


def case(tests: list[Node], values: list[Node], default: Node | None) -> Node:
    """CASE: the value of the first true test, else the default or NULL."""
    branches = [*values, default] if default is not None else values
    kind, more = _united(branches)
    pairs = [(as_truth(test), as_kind(value, kind).of) for test, value in zip(tests, values, strict=True)]
    otherwise = as_kind(default, kind).of if default is not None else None

    def evaluate(row: Row) -> Any:
        for test, value in pairs:
            if test(row):
                return value(row)
        return None if otherwise is None else otherwise(row)

    return Node(kind=kind, of=evaluate, **more)


def chosen(nodes: list[Node]) -> Node:
    """COALESCE and IFNULL: the first that is not NULL."""
    kind, more = _united(nodes)
    ofs = [as_kind(node, kind).of for node in nodes]

    def evaluate(row: Row) -> Any:
        for of in ofs:
            value = of(row)
            if value is not None:
                return value
        return None

    return Node(kind=kind, of=evaluate, **more)


def nullif(node: Node, other: Node) -> Node:
    """NULLIF: NULL if both are equal, else the first."""
    kind, more = _united([node])
    value, equal = as_kind(node, kind).of, comparison("=", node, other).of
    return Node(kind=kind, of=lambda row: None if equal(row) else value(row), **more)


def extreme(nodes: list[Node], *, largest: bool) -> Node:
    """GREATEST and LEAST: NULL if any value is."""
    if len(nodes) < 2:
        raise Unsupported("GREATEST or LEAST of one value")
    kind, more = _united(nodes)
    ofs = [as_kind(node, kind).of for node in nodes]
    collation = more.get("collation")

    def is_better(value: Any, best: Any) -> bool:
        if kind == "text":
            order = collations.compare(value, best, collation or collations.DEFAULT)
            return order > 0 if largest else order < 0
        return bool(value > best if largest else value < best)

    def evaluate(row: Row) -> Any:
        best = None
        for of in ofs:
            value = of(row)
            if value is None:
                return None
            if best is None or is_better(value, best):
                best = value
        return best

    return Node(kind=kind, of=evaluate, **more)


def _united(nodes: list[Node]) -> tuple[Kind, dict[str, Any]]:
    kind = common_kind(nodes)
    more: dict[str, Any] = {}
    if kind == "int":
        signs = {node.unsigned for node in nodes if node.kind != "null"}
        if len(signs) == 2:  # no BIGINT holds both
            return "decimal", more
        more["unsigned"] = signs == {True}
    elif kind in ("decimal", "datetime", "time"):
        more["scale"] = max(node.scale for node in nodes)
    elif kind == "text":
        more["collation"] = collations.united(node.collation for node in nodes)
    return kind, more
