"""When two values count as equal: what a protocol cannot carry makes no difference. Pure.

``docs/reference/protocol-limits.md`` says what each protocol loses.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from ticdc_spark.mysql import default_value
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.spark.types import LakeOptions, to_arrow
from ticdc_spark.verify.columns import Pair

_EPOCHS = (date(1970, 1, 1), datetime(1970, 1, 1))  # noqa: DTZ001  values have no time zone
"""What such a protocol sends for a zero date in a NOT NULL column."""
Equal = Callable[[Any, Any], bool]
"""Whether a value of the source and a value of the target are equal."""


def equality(pair: Pair, protocol: str) -> Equal:
    """How values of a column are compared. Values are from Arrow, without a time zone."""
    plain = _by_type(pair)
    is_approximate = protocol in PROTOCOLS and PROTOCOLS[protocol].traits.approximate_values
    return _approximately(pair, plain) if is_approximate else plain


def _by_type(pair: Pair) -> Equal:
    name = pair.source.column.type.name
    if pair.masked:
        return _same
    if name == "json":
        return lambda one, other: one == other or _json(one) == _json(other)
    if name == "time":
        return lambda one, other: one == other or _clock(one) == _clock(other)
    return _same if pair.source.type.arrow == pair.target.type.arrow else _loosely


def _same(one: Any, other: Any) -> bool:
    return bool(one == other)


def _json(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _clock(text: Any) -> Any:
    return text.rstrip("0").rstrip(".") if isinstance(text, str) and "." in text else text


def _loosely(one: Any, other: Any) -> bool:
    """Compare values of two types: a protocol without DDL may have shown another type than the source's."""
    if one is None or other is None:
        return one is other
    if isinstance(one, bytes) or isinstance(other, bytes):
        return bool(_bytes(one) == _bytes(other))
    try:
        return Decimal(str(one)) == Decimal(str(other))
    except InvalidOperation:
        return bool(_clock(str(one)) == _clock(str(other)))


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _approximately(pair: Pair, plain: Equal) -> Equal:
    default = _default(pair)

    def equal(one: Any, other: Any) -> bool:
        if plain(one, other):
            return True
        if one is None:
            return bool(other is not None and (other == default or other in _EPOCHS))
        if isinstance(one, Decimal) and isinstance(other, Decimal | float):
            return float(one) == float(other)
        if isinstance(one, date) and isinstance(other, date) and one.year < 100:
            return any(_moved(one, years) == other for years in (1900, 2000))
        return False

    return equal


def _moved(one: date, years: int) -> date | None:
    try:
        return one.replace(year=one.year + years)
    except ValueError:
        return None


def _default(pair: Pair) -> Any:
    """The default of a column, which such a protocol sends for NULL; ``None``: there is none."""
    if pair.source.column.default is None:
        return None
    value = default_value(pair.source.column)
    if not isinstance(value, str | bytes):
        return None
    array, _, _ = to_arrow(pair.source, LakeOptions())([value])
    found = array[0].as_py()
    return found.replace(tzinfo=None) if isinstance(found, datetime) else found
