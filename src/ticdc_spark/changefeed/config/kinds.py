"""How the values of a changefeed's configuration are read, from TOML or from the text of a sink URI."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ticdc_spark.config.secrets import remember
from ticdc_spark.config.toml import nearest, reads_of
from ticdc_spark.protocols import PROTOCOLS, WireProtocol


class Kind(msgspec.Struct, frozen=True):
    """How a value is read, and a text that says what is allowed."""

    read: Callable[[object], object]
    """Reads a TOML value. Raises ValueError, whose text, if any, replaces ``allowed``."""
    allowed: str
    parse: Callable[[str], object] = str
    """Converts a URI's text to a TOML value. Raises ValueError."""
    toml: type = str
    """The value's type in TOML."""

    def is_of_type(self, value: object) -> bool:
        """Whether a TOML value has the right type, even if it is not allowed."""
        return isinstance(value, self.toml) and isinstance(value, bool) == (self.toml is bool)


_TRUE, _FALSE = {"1", "t", "T", "true", "TRUE", "True"}, {"0", "f", "F", "false", "FALSE", "False"}
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h)"
_LONGEST = 2**63 / 1e9
"""Seconds: Go counts nanoseconds in 64 bits."""


def boolean() -> Kind:
    """``true`` or ``false``; in a URI whatever Go's ParseBool accepts."""

    def read(value: object) -> bool:
        if isinstance(value, bool):
            return value
        raise ValueError

    def parse(text: str) -> bool:
        if text not in _TRUE | _FALSE:
            raise ValueError
        return text in _TRUE

    return Kind(read, "true, false", parse, bool)


def integer(low: int = 0, high: int = 2**31 - 1) -> Kind:
    """An integer from ``low`` to ``high``."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError
        return value

    most = {2**31 - 1: "2^31-1", 2**63 - 1: "2^63-1", 2**64 - 1: "2^64-1"}.get(high, str(high))
    least = {-(2**31): "-2^31", -(2**63): "-2^63"}.get(low, str(low))
    return Kind(read, f"an integer from {least} to {most}", _parse_integer, int)


def one_of(*numbers: int) -> Kind:
    """One of a few integers."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value not in numbers:
            raise ValueError
        return value

    return Kind(read, ", ".join(map(str, numbers)), _parse_integer, int)


def number() -> Kind:
    """Any number."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        return float(value)

    return Kind(read, "a number", float, float)


def words(allowed: str, *, upper: bool = False) -> Kind:
    """One of the words in ``allowed``, which spaces separate, in any case.

    ``upper``: the value is in upper case.
    """
    known = {word.casefold(): word for word in allowed.split()}

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError
        found = known.get(value.casefold())
        if found is None:
            listed = ", ".join(f'"{word}"' for word in known.values())
            raise ValueError(listed + nearest(value, known))
        return found.upper() if upper else found

    return Kind(read, ", ".join(f'"{word}"' for word in known.values()))


def text(pattern: str | None = None, allowed: str = "a string") -> Kind:
    """A string that matches ``pattern`` as a whole."""

    def read(value: object) -> str:
        if not isinstance(value, str) or (pattern is not None and not re.fullmatch(pattern, value)):
            raise ValueError
        return value

    return Kind(read, allowed)


def texts() -> Kind:
    """A list of strings; a tuple once it is read."""

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise ValueError
        return tuple(value)

    return Kind(read, "a list of strings, none of them empty", _parse_nothing, list)


def timestamps() -> Kind:
    """A list of unsigned integers of 64 bits."""

    def read(value: object) -> tuple[int, ...]:
        if not isinstance(value, list) or not all(type(item) is int and 0 <= item < 2**64 for item in value):
            raise ValueError
        return tuple(value)

    return Kind(read, "a list of integers that are not negative", _parse_nothing, list)


def duration(low: float = 0.0, least: str = "") -> Kind:
    """A duration in Go's syntax, in seconds. It is above 0 and at least ``low``; ``least`` is the text for ``low``."""

    def read(value: object) -> float:
        if not isinstance(value, str) or not re.fullmatch(rf"\+?(?:{_PART})+", value):
            raise ValueError
        parts = re.findall(r"([0-9.]+)([a-zµμ]+)", value)
        seconds = sum(float(amount) * _UNITS[unit] for amount, unit in parts)
        if not 0 < seconds < _LONGEST or seconds < low:
            raise ValueError
        return seconds

    return Kind(
        read, f'a duration of at least {least}, such as "90m"' if least else 'a duration such as "10s", "1m30s"'
    )


def base64_text() -> Kind:
    """Text in base64, whose content is a secret. The value stays encoded."""

    def read(value: object) -> str:
        try:
            text = str(value) if isinstance(value, str) else "-"
            remember(base64.b64decode(text, validate=True).decode())
        except (binascii.Error, UnicodeError, ValueError):
            raise ValueError from None
        return text

    return Kind(read, "text in base64")


def protocol() -> Kind:
    """The name of a protocol, or one of its aliases, in any case. It is read as the protocol's own name."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError
        wanted = value.lower()
        for name, found in PROTOCOLS.items():
            if wanted in (name, *found.aliases, *found.changefeed_aliases):
                return name
        if wanted in _GONE:
            raise ValueError(f"{_protocols()}; {wanted} is not supported here")
        raise ValueError(_protocols() + nearest(wanted, [name for name, *_ in _names()]))

    return Kind(read, _protocols())


_GONE = {"canal", "maxwell", "craft", "csv"}
"""Protocols that TiCDC knows; for Kafka only in old versions."""


def ticdc_name(found: WireProtocol[Any]) -> str:
    """A protocol's name in TiCDC's documentation."""
    return found.aliases[0] if found.aliases else found.name


def _names() -> list[tuple[str, ...]]:
    return [
        (ticdc_name(found), *sorted({found.name, *found.aliases, *found.changefeed_aliases} - {ticdc_name(found)}))
        for _, found in sorted(PROTOCOLS.items())
    ]


def _protocols() -> str:
    return ", ".join(f'"{name}"' + (f" ({', '.join(more)})" if more else "") for name, *more in _names())


def annotated(hint: Any) -> Kind:
    """A type of the job file's values."""
    reads = reads_of(hint)
    assert reads is not None, hint
    return Kind(reads.read, reads.allowed)


def path() -> Kind:
    """A path, relative to the file if there is one."""

    def read(value: object) -> Path:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise ValueError
        return Path(value)

    return Kind(read, "a path")


def table() -> Kind:
    """A table whose keys are not checked."""

    def read(value: object) -> object:
        if not isinstance(value, Mapping):
            raise ValueError
        return value

    return Kind(read, "a table", _parse_nothing, dict)


def spark_options() -> Kind:
    """A table of Spark's options, whose names begin with ``spark.``. Values are text, numbers and booleans, and are
    read as Spark writes them."""

    def read(value: object) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise ValueError
        found = {}
        for name, option in _flat(value):
            if not name.startswith("spark.") or not isinstance(option, str | int | float):
                raise ValueError
            found[name] = str(option).lower() if isinstance(option, bool) else str(option)
        return found

    return Kind(read, "a table of options whose names begin with `spark.`", _parse_nothing, dict)


def _flat(options: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    """Options by their whole names. TOML reads unquoted names with dots as tables."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _parse_integer(value: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", value):
        raise ValueError
    return int(value)


def _parse_nothing(value: str) -> object:
    raise ValueError
