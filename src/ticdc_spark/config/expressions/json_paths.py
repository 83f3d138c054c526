"""``->``, ``->>``, JSON_EXTRACT and JSON_UNQUOTE of a JSON column."""

from __future__ import annotations

import json
from typing import Any

from sqlglot import exp

from ticdc_spark.config.expressions.collations import DEFAULT
from ticdc_spark.config.expressions.nodes import Node, Unsupported, mapped
from ticdc_spark.errors import MessageError

_ABSENT = object()


class _Written(float):
    """A number with a point or an exponent, and its text, which Python would write otherwise."""

    text: str

    def __new__(cls, text: str) -> _Written:
        found = super().__new__(cls, text)
        found.text = text
        return found


def extracted(node: Node, path: exp.Expression | None) -> Node:
    """The JSON text at a path; NULL if there is none. Raises: Unsupported for wildcards."""
    if node.kind != "json":
        raise Unsupported(f"a JSON path into a {node.kind} value")
    if not isinstance(path, exp.JSONPath):
        raise Unsupported("a JSON path that is not written as a text")
    steps: list[str | int] = []
    for part in path.expressions:
        if isinstance(part, exp.JSONPathRoot):
            continue
        step = part.this
        key = isinstance(part, exp.JSONPathKey) and isinstance(step, str)
        if not key and not (isinstance(part, exp.JSONPathSubscript) and isinstance(step, int) and step >= 0):
            raise Unsupported("a JSON path with other steps than .key and [number]")
        steps.append(step)

    def extract(text: str) -> str | None:
        value: Any = _parsed(text)
        for step in steps:
            value = _step(value, step)
            if value is _ABSENT:
                return None
        return _text(value)

    return mapped(node, "json", extract)


def unquoted(node: Node) -> Node:
    """The text of a JSON string without quotes; other JSON text unchanged."""
    if node.kind != "json":
        raise Unsupported(f"JSON_UNQUOTE of a {node.kind} value")

    def unquote(text: str) -> str:
        return str(_parsed(text)) if text.startswith('"') else text

    return mapped(node, "text", unquote, collation=DEFAULT)


def _text(value: Any) -> str:
    """JSON as MySQL writes it, with the numbers as they were written."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)}: {_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return value.text if isinstance(value, _Written) else json.dumps(value, ensure_ascii=False)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_float=_Written)
    except ValueError as error:
        raise MessageError(f"a JSON value cannot be read: {error}") from error


def _step(value: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return value.get(step, _ABSENT) if isinstance(value, dict) else _ABSENT
    if isinstance(value, list):
        return value[step] if step < len(value) else _ABSENT
    return value if step == 0 else _ABSENT
