"""Conversions of numbers. They go through text: every number has one, and Spark's casts of text round correctly.

Half rounds away from zero, except a FLOAT or DOUBLE that becomes an integer, where it rounds to the even neighbour.
"""

import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType
from ticdc_spark.mysql import canonical_decimal, canonical_float, integer_range
from ticdc_spark.sinks.conversions.steps import (
    KEEP,
    Cell,
    Step,
    approximate,
    cast,
    matches,
    refused,
    text_of,
)
from ticdc_spark.spark.types import LakeType

_NUMBER = "[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_PADDED = re.compile(f" *({_NUMBER}) *")
_WIDE = Context(prec=800, rounding=ROUND_HALF_UP)
_LARGEST_32 = 3.4028234663852886e38
_WHOLE = "decimal(20,0)"


def integer_text(lake: LakeType) -> Step:
    """The text of an integer, a YEAR or a BIT."""
    return Step("CAST(CAST({x} AS int) AS string)" if lake.arrow == "bool" else "CAST({x} AS string)", _integer_text)


def _integer_text(cell: Cell) -> Cell:
    return str(int(cell))


def decimal_text(lake: LakeType) -> Step:
    """The text of a DECIMAL, with all digits of its scale."""
    return KEEP if lake.arrow == "string" else Step("CAST({x} AS string)", text_of)


def user_number() -> Step:
    """User-written text that is a number; spaces around it are ignored."""
    return Step(f"CASE WHEN {matches(f' *{_NUMBER} *')} THEN trim({{x}}) END", _trimmed)


def _trimmed(cell: Cell) -> Cell:
    found = _PADDED.fullmatch(text_of(cell))
    if found is None:
        raise MessageError(f"{cell!r:.80} is no number")
    return found.group(1)


def widen_float() -> Step:
    """A FLOAT as the double of the same value: 0.1 becomes 0.10000000149011612."""
    return cast("double", lambda cell: canonical_float(repr(_single(float(cell))), 64))


def _single(number: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return found


def float_text(bits: int) -> Step:
    """The shortest text that reads back to a float, without an exponent, as TiDB writes it (MySQL uses exponents)."""
    # With that many digits, each text is a distinct number, so a shorter one is among them; not for the smallest ones.
    kind, least, most, normal = ("float", 6, 9, "1.1754944E-38D") if bits == 32 else ("double", 15, 17, "2.3E-308D")
    wide = "CAST({x} AS double)"

    def shortest(first: int) -> str:
        tries = ", ".join(f"format_string('%.{digits - 1}e', {wide})" for digits in range(first, most + 1))
        return f"try_element_at(filter(array({tries}), f -> try_cast(f AS {kind}) = {{x}}), 1)"

    scientific = f"CASE WHEN abs({wide}) >= {normal} OR {{x}} = 0 THEN {shortest(least)} ELSE {shortest(1)} END"
    # sign, digits and exponent of '-1.25e-07'
    digits = "trim(TRAILING '0' FROM replace(replace(split(s, 'e')[0], '-', ''), '.', ''))"
    parts = (
        f"transform(array({scientific}), s -> struct(CASE WHEN s LIKE '-%' THEN '-' ELSE '' END AS sign, "
        f"{digits} AS digits, CAST(split(s, 'e')[1] AS int) AS e))"
    )
    fixed = (
        "concat(p.sign, CASE WHEN p.digits = '' THEN '0' "
        "WHEN p.e < 0 THEN concat('0.', repeat('0', -p.e - 1), p.digits) "
        "WHEN p.e >= length(p.digits) - 1 THEN concat(p.digits, repeat('0', p.e + 1 - length(p.digits))) "
        "ELSE concat(substring(p.digits, 1, p.e + 1), '.', substring(p.digits, p.e + 2)) END)"
    )
    small = f"element_at(transform({parts}, p -> {fixed}), 1)"
    # Java 17 does not always write these with the nearest digits; as integers they are exact
    whole = f"CAST(CAST({wide} AS bigint) AS {_WHOLE})"
    rounded = ", ".join(
        f"CASE WHEN CAST(CAST(round({whole}, {-zeros}) AS string) AS {kind}) = {{x}} "
        f"THEN CAST(CAST(round({whole}, {-zeros}) AS {_WHOLE}) AS string) END"
        for zeros in range(18, -1, -1)
    )
    large = f"abs({wide}) >= 9007199254740992D AND abs({wide}) < 9.223372036854775807E18D"
    return Step(f"CASE WHEN {large} THEN coalesce({rounded}) WHEN {{x}} IS NOT NULL THEN {small} END", _fixed)


def _fixed(cell: Cell) -> Cell:
    return format(Decimal(text_of(cell)), "f")


def to_integer(after: ColumnType, lake: LakeType, *, bits: bool = False) -> Step:
    """From a number's text; half rounds away from zero. ``bits``: BIT(64) takes the bits of a negative number."""
    bits = bits and after.name == "bit" and after.length == 64
    return _within(after, lake, f"try_cast({{x}} AS {_WHOLE})", partial(_integer, after, bits), bits=bits)


def _integer(after: ColumnType, bits: bool, cell: Cell) -> Cell:
    number = int(Decimal(text_of(cell)).to_integral_value(ROUND_HALF_UP, _WIDE))
    if bits and -(1 << 63) <= number < 0:
        number += 1 << 64
    return _ranged(after, number)


def float_to_integer(after: ColumnType, lake: LakeType) -> Step:
    """From a FLOAT or DOUBLE; half rounds to the even neighbour."""
    top = "9.223372036854775808E18D"
    rounded = "rint(CAST({x} AS double))"
    # through bigint, since a double's text has fewer digits than its integer value
    whole = (
        f"CASE WHEN {rounded} >= -{top} AND {rounded} < {top} "
        f"THEN CAST(CAST({rounded} AS bigint) AS {_WHOLE}) "
        f"WHEN {rounded} >= {top} AND {rounded} < 1.8446744073709551616E19D THEN "
        f"CAST(CAST(CAST({rounded} - {top} AS bigint) AS {_WHOLE}) + CAST('9223372036854775808' AS {_WHOLE}) "
        f"AS {_WHOLE}) END"
    )
    return _within(after, lake, whole, lambda cell: _ranged(after, round(float(cell))))


def _within(
    after: ColumnType, lake: LakeType, whole: str, python: Callable[[Cell], Cell], *, bits: bool = False
) -> Step:
    low, high = integer_range(after) or (-(10**20) + 1, 10**20 - 1)
    value = f"CAST({{v}} AS {lake.spark})" if lake.arrow != "bool" else "({v} <> 0)"
    checked = f"CASE WHEN {{v}} BETWEEN CAST('{low}' AS {_WHOLE}) AND CAST('{high}' AS {_WHOLE}) THEN {value} "
    if bits:
        checked += (
            "WHEN {v} < 0 AND {v} >= CAST('-9223372036854775808' AS decimal(20,0)) THEN "
            "CAST({v} + CAST('18446744073709551616' AS decimal(20,0)) AS decimal(20,0)) "
        )
    checked = (checked + "END").replace("{v}", "n")
    return Step(f"element_at(transform(array({whole}), n -> {checked}), 1)", python)


def _ranged(after: ColumnType, number: int) -> str:
    low, high = integer_range(after) or (number, number)
    if not low <= number <= high:
        raise refused(str(number), after)
    return str(number)


def to_year() -> Step:
    """From an integer's text: 1 … 69 becomes 2001 … 2069, 70 … 99 becomes 1970 … 1999, 0 stays 0."""
    number = f"try_cast({{x}} AS {_WHOLE})"
    body = (
        "CASE WHEN n = 0 OR n BETWEEN 1901 AND 2155 THEN CAST(n AS int) WHEN n BETWEEN 1 AND 69 THEN CAST(n AS int) "
        "+ 2000 WHEN n BETWEEN 70 AND 99 THEN CAST(n AS int) + 1900 END"
    )
    return Step(f"element_at(transform(array({number}), n -> {body}), 1)", _year)


def _year(cell: Cell) -> Cell:
    number = int(Decimal(text_of(cell)).to_integral_value(ROUND_HALF_UP, _WIDE))
    if 1 <= number <= 99:
        number += 2000 if number < 70 else 1900
    if number and not 1901 <= number <= 2155:
        raise MessageError(f"{cell!r:.80} is no YEAR")
    return str(number)


def text_to_year() -> Step:
    """From text of 1 … 4 digits; text 0 becomes 2000 unless it has all four digits."""
    return Step(
        f"CASE WHEN NOT {matches('[0-9]{1,4}')} THEN NULL "
        "WHEN length({x}) < 4 AND try_cast({x} AS int) = 0 THEN '2000' ELSE {x} END",
        _year_text,
    )


def _year_text(cell: Cell) -> Cell:
    text = text_of(cell)
    if not re.fullmatch("[0-9]{1,4}", text):
        raise MessageError(f"{cell!r:.80} is no YEAR")
    return "2000" if len(text) < 4 and int(text) == 0 else text


def to_decimal(after: ColumnType, lake: LakeType, digits: int | None) -> Step:
    """From a number's text with ``digits`` after the point (``None``: any number)."""
    scale = after.decimal or 0

    def convert(cell: Cell) -> Cell:
        number = _WIDE.quantize(Decimal(text_of(cell)), Decimal(1).scaleb(-scale))
        if number.adjusted() >= (after.length or 10) - scale and number:
            raise refused(cell, after)
        if number < 0 and after.unsigned:
            raise refused(cell, after)
        return canonical_decimal(format(number, "f"), scale)

    if lake.arrow == "decimal":
        number = f"try_cast({{x}} AS {lake.spark})"
        return Step(f"CASE WHEN {number} >= 0 THEN {number} END" if after.unsigned else number, convert)
    if digits is None or digits > scale:
        wide = "the lake has a DECIMAL of more than 38 digits as text, which Spark cannot round"
        return approximate(Step("{x}", convert), wide)
    if digits == scale:
        return Step("{x}", convert)
    return Step(f"concat({{x}}, '{'' if digits else '.'}{'0' * (scale - digits)}')", convert)


def to_float(after: ColumnType) -> Step:
    """From a number's text: the nearest double; for FLOAT, the float nearest to that."""
    single = after.name == "float"
    most = _LARGEST_32 if single else 1.7976931348623157e308
    least = "0D" if after.unsigned else f"-{most!r}D"
    number = "try_cast({x} AS double)"
    found = f"CAST({number} AS float)" if single else number

    def convert(cell: Cell) -> Cell:
        double = float(text_of(cell))
        if abs(double) > most or (after.unsigned and double < 0):
            raise refused(cell, after)
        return canonical_float(repr(double), 32 if single else 64)

    step = Step(f"CASE WHEN {number} BETWEEN {least} AND {most!r}D THEN {found} END", convert)
    if after.decimal is not None and after.decimal >= 0:
        return approximate(step, f"{after.name.upper()}(M,D) rounds to D digits")
    return step
