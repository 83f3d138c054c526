"""The parts of an expression, as sqlglot parses them, compiled."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from sqlglot import exp

from ticdc_spark.config.expressions import arithmetic, collations, compare, conditions, convert, moments
from ticdc_spark.config.expressions.choices import case, chosen, extreme, nullif
from ticdc_spark.config.expressions.columns import column_node
from ticdc_spark.config.expressions.json_paths import extracted, unquoted
from ticdc_spark.config.expressions.nodes import (
    Node,
    Unsupported,
    UnsupportedFunction,
    as_text,
    literal,
    mapped,
    value_of,
)
from ticdc_spark.config.expressions.numbers import cast, number_function
from ticdc_spark.config.expressions.texts import concatenated, text_function, trimmed
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Table

_MAX_BIGINT = 2**64 - 1
_COMPARISONS: dict[type, str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ARITHMETIC: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "DIV", exp.Mod: "%"}
_BITS: dict[type, str] = {
    exp.BitwiseOr: "|",
    exp.BitwiseAnd: "&",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}
_LOGIC: dict[type, Callable[[Node, Node], Node]] = {
    exp.And: conditions.conjunction,
    exp.Or: conditions.disjunction,
    exp.Xor: conditions.exclusive,
    exp.NullSafeEQ: compare.null_safe,
    exp.RegexpLike: conditions.matches,
}
# sqlglot's names that differ from SQL's
_NAMES = {"trunc": "truncate", "tsordstodate": "date", "day_of_month": "dayofmonth", "pow": "power"}
_ALIASES = {
    "ceiling": "ceil",
    "lcase": "lower",
    "ucase": "upper",
    "character_length": "char_length",
    "mid": "substring",
}
_BENIGN = frozenset(
    ("safe", "typed", "coalesce", "_type", "type", "binary", "ignore_nulls", "date_part_boundary", "quoted")
)


class Compiler:
    """Compiles the parts of an expression over a table."""

    def __init__(
        self, table: Table, time_zone: str, note: Callable[[exp.Expression, Node], None] = lambda _part, _node: None
    ) -> None:
        """``note`` is called with each part that is compiled."""
        self._table, self._note = table, note
        self._time_zone = time_zone
        self._columns = {column.name.lower(): column for column in table.columns}

    def node(self, tree: exp.Expression | None) -> Node:
        """Compile a part. Raises: Unsupported, UsageError."""
        if tree is None:
            raise UsageError("a part is missing")
        found = self._compiled(tree)
        self._note(tree, found)
        return found

    def _compiled(self, tree: exp.Expression) -> Node:
        kind = type(tree)
        if kind in _COMPARISONS:
            return compare.comparison(_COMPARISONS[kind], *self._sides(tree))
        if kind in _LOGIC and not tree.args.get("flag"):
            return _LOGIC[kind](*self._sides(tree))
        if kind in _ARITHMETIC:
            return self._arithmetic(tree)
        if kind in _BITS:
            return arithmetic.bits(_BITS[kind], *self._sides(tree))
        special = _SPECIAL.get(kind)
        if special is not None:
            return special(self, tree)
        return self._function(tree)

    def nodes(self, trees: list[exp.Expression]) -> list[Node]:
        """Compile several."""
        return [self.node(tree) for tree in trees]

    def _sides(self, tree: exp.Expression) -> tuple[Node, Node]:
        return self.node(tree.this), self.node(tree.expression)

    def _arithmetic(self, tree: exp.Expression) -> Node:
        sign = _ARITHMETIC[type(tree)]
        left, right = tree.this, tree.expression
        if isinstance(left, exp.Interval) and sign == "+":
            left, right = right, left
        if isinstance(right, exp.Interval) and sign in "+-":
            return self._shifted(left, right, 1 if sign == "+" else -1)
        return arithmetic.arithmetic(sign, self.node(left), self.node(right))

    def _shifted(self, moment: exp.Expression, tree: exp.Expression, sign: int) -> Node:
        unit = tree.args.get("unit")
        if not isinstance(unit, exp.Var):
            raise Unsupported("an INTERVAL without its unit")
        amount = tree.expression if not isinstance(tree, exp.Interval) else tree.this
        count = self.node(amount)
        if isinstance(amount, exp.Literal):  # the parser makes a text of every number
            count = _number(amount.name.strip()) if convert.is_number(amount.name) else count
            if count.kind != "int" and unit.name.upper() != "SECOND":  # a text would be cut, a number rounded
                raise Unsupported(f"INTERVAL {amount.name} {unit.name} (an integer is needed)")
        return moments.shifted(self.node(moment), count, unit.name, sign)

    def _function(self, tree: exp.Expression) -> Node:
        if isinstance(tree, exp.Anonymous):
            name, trees = str(tree.this).lower(), list(tree.expressions)
        elif isinstance(tree, exp.Func):
            name, trees = tree.sql_name().lower(), _arguments(tree)
            name = _NAMES.get(type(tree).__name__.lower(), _NAMES.get(name, name))
        elif isinstance(tree, exp.Query | exp.Star):
            raise Unsupported(tree.sql("mysql"))
        else:
            raise UnsupportedFunction(f"function {type(tree).__name__} ({tree.sql('mysql')})")
        return self.call(_ALIASES.get(name, name.replace("day_of_", "dayof")), trees)

    def call(self, name: str, trees: list[exp.Expression]) -> Node:
        """A function by its name in SQL. Raises: Unsupported that names it."""
        if name not in _KNOWN:
            raise UnsupportedFunction(f"function {name.upper()}")
        args = self.nodes(trees)
        if name == "json_unquote" and len(args) == 1:
            return unquoted(args[0])
        for functions in (text_function, number_function, moments.moment_function):
            found = functions(name, args)
            if found is not None:
                return found
        raise UnsupportedFunction(f"function {name.upper()}", f" with {len(args)} arguments")

    def column(self, tree: exp.Expression) -> Node:
        """A column, which may be qualified by its table."""
        parts = [part.name for part in tree.parts] if isinstance(tree, exp.Column) else []
        if not parts or isinstance(tree.this, exp.Star):
            raise Unsupported("*")
        *qualifiers, name = [part.lower() for part in parts]
        own = [self._table.schema.lower(), self._table.name.lower()]
        column = self._columns.get(name)
        if column is None or (qualifiers and qualifiers != own[-len(qualifiers) :]):
            have = ", ".join(one.name for one in self._table.columns)
            raise UsageError(f"there is no column {'.'.join(parts)!r}; the table has {have}")
        if column.virtual:
            raise UsageError(f"column {column.name!r} is a virtual generated column, whose values no row has")
        return column_node(column, self._time_zone)

    def cast(self, tree: exp.Expression) -> Node:
        """CAST and CONVERT, also ``DATE '…'`` and BINARY."""
        to = tree.args["to"]
        what = to.this.name.lower() if isinstance(to.this, exp.DataType.Type) else str(to.this).lower()
        if what == "character_set":
            if str(to.args.get("kind")).lower() not in ("utf8mb4", "utf8"):
                raise Unsupported(f"CONVERT USING {to.args.get('kind')}")
            if not to.expressions:
                return as_text(self.node(tree.this))
            what = "char"
        node = self.node(tree.this)
        params = [int(param.name) for param in to.expressions]
        if what == "timestamptz" and not params:
            params = [6]  # TIMESTAMP '…' keeps all its digits
        found = cast(node, what, params)
        if found.literal:
            value_of(found)  # a fraction that is lost is an error now, not of every row
        return found

    def is_value(self, tree: exp.Expression) -> Node:
        """IS TRUE, FALSE, NULL and UNKNOWN."""
        value = tree.expression
        if not isinstance(value, exp.Null | exp.Boolean):
            raise Unsupported(f"IS {value.sql('mysql')}")
        return conditions.is_value(self.node(tree.this), None if isinstance(value, exp.Null) else bool(value.this))

    def between(self, tree: exp.Expression) -> Node:
        """BETWEEN."""
        if tree.args.get("symmetric"):
            raise Unsupported("BETWEEN SYMMETRIC")
        node, low, high = (self.node(tree.args[name]) for name in ("this", "low", "high"))
        return compare.between(node, low, high)

    def contained(self, tree: exp.Expression) -> Node:
        """IN (…)."""
        if not tree.expressions:
            raise Unsupported("IN with a subquery")
        return compare.contained(self.node(tree.this), self.nodes(tree.expressions))

    def like(self, tree: exp.Expression, escape: str = "\\") -> Node:
        """LIKE and NOT LIKE."""
        found = conditions.like(*self._sides(tree), escape)
        return conditions.negation(found) if tree.args.get("negate") else found

    def escaped(self, tree: exp.Expression) -> Node:
        """LIKE … ESCAPE."""
        escape = tree.expression
        if not isinstance(tree.this, exp.Like) or not isinstance(escape, exp.Literal) or len(escape.name) > 1:
            raise Unsupported(f"ESCAPE {escape.sql('mysql')}")
        return self.like(tree.this, escape.name)

    def collated(self, tree: exp.Expression) -> Node:
        """COLLATE."""
        node = as_text(self.node(tree.this))
        collation = collations.Collation(tree.expression.name.lower(), explicit=True)
        return mapped(node, "text", lambda value: value, collation=collation)

    def chosen_by_case(self, tree: exp.Expression) -> Node:
        """CASE."""
        ifs = tree.args["ifs"]
        subject = tree.args.get("this")
        tests = self.nodes([one.this for one in ifs])
        if subject is not None:
            node = self.node(subject)
            tests = [compare.comparison("=", node, test) for test in tests]
        default = tree.args.get("default")
        values = self.nodes([one.args["true"] for one in ifs])
        return case(tests, values, self.node(default) if default is not None else None)

    def chosen_by_if(self, tree: exp.Expression) -> Node:
        """IF(…)."""
        default = tree.args.get("false")
        return case([self.node(tree.this)], [self.node(tree.args["true"])], self.node(default))


def _arguments(tree: exp.Expression) -> list[exp.Expression]:
    """The arguments of a function in their written order, without the ones that sqlglot added."""
    found: list[exp.Expression] = []
    for name, value in tree.args.items():
        if isinstance(value, list):
            found += value
        elif isinstance(value, exp.Expression):
            found.append(value)
        elif value and name not in _BENIGN:
            raise UnsupportedFunction(f"function {type(tree).__name__}", f" ({name})")
    return found


def _number(text: str) -> Node:
    if "e" in text.lower():
        return literal("real", float(text))
    if "." in text or int(text) > _MAX_BIGINT:
        return literal("decimal", Decimal(text), scale=len(text.partition(".")[2]))
    return literal("int", int(text), unsigned=int(text) >= 2**63)


def _literal(tree: exp.Expression) -> Node:
    return literal("text", tree.name) if tree.args["is_string"] else _number(tree.name)


def _binary(digits: str, base: int) -> Node:
    size = -(-len(digits) // (2 if base == 16 else 8))
    return literal("bits", int(digits, base) if digits else 0, unsigned=True, size=size)


def _introduced(compiler: Compiler, tree: exp.Expression) -> Node:
    if str(tree.this).lower() not in ("_utf8mb4", "_utf8"):
        raise Unsupported(f"{tree.this}'…'")
    return compiler.node(tree.expression)


def _trim(compiler: Compiler, tree: exp.Expression) -> Node:
    what = tree.args.get("expression")
    side = str(tree.args.get("position") or "BOTH").upper()
    return trimmed(compiler.node(tree.this), compiler.node(what) if what is not None else None, side)


def _located(compiler: Compiler, tree: exp.Expression) -> Node:
    parts = [tree.args[name] for name in ("substr", "this", "position") if tree.args.get(name) is not None]
    return compiler.call("locate", parts)


def _length(compiler: Compiler, tree: exp.Expression) -> Node:
    binary = tree.args.get("binary")
    if isinstance(binary, exp.Expression):
        raise UnsupportedFunction("function CHAR_LENGTH", " with 2 arguments")
    return compiler.call("length" if binary else "char_length", [tree.this])


def _extracted(compiler: Compiler, tree: exp.Expression) -> Node:
    if tree.expressions:
        raise UnsupportedFunction("function JSON_EXTRACT", " with several paths")
    return extracted(compiler.node(tree.this), tree.expression)


def _negative(compiler: Compiler, tree: exp.Expression) -> Node:
    inner = tree.this
    if isinstance(inner, exp.Literal) and inner.name == str(2**63):
        return literal("int", -(2**63))
    return arithmetic.negative(compiler.node(inner))


_SPECIAL: dict[type, Callable[[Compiler, exp.Expression], Node]] = {
    exp.Paren: lambda c, tree: c.node(tree.this),
    exp.Column: Compiler.column,
    exp.Literal: lambda _, tree: _literal(tree),
    exp.Boolean: lambda _, tree: literal("int", int(bool(tree.this))),
    exp.Null: lambda _c, _tree: literal("null", None),
    exp.HexString: lambda _, tree: _binary(tree.name, 16),
    exp.BitString: lambda _, tree: _binary(tree.name, 2),
    exp.National: lambda _, tree: literal("text", tree.name),
    exp.Introducer: _introduced,
    exp.Not: lambda c, tree: conditions.negation(c.node(tree.this)),
    exp.Neg: _negative,
    exp.BitwiseNot: lambda c, tree: arithmetic.inverted(c.node(tree.this)),
    exp.Is: Compiler.is_value,
    exp.Between: Compiler.between,
    exp.In: Compiler.contained,
    exp.Like: Compiler.like,
    exp.Escape: Compiler.escaped,
    exp.Collate: Compiler.collated,
    exp.Cast: Compiler.cast,
    exp.Case: Compiler.chosen_by_case,
    exp.If: Compiler.chosen_by_if,
    exp.Coalesce: lambda c, tree: chosen(c.nodes([tree.this, *tree.expressions])),
    exp.Nullif: lambda c, tree: nullif(c.node(tree.this), c.node(tree.expression)),
    exp.Greatest: lambda c, tree: extreme(c.nodes([tree.this, *tree.expressions]), largest=True),
    exp.Least: lambda c, tree: extreme(c.nodes([tree.this, *tree.expressions]), largest=False),
    exp.Concat: lambda c, tree: concatenated(c.nodes(tree.expressions)),
    exp.Trim: _trim,
    exp.StrPosition: _located,
    exp.Length: _length,
    exp.DateAdd: lambda c, tree: c._shifted(tree.this, tree, 1),
    exp.DateSub: lambda c, tree: c._shifted(tree.this, tree, -1),
    exp.JSONExtract: lambda c, tree: _extracted(c, tree),
    exp.JSONExtractScalar: lambda c, tree: unquoted(_extracted(c, tree)),
}
_KNOWN = frozenset(
    (
        "length",
        "octet_length",
        "char_length",
        "lower",
        "upper",
        "concat",
        "concat_ws",
        "substring",
        "left",
        "right",
        "replace",
        "locate",
        "strcmp",
        "find_in_set",
        "substring_index",
        "reverse",
        "hex",
        "md5",
        "crc32",
        "ascii",
        "round",
        "truncate",
        "power",
        "abs",
        "sign",
        "ceil",
        "floor",
        "sqrt",
        "datediff",
        "date",
        "year",
        "quarter",
        "month",
        "day",
        "dayofmonth",
        "dayofweek",
        "dayofyear",
        "weekday",
        "hour",
        "minute",
        "second",
        "microsecond",
        "json_unquote",
    )
)
"""Functions that are called by name. All others have their own syntax."""
