"""SQL expressions over the columns of a table, compiled to functions of a row.

Unsupported SQL and unknown columns are errors when an expression is compiled. So they never count silently as false.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from ticdc_spark.config.expressions.nodes import Evaluate, Unsupported, UnsupportedFunction
from ticdc_spark.config.expressions.trees import Compiler
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Row, Table

_LEAVES = (TokenType.NUMBER, TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER)
_NOT_BEHIND_A_COLUMN = (TokenType.L_PAREN, TokenType.STRING)
"""A word before one of these is a function or a type: ``DATE '…'``."""
_WORDS = frozenset(("BOTH", "LEADING", "TRAILING", "SIGNED", "UNSIGNED", "UNKNOWN", "ESCAPE", "DIV", "MOD"))
"""SQL keywords that the tokenizer takes for names."""
_ORDERS = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_CLASS = re.compile(r" (?:in \w+(?=\. Line)|for <class '[\w.]*'>)")
"""The parser's name of a function, in its errors."""


def compile_condition(sql: str, table: Table, *, time_zone: str, where: str, only_one: bool = True) -> Evaluate:
    """Compile a condition.

    ``only_one``: only 1 counts as true, as in TiCDC. Otherwise everything but 0 does, as in SQL: ``flags & 4``.
    ``where`` is how errors begin. Raises: UsageError for SQL that cannot be read, a column that the table does not
    have, an unsupported function or kind of value, and an expression that is no condition.
    """
    compiler = Compiler(table, time_zone)
    try:
        node = compiler.node(parse_expression(sql))
        if node.kind not in ("int", "null"):
            raise Unsupported(f"a {node.kind} value as a condition (a number is needed: compare it with something)")
    except (Unsupported, UsageError) as error:
        if isinstance(error, UnsupportedFunction):
            written = _written_call(sql, lambda call: compiler.node(parse_expression(call)), UnsupportedFunction)
            reason = f"{f'function {written}' if written else error.function}{error.detail} is not supported"
        else:
            reason = str(error) if isinstance(error, UsageError) else f"{error} is not supported"
        raise UsageError(f"{where} {sql!r} for `{table.schema}`.`{table.name}`: {reason}") from error
    except RecursionError as error:
        raise UsageError(f"{where}: the expression is nested too deep") from error
    of = node.of

    def holds(row: Row) -> bool:
        try:
            value = of(row)
        except ArithmeticError as error:
            raise MessageError(f"{where} {sql!r}: a number is too large") from error
        return value == 1 if only_one else bool(value)

    return holds


def parse_expression(sql: str) -> exp.Expression:
    """Parse one expression. Raises: UsageError."""
    if "/*!" in sql or "/*+" in sql:
        raise UsageError("comments with SQL in them are not supported")
    try:
        statements = sqlglot.parse(f"SELECT {sql}", read="mysql")
    except SqlglotError as error:
        written = _written_call(sql, lambda call: sqlglot.parse(f"SELECT {call}", read="mysql"), SqlglotError)
        reason = _CLASS.sub("", str(error).splitlines()[0]).strip()
        raise UsageError(f"it cannot be read: {f'function {written}: ' if written else ''}{reason}") from error
    statement = statements[0] if len(statements) == 1 else None
    if not isinstance(statement, exp.Select):
        raise UsageError("it must be one expression")
    others = [name for name, value in statement.args.items() if value and name != "expressions"]
    if others or len(statement.expressions) != 1:
        raise UsageError("it must be one expression" + (f", without {others[0].upper()}" if others else ""))
    found: exp.Expression = statement.expressions[0]
    _refuse_losses(sql, found)
    _refuse_other_ranks(found)
    return found


def columns_of(tree: exp.Expression) -> frozenset[str]:
    """The names of the columns in an expression, in lower case."""
    return frozenset(column.name.casefold() for column in tree.find_all(exp.Column))


def depends_on_server(sql: str) -> bool:
    """Whether TiDB, MySQL and MariaDB may find different values: their regular expressions and quotients differ."""
    return parse_expression(sql).find(exp.RegexpLike, exp.Div) is not None


def with_columns(sql: str, instead: Mapping[str, str]) -> str:
    """An expression with some columns replaced by other SQL. ``instead``: by column name in lower case."""
    tokens = Dialect.get_or_raise("mysql").tokenize(sql)
    parts, at = [], 0
    for number, token in enumerate(tokens):
        after = tokens[number + 1].token_type if number + 1 < len(tokens) else None
        is_name = token.token_type not in (TokenType.STRING, TokenType.NUMBER)
        if is_name and token.text.casefold() in instead and after not in (*_NOT_BEHIND_A_COLUMN, TokenType.DOT):
            while number > 1 and tokens[number - 1].token_type is TokenType.DOT:
                number -= 2  # its table
            parts += [sql[at : tokens[number].start], instead[token.text.casefold()]]
            at = token.end + 1
    return "".join([*parts, sql[at:]])


def _written_call(sql: str, read: Callable[[str], object], fault: type[Exception]) -> str:
    """The name, as written, of the innermost function call that alone raises ``fault``; ``""``: none does.

    The parser has one name for functions that do the same, so its trees do not show which one was written.
    """
    for name, call in sorted(_calls(sql), key=lambda one: len(one[1])):
        try:
            read(call)
        except fault:
            return name
        except (Unsupported, UsageError, SqlglotError):
            continue
    return ""


def _calls(sql: str) -> Iterator[tuple[str, str]]:
    """Every ``NAME(…)`` in an expression: its name and its text."""
    try:
        tokens = Dialect.get_or_raise("mysql").tokenize(sql)
    except SqlglotError:
        return
    open_calls: list[Token | None] = []
    for before, token in zip_longest([None, *tokens], tokens):
        if token is None:
            return
        if token.token_type is TokenType.L_PAREN:
            is_call = before is not None and before.text.isidentifier()
            open_calls.append(before if is_call else None)
        elif token.token_type is TokenType.R_PAREN and open_calls:
            name = open_calls.pop()
            if name is not None:
                yield name.text.upper(), sql[name.start : token.end + 1]


def _refuse_losses(sql: str, tree: exp.Expression) -> None:
    """Refuse SQL of which the parser ignored a part, as it does with arguments that a function does not have."""
    tokens = Dialect.get_or_raise("mysql").tokenize(f"SELECT {sql}")
    written = Counter(
        _unsigned(token.text.lower())
        for token, after in zip_longest(tokens, tokens[1:])
        if token.token_type in _LEAVES and not token.text.startswith("$") and not (after and after.text in ("(", "'"))
    )
    leaves = (exp.Literal, exp.Identifier, exp.HexString, exp.BitString, exp.National, exp.Var, exp.Introducer)
    read = Counter(_unsigned(str(node.this).lower()) for node in tree.find_all(*leaves))
    lost = [text for text in written - read if text.upper() not in _WORDS]
    if lost:
        raise UsageError(f"{lost[0]!r} is not understood there")


def _refuse_other_ranks(tree: exp.Expression) -> None:
    """Refuse ``a = b < c``. In SQL it is ``(a = b) < c``, but the parser ranks ``=`` below ``<``.

    Behind ``<=>`` the parser adds parentheses, so there the written ones cannot be told from its own.
    """
    for node in tree.find_all(exp.EQ, exp.NEQ, exp.NullSafeEQ):
        right = node.expression.unnest() if isinstance(node, exp.NullSafeEQ) else node.expression
        if isinstance(right, _ORDERS):
            way = "write it in front" if isinstance(node, exp.NullSafeEQ) else "write parentheses"
            raise UsageError(f"a comparison behind another one is not supported there ({way})")


def _unsigned(text: str) -> str:
    """``INTERVAL -3 DAY`` has the sign in its literal."""
    return text[1:] if len(text) > 1 and text[0] == "-" else text
