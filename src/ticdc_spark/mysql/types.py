"""MySQL column types: parse, print and classify them, and find a table's handle key."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from ticdc_spark.errors import DecisionNeeded, MessageError
from ticdc_spark.model import ColumnType, Table

BYTES_TYPES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
TEXT_TYPES = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "var_string"})
SPATIAL_TYPES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)
"""Their values are ``bytes`` as MySQL stores them: four bytes of SRID, little endian, then WKB."""
INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
TIME_TYPES = frozenset({"datetime", "timestamp", "time"})
"""Types with fractional seconds."""

_SYNONYMS = {
    "integer": "int",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "middleint": "mediumint",
    "int4": "int",
    "int8": "bigint",
    "numeric": "decimal",
    "dec": "decimal",
    "fixed": "decimal",
    "real": "double",
    "double precision": "double",
    "float4": "float",
    "float8": "double",
    "character": "char",
    "nchar": "char",
    "national char": "char",
    "national character": "char",
    "char varying": "varchar",
    "character varying": "varchar",
    "nchar varying": "varchar",
    "nchar varchar": "varchar",
    "nvarchar": "varchar",
    "varcharacter": "varchar",
    "national varchar": "varchar",
    "national char varying": "varchar",
    "national character varying": "varchar",
    "char byte": "binary",
    "long varbinary": "mediumblob",
    "long varchar": "mediumtext",
    "long char varying": "mediumtext",
    "long character varying": "mediumtext",
    "long": "mediumtext",
}

# The lengths that TiDB fills in if none is written (checked against the vectors' Simple dataType).
_INTEGER_WIDTHS = {"tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20)}
_FIXED_LENGTHS = {
    "tinyblob": 255,
    "tinytext": 255,
    "blob": 65535,
    "text": 65535,
    "mediumblob": 16777215,
    "mediumtext": 16777215,
    "longblob": 4294967295,
    "longtext": 4294967295,
    "json": 4294967295,
    "date": 10,
}
_LENGTHS = {**_FIXED_LENGTHS, "char": 1, "binary": 1, "bit": 1, "year": 4, "decimal": 10, "float": 12, "double": 22}
_TIME_LENGTHS = {"datetime": 19, "timestamp": 19, "time": 10}
_WITH_CHARSET = TEXT_TYPES | {"enum", "set"}

_NAME = re.compile(
    r"\s*([a-z_][a-z_0-9]*(?:\s+(?:precision|varying|byte|char|character|varchar|varbinary)\b)*)", re.IGNORECASE
)
_MEMBER = re.compile(r"\s*'((?:[^']|'')*)'\s*(,|\))")
_MEMBER_BACKSLASH = re.compile(r"\s*'((?:[^'\\]|''|\\.)*)'\s*(,|\))", re.DOTALL)
_ARGUMENTS = re.compile(r"\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_OPEN = re.compile(r"\s*\(")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ATTRIBUTES = re.compile(
    r"\s*(?:(?P<unsigned>unsigned)|signed|(?P<zerofill>zerofill)"
    r"|(?:character\s+set|charset)\s+'?(?P<charset>\w+)'?|collate\s+'?(?P<collate>\w+)'?)(?=\s|$)",
    re.IGNORECASE,
)


@lru_cache(1024)
def parse_type(text: str, *, backslash_escapes: bool = False) -> ColumnType:
    """Parse a type as ``SHOW CREATE TABLE``, ``COLUMN_TYPE`` or a user writes it.

    Names are lower-cased, synonyms are resolved, and missing lengths are filled in as TiDB does, so the result equals
    the Simple protocol's ``dataType``. ``charset`` is ``binary`` for types other than text, and ``None`` for text
    unless it is written after the type. TiDB prints a backslash in an ENUM or SET member unescaped; set
    ``backslash_escapes`` for SQL that a user typed and for MySQL's own output.

    Raises: MessageError if the text is not a type.
    """
    found = _NAME.match(text)
    if not found:
        raise MessageError(f"column type {text!r} does not begin with a name")
    written = " ".join(found.group(1).lower().split())
    name, at = _SYNONYMS.get(written, written), found.end()
    length: int | None = None
    decimal: int | None = None
    elements: tuple[str, ...] = ()
    is_serial = False
    if name in ("bool", "boolean"):
        name, length = "tinyint", 1
    elif name == "serial":
        name, is_serial = "bigint", True
    elif name in ("enum", "set"):
        elements, at = _members(text, at, backslash_escapes)
    elif arguments := _ARGUMENTS.match(text, at):
        at = arguments.end()
        length = int(arguments.group(1))
        decimal = int(arguments.group(2)) if arguments.group(2) else None
    flags, at = _attributes(text, at)
    if text[at:].strip():
        raise MessageError(f"column type {text!r}: {text[at:].strip()!r} is not understood")
    if name == "float" and length is not None and decimal is None:
        # FLOAT(p) chooses by precision and has no length
        name, length = ("double" if length > 24 else "float"), None
    if name in TIME_TYPES:
        decimal = length or 0
        length = None
    unsigned = is_serial or "unsigned" in flags or "zerofill" in flags or name in ("bit", "year")
    bare = ColumnType(
        name=name,
        length=length,
        decimal=0 if name == "decimal" and decimal is None else decimal,
        unsigned=unsigned,
        zerofill="zerofill" in flags or name == "year",
        elements=elements,
        charset=flags.get("charset") if name in _WITH_CHARSET else "binary",
        collate=flags.get("collate") if name in _WITH_CHARSET else "binary",
    )
    return bare if length is not None else msgspec.structs.replace(bare, length=default_length(bare))


def default_length(column_type: ColumnType) -> int | None:
    """The length that TiDB gives a type written without one; ``None`` if it gives none."""
    if column_type.name in _INTEGER_WIDTHS:
        return _INTEGER_WIDTHS[column_type.name][column_type.unsigned]
    if column_type.name in _TIME_LENGTHS:
        return _TIME_LENGTHS[column_type.name] + (1 + column_type.decimal if column_type.decimal else 0)
    # TiDB counts members in bytes of UTF-8
    if column_type.name == "enum":
        return max((len(member.encode()) for member in column_type.elements), default=0)
    if column_type.name == "set":
        return sum(len(member.encode()) for member in column_type.elements) + max(len(column_type.elements) - 1, 0)
    return _LENGTHS.get(column_type.name)


def format_type(column_type: ColumnType) -> str:
    """Print a type as ``SHOW CREATE TABLE`` of TiDB does, without character set: ``int(10) unsigned zerofill``."""
    name, length, decimal = column_type.name, column_type.length, column_type.decimal
    suffix = ""
    if name in ("enum", "set"):
        quoted = ["'" + member.replace("'", "''") + "'" for member in column_type.elements]
        return f"{name}({','.join(quoted)})"
    if name in TIME_TYPES:
        suffix = f"({decimal})" if decimal else ""
    elif name == "decimal":
        suffix = f"({10 if length is None else length},{decimal or 0})"
    elif name in ("float", "double"):
        suffix = f"({length},{decimal})" if length is not None and decimal is not None and decimal >= 0 else ""
    elif name not in _FIXED_LENGTHS and length is not None and length >= 0:
        suffix = f"({length})"
    if name not in ("bit", "year"):
        suffix += (" unsigned" if column_type.unsigned else "") + (" zerofill" if column_type.zerofill else "")
    return name + suffix


def is_bytes(column_type: ColumnType) -> bool:
    """Whether values are ``bytes``: BINARY … BLOB, and CHAR, VARCHAR or TEXT of character set binary."""
    return column_type.name in BYTES_TYPES or (column_type.name in TEXT_TYPES and column_type.charset == "binary")


def is_text(column_type: ColumnType) -> bool:
    """Whether values are text in a character set: CHAR … LONGTEXT that are not binary. Not ENUM, SET or JSON."""
    return column_type.name in TEXT_TYPES and column_type.charset != "binary"


def is_integer(column_type: ColumnType) -> bool:
    """Whether the canonical value is a decimal integer: TINYINT … BIGINT, YEAR, BIT, ENUM (index), SET (mask)."""
    return column_type.name in INTEGER_BITS or column_type.name in ("year", "bit", "enum", "set")


def fsp(column_type: ColumnType) -> int:
    """Fractional digits of a TIME, DATETIME or TIMESTAMP; 0 for every other type."""
    return max(column_type.decimal or 0, 0) if column_type.name in TIME_TYPES else 0


def may_merge(old: ColumnType, new: ColumnType) -> bool:
    """Whether different values of a column may become equal when its type changes.

    A shorter type of the same family counts as one that has all the values: the server has them, or refused the change.
    """
    name = old.name
    if new.name in ("char", "binary") and name not in ("char", "binary"):
        return True  # blanks, or zero bytes, at the end count no more
    if name in INTEGER_BITS:
        exact = ("decimal", "double") if INTEGER_BITS[name] <= 32 else ("decimal",)
        return new.name not in INTEGER_BITS and new.name not in exact and not is_text(new)
    if is_text(old) or is_bytes(old):
        return not (is_text(new) if is_text(old) else is_bytes(new))
    if name == new.name:
        lost = name in ("enum", "set") and not {*old.elements} <= {*new.elements}
        return lost or fsp(new) < fsp(old) or (name == "decimal" and (new.decimal or 0) < (old.decimal or 0))
    if new.name in INTEGER_BITS:
        return name not in ("year", "bit", "enum") and not (name == "decimal" and not old.decimal)
    if name in ("date", "time", "datetime", "decimal", "enum") and is_text(new):
        return False
    return (name, new.name) not in (("date", "datetime"), ("float", "double"))


def integer_range(column_type: ColumnType) -> tuple[int, int] | None:
    """Smallest and largest canonical value of a type whose values are integers; ``None`` for other types."""
    name = column_type.name
    if name in INTEGER_BITS:
        bits = INTEGER_BITS[name]
        return (0, (1 << bits) - 1) if column_type.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if name == "bit":
        return 0, (1 << (column_type.length or 1)) - 1
    if name == "enum":
        return 0, len(column_type.elements)
    if name == "set":
        return 0, (1 << len(column_type.elements)) - 1
    return (0, 2155) if name == "year" else None


def handle_key(table: Table) -> tuple[str, ...]:
    """Columns that identify a row, as TiCDC chooses them; ``()`` if none do.

    The primary key. Otherwise, among unique indexes whose columns are all NOT NULL and not virtual, the one with the
    fewest columns; among these the oldest (indexes are in their order of creation).
    """
    for index in table.indexes:
        if index.primary:
            return index.columns
    usable = {column.name for column in table.columns if not column.nullable and not column.virtual}
    unique = [index.columns for index in table.indexes if index.unique and index.columns and usable >= {*index.columns}]
    return min(unique, key=len, default=())


def no_key(table: str, where: str) -> DecisionNeeded:
    """The error for one or more tables without a handle key.

    ``table``: the quoted name. ``where``: the sections of the job file whose ``tables`` can exclude it.
    """
    return DecisionNeeded(
        f"{table}: there is no primary key and no unique key that is not null, so equal rows cannot be distinguished. "
        f"Exclude such tables with `tables` under {where}, or choose under [job] how their rows are handled: "
        'no-key = "apply" counts equal rows, no-key = "skip" skips the rows'
    )


def _members(text: str, at: int, backslash_escapes: bool) -> tuple[tuple[str, ...], int]:
    opened = _OPEN.match(text, at)
    if not opened:
        raise MessageError(f"column type {text!r}: ( and the members are missing")
    at, members, pattern = opened.end(), [], _MEMBER_BACKSLASH if backslash_escapes else _MEMBER
    while found := pattern.match(text, at):
        member, at = found.group(1).replace("''", "'"), found.end()
        if backslash_escapes:
            member = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape.group(1), escape.group(1)), member)
        members.append(member)
        if found.group(2) == ")":
            return tuple(members), at
    raise MessageError(f"column type {text!r}: a quoted member is expected at {text[at:]!r}")


def _attributes(text: str, at: int) -> tuple[dict[str, str], int]:
    flags: dict[str, str] = {}
    while found := _ATTRIBUTES.match(text, at):
        at = found.end()
        flags.update({name: value.lower() for name, value in found.groupdict().items() if value})
    return flags, at
