"""Functions of texts."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from ticdc_spark.config.expressions import collations
from ticdc_spark.config.expressions.collations import Collation
from ticdc_spark.config.expressions.conditions import shared_collation
from ticdc_spark.config.expressions.nodes import (
    Kind,
    Node,
    UnsupportedFunction,
    as_bits,
    as_bytes,
    as_integer,
    as_text,
    has_bytes,
    joined,
    literal,
    mapped,
)
from ticdc_spark.model import Row


def text_function(name: str, args: list[Node]) -> Node | None:
    """A function of texts by its name in SQL, lower case; ``None``: there is none.

    Raises: Unsupported for a number of arguments that it does not take.
    """
    if name not in _FUNCTIONS:
        return None
    low, high, build = _FUNCTIONS[name]
    if not low <= len(args) <= high:
        raise UnsupportedFunction(f"function {name.upper()}", f" with {len(args)} arguments")
    return build(args)


def trimmed(node: Node, what: Node | None, side: str) -> Node:
    """``TRIM``; ``side``: LEADING, TRAILING or BOTH."""

    def trim(value: Any, part: Any) -> Any:
        if not part:
            return value
        while side != "TRAILING" and value.startswith(part):
            value = value[len(part) :]
        while side != "LEADING" and value.endswith(part):
            value = value[: -len(part)]
        return value

    return _of_alike([node, what or literal("text", " ")], trim, collation=node.collation)


def concatenated(nodes: list[Node]) -> Node:
    """``CONCAT``: NULL if one is; bytes if one is."""
    collation = collations.united(node.collation for node in nodes)
    return _of_alike(nodes, lambda first, *rest: first[:0].join((first, *rest)), collation=collation)


def _concat_ws(args: list[Node]) -> Node:
    kind, (between, *rest) = _alike(args)

    def evaluate(row: Row) -> Any:
        separator = between.of(row)
        return None if separator is None else separator.join(text for one in rest if (text := one.of(row)) is not None)

    return Node(kind=kind, of=evaluate, collation=collations.united(node.collation for node in args))


def _alike(nodes: Sequence[Node]) -> tuple[Kind, list[Node]]:
    """All as bytes if one is, else as texts."""
    if any(map(has_bytes, nodes)):
        return "bytes", [as_bytes(node) for node in nodes]
    return "text", [as_text(node) for node in nodes]


def _of_alike(nodes: Sequence[Node], function: Callable[..., Any], collation: Collation | None) -> Node:
    kind, alike = _alike(nodes)
    return joined(alike, kind, function, collation=collation)


def _sliced(node: Node) -> Node:
    return as_bytes(node) if has_bytes(node) else as_text(node)


def _substring(args: list[Node]) -> Node:
    text = _sliced(args[0])

    def part(value: Any, start: int, size: int | None = None) -> Any:
        begin = start - 1 if start > 0 else len(value) + start
        if start == 0 or begin < 0 or (size is not None and size <= 0):
            return value[:0]
        return value[begin:] if size is None else value[begin : begin + size]

    return joined([text, *map(as_integer, args[1:])], text.kind, part, collation=text.collation)


def _left(args: list[Node]) -> Node:
    text = _sliced(args[0])
    return joined([text, as_integer(args[1])], text.kind, lambda v, n: v[: max(n, 0)], collation=text.collation)


def _right(args: list[Node]) -> Node:
    text = _sliced(args[0])
    return joined(
        [text, as_integer(args[1])], text.kind, lambda v, n: v[max(len(v) - max(n, 0), 0) :], collation=text.collation
    )


def _replaced(args: list[Node]) -> Node:
    def replace(value: Any, old: Any, new: Any) -> Any:
        return value.replace(old, new) if old else value

    return _of_alike(args, replace, collation=collations.united(node.collation for node in args))


def _locate(args: list[Node]) -> Node:
    """``LOCATE(part, text, from)``."""
    collation = shared_collation(args[0], args[1])

    def find(part: Any, text: Any, start: int = 1) -> int:
        if start < 1:
            return 0
        return int(collation.letters(text).find(collation.letters(part), start - 1)) + 1

    return joined([*_alike(args[:2])[1], *map(as_integer, args[2:])], "int", find)


def _strcmp(args: list[Node]) -> Node:
    collation = shared_collation(args[0], args[1])
    return joined([as_text(node) for node in args], "int", lambda a, b: collations.compare(a, b, collation))


def _find_in_set(args: list[Node]) -> Node:
    collation = shared_collation(args[0], args[1])

    def find(one: str, members: str) -> int:
        if not members or "," in one:
            return 0
        names = [collation.fold(member) for member in members.split(",")]
        return names.index(collation.fold(one)) + 1 if collation.fold(one) in names else 0

    return joined([as_text(node) for node in args], "int", find)


def _substring_index(args: list[Node]) -> Node:
    def part(text: Any, mark: Any, count: int) -> Any:
        if not mark or count == 0:
            return text[:0]
        parts = text.split(mark)
        return mark.join(parts[:count] if count > 0 else parts[count:])

    kind, alike = _alike(args[:2])
    return joined([*alike, as_integer(args[2])], kind, part, collation=args[0].collation)


def _reversed(args: list[Node]) -> Node:
    return _of_alike(args, lambda value: value[::-1], collation=args[0].collation)


def _hex(args: list[Node]) -> Node:
    if args[0].kind in ("int", "decimal", "real"):
        return mapped(as_bits(args[0]), "text", lambda value: format(value & (2**64 - 1), "X"))
    return mapped(as_bytes(args[0]), "text", lambda value: value.hex().upper())


def _cased(change: Callable[[str], str]) -> Callable[[list[Node]], Node]:
    def one(char: str) -> str:
        changed = change(char)
        if char == "İ":
            return changed[0]  # Python's small form has a dot behind the i
        return changed if len(changed) == 1 else char

    def cased(value: str) -> str:
        return change(value) if value.isascii() else "".join(map(one, value))

    def build(args: list[Node]) -> Node:
        if args[0].kind == "bytes":
            return args[0]
        return mapped(as_text(args[0]), "text", cased, collation=args[0].collation)

    return build


def _of_bytes(kind: Any, function: Callable[[bytes], Any]) -> Callable[[list[Node]], Node]:
    return lambda args: mapped(as_bytes(args[0]), kind, function)


def _char_length(args: list[Node]) -> Node:
    return mapped(_sliced(args[0]), "int", len)


_FUNCTIONS: dict[str, tuple[int, int, Callable[[list[Node]], Node]]] = {
    "length": (1, 1, _of_bytes("int", len)),
    "octet_length": (1, 1, _of_bytes("int", len)),
    "char_length": (1, 1, _char_length),
    "lower": (1, 1, _cased(str.lower)),
    "upper": (1, 1, _cased(str.upper)),
    "concat": (1, 64, concatenated),
    "concat_ws": (2, 64, _concat_ws),
    "substring": (2, 3, _substring),
    "mid": (3, 3, _substring),
    "left": (2, 2, _left),
    "right": (2, 2, _right),
    "replace": (3, 3, _replaced),
    "locate": (2, 3, _locate),
    "strcmp": (2, 2, _strcmp),
    "find_in_set": (2, 2, _find_in_set),
    "substring_index": (3, 3, _substring_index),
    "reverse": (1, 1, _reversed),
    "hex": (1, 1, _hex),
    "md5": (1, 1, _of_bytes("text", lambda value: hashlib.md5(value, usedforsecurity=False).hexdigest())),
    "crc32": (1, 1, _of_bytes("int", zlib.crc32)),
    "ascii": (1, 1, _of_bytes("int", lambda value: value[0] if value else 0)),
}
