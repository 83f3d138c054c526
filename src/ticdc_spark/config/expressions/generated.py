"""Expressions of generated columns, as DDL and SHOW CREATE TABLE write them."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from ticdc_spark.config.expressions.compile import columns_of, depends_on_server, parse_expression
from ticdc_spark.config.expressions.nodes import Node, Unsupported
from ticdc_spark.config.expressions.trees import Compiler
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Table

_COMPARING = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Between, exp.In, exp.Nullif),
    *(exp.Greatest, exp.Least),
)
"""What compares texts by their collations, if two of its parts are texts."""
_OF_TEXTS = (exp.Like, exp.Escape, exp.StrPosition, exp.Collate, exp.Xor)
"""What always does, or differs for decimals."""
_OF_TEXTS_BY_NAME = frozenset(("strcmp", "find_in_set"))
"""The same, for functions that the parser does not know."""
_CASTS = {
    exp.DataType.Type.BIGINT: ("int", "decimal", "null"),
    exp.DataType.Type.DECIMAL: ("int", "decimal", "null"),
    exp.DataType.Type.DATE: ("date", "datetime", "null"),
    exp.DataType.Type.CHAR: ("int", "decimal", "text", "date", "datetime", "null"),
    exp.DataType.Type.CHARACTER_SET: ("int", "decimal", "text", "date", "datetime", "null"),
}
"""The types to which all servers cast alike, with the kinds of values."""
_BY_SESSION = ('"', "\\", "||", "/*", "--", "#")
"""The sql_mode decides what the first three mean, and the server's version what a comment does."""
_TEXTS = ("text", "names", "json")


@lru_cache(1024)
def names_of(sql: str) -> frozenset[str]:
    """The columns that an expression names, in lower case. Raises: UsageError if it cannot be read"""
    return columns_of(_parsed(sql))


def is_same(one: str, other: str) -> bool:
    """Whether two expressions differ by quotes, parentheses and letter case of names only."""
    return one == other or _plain(_parsed(one)) == _plain(_parsed(other))


def compile_generated(sql: str, table: Table) -> Node:
    """Compile an expression.

    Raises: UsageError for an expression that another server may evaluate differently, or that cannot be evaluated
    """
    if depending := [mark for mark in _BY_SESSION if mark in sql]:
        raise UsageError(f"{depending[0]} depends on the session or the server")
    tree = _parsed(sql)
    if depends_on_server(sql):
        raise UsageError("it has REGEXP or a quotient")
    nodes: dict[int, Node] = {}
    try:
        node = Compiler(table, "UTC", lambda part, found: nodes.update({id(part): found})).node(tree)
    except (Unsupported, RecursionError) as error:
        raise UsageError(f"it cannot be evaluated: {error}") from error
    if any(found.kind == "real" for found in nodes.values()):
        raise UsageError("it has a number that is no integer and no decimal")
    for part in tree.find_all(exp.Expression):
        if reason := _differs(part, nodes, tree):
            raise UsageError(f"{part.sql('mysql')} {reason}")
    return node


def _differs(part: exp.Expression, nodes: dict[int, Node], tree: exp.Expression) -> str:
    """Why servers may evaluate a part differently; ``""``: they do not."""
    is_named = isinstance(part, exp.Anonymous) and part.name.lower() in _OF_TEXTS_BY_NAME
    if isinstance(part, _OF_TEXTS) or is_named:
        return "depends on a collation"
    if isinstance(part, _COMPARING) or (isinstance(part, exp.Case) and part.args.get("this") is not None):
        texts = [one for one in _operands(part) if id(one) in nodes and nodes[id(one)].kind in _TEXTS]
        if len(texts) > 1:
            return "depends on a collation"
    if isinstance(part, exp.Column) and part.args.get("table") is not None:
        return "names its table, which a RENAME changes"
    if isinstance(part, exp.Cast) and nodes[id(part.this)].kind not in _CASTS.get(part.to.this, ()):
        return "is cast differently by servers"
    if isinstance(part, exp.Lower | exp.Upper) and "turkish" in str(nodes[id(part.this)].collation):
        return "depends on a collation"
    if isinstance(part, exp.Replace) and not all(isinstance(one, exp.Literal) for one in _operands(part)[1:]):
        return "may have NULL as its second or third argument, for which servers differ"
    if isinstance(part, exp.Round | exp.Trunc) and part.args.get("decimals") is not None and part is not tree.unnest():
        return "has digits that servers show differently"
    return ""


def _operands(part: exp.Expression) -> list[object]:
    """The parts that a comparison has: of CASE, also what stands behind WHEN."""
    return [
        one.this if isinstance(part, exp.Case) and isinstance(one, exp.If) else one for one in part.iter_expressions()
    ]


def _parsed(sql: str) -> exp.Expression:
    return parse_expression(_without_introducers(sql))


def _plain(tree: exp.Expression) -> object:
    """The tree without what only its spelling has."""
    root = exp.Paren(this=tree.copy())
    for name in [*root.find_all(exp.Identifier)]:
        name.replace(exp.to_identifier(name.name.lower(), quoted=False))
    for parentheses in [*root.this.find_all(exp.Paren)]:
        parentheses.replace(parentheses.this)
    return root.this


def _without_introducers(sql: str) -> str:
    """The same without ``_utf8mb4`` in front of literals, which servers add."""
    try:
        tokens = Dialect.get_or_raise("mysql").tokenize(sql)
    except SqlglotError as error:
        raise UsageError(f"it cannot be read: {error}") from error
    parts, at = [], 0
    for token in tokens:
        if token.token_type is TokenType.INTRODUCER and token.text.lower() in ("_utf8mb4", "_utf8", "_utf8mb3"):
            parts.append(sql[at : token.start])
            at = token.end + 1
    return "".join([*parts, sql[at:]])
