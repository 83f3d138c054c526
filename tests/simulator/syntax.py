"""Replaces one node of a syntax tree, which is given as code."""

from __future__ import annotations

import ast
import re
from copy import deepcopy
from typing import TypeAlias

Nodes: TypeAlias = list[ast.AST]
_ANY = "Expr(value=Constant(value=Ellipsis))"


def replaced(function: ast.FunctionDef, old: str, new: str) -> ast.FunctionDef:
    """The function with ``new`` in the place of ``old``, which it must have once.

    Both are an expression, keyword arguments of a call that follow each other (``name=value``), or a statement. One
    that ends in ``:`` is meant with whatever it has inside, and keeps that. As a statement of ``new``, ``...`` is what
    was there.

    Raises: AssertionError
    """
    function = deepcopy(function)
    wanted, instead = _parsed(old), _parsed(new)
    if isinstance(wanted[0], ast.expr) and not isinstance(instead[0], ast.expr):
        wanted = [ast.Expr(wanted[0])]
    elif isinstance(wanted[0], ast.stmt) and isinstance(instead[0], ast.expr):
        instead = [ast.Expr(instead[0])]
    count = 0
    for node in [*ast.walk(function)]:
        for name, field in ast.iter_fields(node):
            held = [*field] if isinstance(field, list) else [field]
            for at in range(len(held) - len(wanted) + 1):
                found = held[at : at + len(wanted)]
                if not all(map(_same, found, wanted)):
                    continue
                count += 1
                if count > 1:
                    continue
                made = [part for one in deepcopy(instead) for part in _filled(one, found[0])]
                if isinstance(field, list):
                    field[at : at + len(wanted)] = made
                else:
                    setattr(node, name, made[0])
    assert count == 1, f"{function.name}: {old!r} stands there {count} times"
    return ast.fix_missing_locations(function)


def _parsed(code: str) -> Nodes:
    code = code.strip().removeprefix("el") if code.startswith("elif ") else code.strip()
    lines = code.splitlines()
    code = "\n".join([*lines[:-1], lines[-1] + (" ..." if lines[-1].endswith(":") else "")])
    try:
        return [ast.parse(code, mode="eval").body]
    except SyntaxError:
        pass
    if not re.match(r"\w+=[^=]", code):
        return [*ast.parse(code).body]
    call = ast.parse(f"_({code})", mode="eval").body
    assert isinstance(call, ast.Call) and call.keywords and not call.args, code
    return [*call.keywords]


def _is_open(statement: ast.AST) -> bool:
    """Whether a statement is given without what it has inside."""
    return isinstance(statement, ast.stmt) and [ast.dump(one) for one in getattr(statement, "body", [])] == [_ANY]


def _same(found: object, wanted: ast.AST) -> bool:
    if not isinstance(found, type(wanted)):
        return False
    if _is_open(wanted):
        found = deepcopy(found)
        found.body, found.orelse = wanted.body, wanted.orelse  # type: ignore[attr-defined]
    return ast.dump(found) == ast.dump(wanted)


def _filled(made: ast.AST, was: ast.AST) -> Nodes:
    """``made`` in which ``...`` is what was there."""
    if ast.dump(made) == _ANY:
        return [was]
    if _is_open(made):
        made.body, made.orelse = was.body, was.orelse  # type: ignore[attr-defined]
    return [made]
