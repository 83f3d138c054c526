"""How MySQL-compatible servers and PostgreSQL write checksums, keys and values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Protocol

from ticdc_spark.clients import mysql, postgres
from ticdc_spark.clients.mysql_texts import selected_raw
from ticdc_spark.spark.types import LakeColumn
from ticdc_spark.verify.cells import Key, Range
from ticdc_spark.verify.columns import Form
from ticdc_spark.verify.digests import NULL, PLAIN

_LONG: frozenset[Form] = frozenset({"text", "bytes"})
"""Forms whose texts may be long."""
_LATIN1 = frozenset(bytes({*range(256)} - {0x81, 0x8D, 0x8F, 0x90, 0x9D}).decode("cp1252") + "\x81\x8d\x8f\x90\x9d")
_HOLD: dict[str, Callable[[str], bool]] = {
    "latin1": _LATIN1.__contains__,
    **dict.fromkeys(("utf8", "utf8mb3", "ucs2"), lambda char: ord(char) <= 0xFFFF),
}
"""Whether a character set has a character, for the most used sets that do not have all."""


class Dialect(Protocol):
    """The SQL of a kind of server."""

    def quoted(self, name: str) -> str:
        """A quoted name."""

    def literal(self, value: Any) -> str:
        """A key's value from Arrow, as a literal."""

    def may_hold(self, column: LakeColumn, value: Any) -> bool:
        """Whether a key's column has characters for a value. Without them, comparing both is an error."""

    def select(self, column: LakeColumn) -> str:
        """The exact value of a column, as text or bytes."""

    def text(self, column: LakeColumn, form: Form) -> str:
        """The text of a column for a row's text, see ``digests.written``."""

    def joined(self, texts: Sequence[str]) -> str:
        """The concatenation of texts."""

    def checksum(self, text: str) -> str:
        """The checksum of a text, as 16 hexadecimal digits."""

    def digest(self, text: str) -> str:
        """An expression for the number of rows and their checksum. ``text``: of a row."""

    def bucket(self, text: str, count: int) -> str:
        """The bucket of a text."""


class Mysql:
    """MySQL, MariaDB and TiDB."""

    _TEXTS: dict[Form, str] = {
        "integer": "{0} + 0",
        "bool": "{0} <> 0",
        "decimal": "{0}",
        "text": "OCTET_LENGTH(CONVERT({0} USING utf8mb4)), ':', CONVERT({0} USING utf8mb4)",
        "bytes": "LOWER(HEX({0}))",
        "date": "{0}",
        "moment": "DATE_FORMAT({0}, '%Y-%m-%dT%H:%i:%s.%f')",
        "time": "{0}",
    }

    def __init__(self, tidb: bool = False, *, charsets: bool = False) -> None:
        """``tidb``: TiDB stores all text in UTF-8 and sends it unchanged. ``charsets``: columns have the character sets
        of their types."""
        self._select, self._charsets = mysql.selected if tidb else selected_raw, charsets and not tidb

    def quoted(self, name: str) -> str:
        return mysql.quoted(name)

    def literal(self, value: Any) -> str:
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        return _plain(value) or f"_utf8mb4 X'{str(value).encode().hex()}'"

    def may_hold(self, column: LakeColumn, value: Any) -> bool:
        if not self._charsets or not isinstance(value, str):
            return True
        holds = _HOLD.get(column.column.type.charset or "")
        return holds is None or all(map(holds, value))

    def select(self, column: LakeColumn) -> str:
        kind = column.column.type
        is_text = kind.name == "vector" and not self._charsets  # as a target holds it, and as TiDB sends it
        return mysql.selected(column.name, kind) if is_text else self._select(column.name, kind)

    def text(self, column: LakeColumn, form: Form) -> str:
        name = self.quoted(column.name)
        written = f"CONCAT({self._TEXTS[form].format(name)}, ',')"
        # A text longer than max_allowed_packet is NULL, and must not look like NULL.
        return f"IF({name} IS NULL, '{NULL}', {written})" if form in _LONG else f"COALESCE({written}, '{NULL}')"

    def joined(self, texts: Sequence[str]) -> str:
        return f"CONCAT({', '.join(texts)})"

    def checksum(self, text: str) -> str:
        # So is its hash: then the row must not look equal.
        return f"LEFT(COALESCE(SHA2({text}, 256), SHA2(RAND(), 256)), 16)"

    def digest(self, text: str) -> str:
        return f"COUNT(*), BIT_XOR(CAST(CONV({self.checksum(text)}, 16, 10) AS UNSIGNED))"

    def bucket(self, text: str, count: int) -> str:
        return f"CAST(CONV(LEFT(SHA2({text}, 256), 8), 16, 10) AS UNSIGNED) % {count}"


class Postgres:
    """PostgreSQL 14 and later, which has BIT_XOR."""

    _TEXTS: dict[Form, str] = {
        "integer": "{0}::text",
        "bool": "{0}::int::text",
        "decimal": "{0}::text",
        "text": "octet_length({0}) || ':' || {0}",
        "bytes": "encode({0}, 'hex')",
        "date": "to_char({0}, 'YYYY-MM-DD')",
        "moment": "to_char({0}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')",
        "time": f"CASE WHEN {{0}} ~ '{PLAIN}' THEN {{0}} ELSE '!' || {{0}} END",
    }
    _VALUES = {
        "bool": "{0}::int::text",
        "binary": "encode({0}, 'hex')",
        "local": "to_char({0}, 'YYYY-MM-DD HH24:MI:SS.US')",
        "instant": "to_char({0}, 'YYYY-MM-DD HH24:MI:SS.US')",
    }
    """By the kind in Arrow; other kinds are cast to text."""

    def quoted(self, name: str) -> str:
        return postgres.quoted(name)

    def literal(self, value: Any) -> str:
        if isinstance(value, bytes):
            return f"'\\x{value.hex()}'"
        return _plain(value) or "'{}'".format(str(value).replace("'", "''"))

    def may_hold(self, column: LakeColumn, value: Any) -> bool:
        return True

    def select(self, column: LakeColumn) -> str:
        return self._VALUES.get(column.type.arrow, "{0}::text").format(self.quoted(column.name))

    def text(self, column: LakeColumn, form: Form) -> str:
        return f"coalesce(({self._TEXTS[form].format(self.quoted(column.name))}) || ',', '{NULL}')"

    def joined(self, texts: Sequence[str]) -> str:
        return " || ".join(texts)

    def checksum(self, text: str) -> str:
        return f"left(encode(sha256(convert_to({text}, 'UTF8')), 'hex'), 16)"

    def digest(self, text: str) -> str:
        return f"count(*), bit_xor(('x' || {self.checksum(text)})::bit(64)::bigint)"

    def bucket(self, text: str, count: int) -> str:
        return f"('x' || left({self.checksum(text)}, 8))::bit(32)::bigint % {count}"


def _plain(value: Any) -> str:
    """A literal that all dialects write in the same way; ``""``: there is none."""
    match value:
        case bool():
            return str(int(value))
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            return f"'{value.replace(tzinfo=None).isoformat(' ', 'microseconds')}'"
        case date():
            return f"'{value.isoformat()}'"
    return ""


def in_range(names: Sequence[str], of: Range, literal: Callable[[Any], str]) -> str:
    """The condition of a range of keys, with quoted names."""
    above = [] if of.above is None else [_compared(names, of.above, literal, ">", ">")]
    upto = [] if of.upto is None else [_compared(names, of.upto, literal, "<", "<=")]
    return " AND ".join([*above, *upto]) or "TRUE"


def _compared(names: Sequence[str], key: Key, literal: Callable[[Any], str], sign: str, last: str) -> str:
    """A comparison of row values, written out. The first column alone is compared before: servers find an index by
    it."""
    values = [literal(value) for value in key]
    found = f"{names[-1]} {last} {values[-1]}"
    for name, value in zip(names[-2::-1], values[-2::-1], strict=True):
        found = f"({name} {sign} {value} OR ({name} = {value} AND {found}))"
    return found if len(names) == 1 else f"({names[0]} {sign}= {values[0]} AND {found})"


def among(names: Sequence[str], keys: Sequence[Key], literal: Callable[[Any], str]) -> str:
    """A condition that single keys meet, and maybe others. Values that stand for several of the server's are left out:
    NULL is also a date without a day, and True any number."""
    each = (
        [f"{name} = {literal(value)}" for name, value in zip(names, key, strict=True) if not _is_vague(value)]
        for key in keys
    )
    return " OR ".join(f"({' AND '.join(one) or 'TRUE'})" for one in each)


def _is_vague(value: Any) -> bool:
    return value is None or isinstance(value, bool)
