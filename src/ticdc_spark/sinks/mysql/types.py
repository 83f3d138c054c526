"""The source's types and names in MySQL, unchanged."""

import re
from collections.abc import Collection, Sequence

import msgspec

from ticdc_spark.clients.mysql import quoted
from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Table, Value
from ticdc_spark.mysql import (
    Ambiguous,
    canonical_datetime,
    default_length,
    format_type,
    fsp,
    is_text,
    local_timestamp,
    parse_type,
)
from ticdc_spark.mysql import utc_timestamp as to_utc
from ticdc_spark.mysql.kept_text import keeps_text
from ticdc_spark.sinks.mysql.staging import text_literal
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.types import LakeColumn, LakeOptions, lake_columns

_FALLBACK = "utf8mb4_bin"
_LONGEST_NAME = 64
_LONGEST_COMMENT = 1024
"""Of a column: in characters, and in bytes on TiDB."""
_BEYOND_UTF8MB3 = re.compile("[\U00010000-\U0010ffff]")


class MysqlNames:
    """See ``sinks.type_map.NameRule``: every MySQL name is valid here."""

    def held(self, name: str) -> str:
        return name

    def source(self, held: str) -> str:
        return held

    def fits(self, name: str) -> bool:
        return len(name) <= _LONGEST_NAME


class MysqlTypes:
    """See ``sinks.type_map.TypeMap``."""

    def __init__(self, version: str = "", collations: Collection[str] = ()) -> None:
        """``version``: of the server. ``collations``: supported ones; empty: unknown."""
        self.is_mariadb, self._is_tidb = "MariaDB" in version, "TiDB" in version
        self._collations = frozenset(collations)

    def columns(self, table: Table, key: tuple[str, ...], options: LakeOptions) -> tuple[LakeColumn, ...]:
        found = lake_columns(table, key, options)
        return tuple(
            msgspec.structs.replace(
                one, name=one.source, type=msgspec.structs.replace(one.type, own=self.name(one.column.type))
            )
            for one in found
        )

    def name(self, kind: ColumnType) -> str:
        """The name of a type in SQL, without NOT NULL."""
        if kind.length is None:
            kind = msgspec.structs.replace(kind, length=default_length(kind))
        if kind.name == "json" and self.is_mariadb:
            return f"longtext collate {_FALLBACK}"
        if kind.name in ("vector", "null") and not (self._is_tidb and kind.name == "vector"):
            return f"longtext collate {_FALLBACK}"
        if kind.name in ("geomcollection", "newdate"):
            return {"geomcollection": "geometrycollection", "newdate": "date"}[kind.name]
        if kind.charset == "binary" and kind.name in _AS_BYTES:
            kind = msgspec.structs.replace(kind, name=_AS_BYTES[kind.name])
        if not (is_text(kind) or kind.name in ("enum", "set")):
            return format_type(kind)
        collation = kind.collate if kind.collate in self._collations else _FALLBACK
        # The server reads a backslash in a member as an escape.
        return f"{format_type(kind).replace(chr(92), chr(92) * 2)} collate {collation}"

    def read(self, text: str, collation: str | None) -> str:
        """The name of a type in SQL, from its text in ``information_schema.columns``."""
        try:
            kind = parse_type(text, backslash_escapes=not self._is_tidb)
        except MessageError:
            return text
        if kind.charset is None:
            kind = msgspec.structs.replace(kind, charset="utf8mb4", collate=collation)
            if collation is not None and collation not in self._collations:
                return f"{format_type(kind).replace(chr(92), chr(92) * 2)} collate {collation}"
        return self.name(kind)

    def as_held(self, text: str, collation: str | None) -> str:
        """The type in SQL of ``information_schema.columns``, unchanged: also one that no source has."""
        shown = text.replace("\\", "\\\\") if self._is_tidb else text
        return shown if collation is None else f"{shown} collate {collation}"

    def comment(self, text: str) -> str:
        """A comment of a column as the server stores it: cut at its longest length. MySQL and MariaDB store comments in
        utf8mb3, so ``?`` replaces its missing characters there."""
        plain = text.replace("\0", "")
        if self._is_tidb:
            return plain.encode()[:_LONGEST_COMMENT].decode(errors="ignore")
        return _BEYOND_UTF8MB3.sub("?", plain)[:_LONGEST_COMMENT]

    def promotes(self, old: str, new: str) -> bool:
        """The server converts in the same way as MODIFY did at the source, unless the time zone of a session or the day
        of the DDL matters."""
        return not _by_zone(old, new) and not _by_day(old, new)

    def widens(self, old: str, new: str) -> bool:
        try:
            before, after = (parse_type(name, backslash_escapes=True) for name in (old, new))
        except MessageError:
            return False
        return self.promotes(old, new) and keeps_text(before, after)

    def conversion(
        self, old: LakeColumn, new: LakeColumn, zone: str | None, ambiguous: Ambiguous
    ) -> ColumnConversion | None:
        before, after = old.column.type, new.column.type
        if _by_day(before.name, after.name):
            why = "inexact: a TIME becomes a time of the day on which the DDL ran"
            return ColumnConversion(expression="{old}", inexact=why)
        if not _by_zone(before.name, after.name):
            return None  # the server has converted the values, or nothing is to convert
        inexact = "" if zone is not None else "inexact: neither ddl-timezone nor source-timezone says the time zone"
        if after.name == "timestamp" and before.name != "datetime":
            inexact = f"inexact: {before.name} becomes a TIMESTAMP by the time zone of a session"

        def convert(value: Value) -> Value:
            if zone is None or not isinstance(value, str):
                return value
            if before.name == "timestamp":
                return local_timestamp(value, zone)
            digits = fsp(after)
            return to_utc(canonical_datetime(value, digits), zone, digits, ambiguous)

        return ColumnConversion(expression="{old}", convert=None if inexact else convert, inexact=inexact)

    def add_columns(self, columns: Sequence[LakeColumn]) -> str:
        return ", ".join(f"ADD COLUMN {definition(column, self, key=False)}" for column in columns)

    def cast(self, old: str, new: LakeColumn) -> ColumnConversion:
        return ColumnConversion(expression="{old}")


def _by_zone(old: str, new: str) -> bool:
    """Whether the time zone of the session matters to a change of types, given by their names in SQL."""
    return old.startswith("timestamp") != new.startswith("timestamp")


def _by_day(old: str, new: str) -> bool:
    """Whether the server adds the day on which it converts."""
    return old.partition("(")[0] == "time" and new.startswith(("date", "timestamp"))


_BYTES = {"binary": 1, "latin1": 1, "ascii": 1}
"""Largest number of bytes per character."""
_MOST = 3072 - 200
"""Bytes of an InnoDB key, less a reserve for columns that are not text."""
_AS_BYTES = {
    "char": "binary",
    "varchar": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
    "longtext": "longblob",
}


def definition(column: LakeColumn, types: MysqlTypes, *, key: bool = True) -> str:
    """A column definition for CREATE and ALTER. All columns except the key may be NULL."""
    null = "NOT NULL" if key and column.key else "NULL"
    return f"{quoted(column.name)} {type_of(column, types)} {null}{comment_sql(types.comment(column.comment))}"


def comment_sql(comment: str) -> str:
    """The end of a column definition. MODIFY and CHANGE remove a comment that they do not repeat."""
    return f" COMMENT {text_literal(comment)}" if comment else ""


def type_of(column: LakeColumn, types: MysqlTypes) -> str:
    """The type of a column in SQL."""
    return types.name(column.column.type) if column.mask is None else column.type.name


def is_indexable(columns: Collection[LakeColumn]) -> bool:
    """Whether columns can be a primary key without prefix lengths, which a source may have."""
    kinds = [one.column.type for one in columns if one.mask is None]  # a hash is short
    if any(kind.name.endswith(("text", "blob")) for kind in kinds):
        return False
    long = ("char", "varchar", "binary", "varbinary")
    return sum(_BYTES.get(kind.charset or "", 4) * (kind.length or 1) for kind in kinds if kind.name in long) <= _MOST
