"""Functions of numbers, and CAST."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from ticdc_spark.config.expressions import convert
from ticdc_spark.config.expressions.collations import DEFAULT
from ticdc_spark.config.expressions.moments import to_second
from ticdc_spark.config.expressions.nodes import (
    Node,
    Unsupported,
    as_bytes,
    as_decimal,
    as_exact,
    as_moment,
    as_number,
    as_real,
    as_text,
    as_time,
    in_range,
    joined,
    mapped,
    value_of,
)
from ticdc_spark.errors import MessageError

_MASK = 2**64 - 1


def number_function(name: str, args: list[Node]) -> Node | None:
    """A function of numbers by its name in SQL, lower case; ``None``: there is none. Raises: Unsupported."""
    if name in ("round", "truncate") and len(args) < 3:
        return _rounded(args, cut=name == "truncate")
    if name in ("pow", "power"):
        return joined([as_real(node) for node in args], "real", _power)
    if len(args) != 1 or name not in ("abs", "sign", "ceil", "floor", "sqrt"):
        return None
    number = as_number(args[0])
    if number.kind == "null":
        return number
    if name == "sqrt":
        return mapped(as_real(number), "real", lambda value: math.sqrt(value) if value >= 0 else None)
    if name == "abs":
        return _absolute(number)
    if name == "sign":
        return mapped(number, "int", lambda value: (value > 0) - (value < 0))
    if number.kind == "int":
        return number
    if number.kind == "real":
        return mapped(number, "real", lambda value: float(math.ceil(value) if name == "ceil" else math.floor(value)))
    mode = ROUND_CEILING if name == "ceil" else ROUND_FLOOR
    return mapped(number, "int", lambda value: int(value.to_integral_value(mode)))


def cast(node: Node, to: str, params: list[int]) -> Node:
    """``CAST``; ``to``: the type's name, lower case. Raises: Unsupported."""
    match to:
        case "bigint" | "ubigint":
            return _whole(node, unsigned=to == "ubigint")
        case "decimal":
            return _decimal(node, *(params + [10, 0][len(params) :]))
        case "double" | "float":
            return as_real(node)
        case "date":
            return mapped(as_moment(node), "date", lambda value: value[:10] + convert.MIDNIGHT)
        case "datetime" | "timestamp" | "timestamptz":
            digits = params[0] if params else 0
            moment = as_moment(node)
            if digits < (moment.scale if node.kind not in ("text", "int") else 6):
                moment = mapped(moment, "datetime", lambda value: _cut_moment(value, digits))
            return mapped(moment, "datetime", lambda value: value, scale=digits)
        case "time":
            digits = params[0] if params else 0
            return mapped(as_time(node), "time", lambda value: _cut_time(value, digits), scale=digits)
        case "char" | "varchar" | "nchar" | "text":
            text = as_text(node)
            return mapped(text, "text", lambda value: value[: params[0]] if params else value, collation=DEFAULT)
        case "binary" | "varbinary":
            size = params[0] if params else None
            return mapped(
                as_bytes(node), "bytes", lambda value: value if size is None else value[:size].ljust(size, b"\0")
            )
    raise Unsupported(f"CAST to {to.upper()}")


def _cut_moment(moment: str, digits: int) -> str:
    if moment[20 + digits :].strip("0"):
        raise _cut(moment)
    return moment


def _cut_time(micros: int, digits: int) -> int:
    if micros % 10 ** (6 - digits):
        raise _cut(f"a TIME of {micros / 10**6} s")
    return micros


def _cut(what: str) -> MessageError:
    """MySQL and TiDB round, and MariaDB cuts."""
    return MessageError(f"{what} has more digits after the point than CAST keeps, as in CAST(… AS TIME(6))")


def _rounded(args: list[Node], *, cut: bool) -> Node:
    number = as_number(args[0])
    digits = 0
    if len(args) > 1:
        if not args[1].literal or args[1].kind != "int":
            raise Unsupported("ROUND and TRUNCATE to digits that are not written as a number")
        digits = int(value_of(args[1]))
    if number.kind == "null":
        return number
    if number.kind == "real":
        shift = 10.0 ** max(min(digits, 308), -308)
        return mapped(number, "real", lambda value: _in_float(value, shift, cut))
    if number.kind == "int" and digits >= 0:
        return number
    scale = min(max(digits, 0), number.scale)

    def rounded(value: Decimal) -> Decimal:
        return convert.truncate(value, digits) if cut else convert.round_half_up(value, digits)

    found = mapped(as_decimal(number), "decimal", rounded, scale=scale)
    if number.kind == "int" or scale == 0:
        return mapped(found, "int", int, unsigned=number.unsigned) if number.kind == "int" else found
    return found


def _in_float(value: float, shift: float, cut: bool) -> float:
    scaled = value * shift
    if math.isinf(scaled):
        return value
    return (math.trunc(scaled) if cut else round(scaled)) / shift


def _absolute(number: Node) -> Node:
    if number.kind == "int":
        unsigned = number.unsigned
        return mapped(number, "int", lambda value: in_range(abs(int(value)), unsigned=unsigned), unsigned=unsigned)
    if number.kind == "decimal":
        return mapped(number, "decimal", convert.MATH.abs, scale=number.scale)
    return mapped(number, number.kind, abs)


def _power(base: float, exponent: float) -> float:
    try:
        found: Any = base**exponent
    except (OverflowError, ZeroDivisionError) as error:
        raise MessageError("a result is out of the range of DOUBLE") from error
    if isinstance(found, complex):
        raise MessageError("a result is out of the range of DOUBLE")
    return float(found)


def _whole(node: Node, *, unsigned: bool) -> Node:
    if node.kind in ("text", "bytes"):
        number = mapped(as_text(node), "int", convert.text_to_integer)
        high = _MASK if unsigned else 2**63 - 1
        return mapped(
            number, "int", lambda value: _wrapped(min(max(value, -(2**63)), high), unsigned), unsigned=unsigned
        )
    number = as_number(to_second(node) if node.kind in ("datetime", "time") and node.scale else node)
    if number.kind != "int":
        most = _MASK if unsigned else 2**63 - 1
        number = mapped(number, "int", lambda value: min(max(convert.nearest(value), -(2**63)), most))
    return mapped(number, "int", lambda value: _wrapped(int(value), unsigned), unsigned=unsigned)


def _wrapped(value: int, unsigned: bool) -> int:
    value &= _MASK
    return value if unsigned or value < 2**63 else value - 2**64


def _decimal(node: Node, precision: int, scale: int) -> Node:
    most = Decimal(10) ** (precision - scale) - Decimal(1).scaleb(-scale)

    def fitted(value: Decimal) -> Decimal:
        return convert.round_half_up(min(max(value, -most), most), scale)

    return mapped(as_exact(node), "decimal", fitted, scale=scale)
