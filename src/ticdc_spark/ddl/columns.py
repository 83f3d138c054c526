"""Column and index definitions in DDL.

Types get TiDB's canonical form (``INT`` is ``int(11)``, ``NUMERIC`` is ``decimal(10,0)``), as ``SHOW CREATE TABLE``
prints them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from ticdc_spark.ddl.defaults import WrittenDefault, read_default
from ticdc_spark.ddl.lex import Cursor
from ticdc_spark.ddl.statements import ColumnDef, Position, charset_of_collate
from ticdc_spark.ddl.stored import stored_default
from ticdc_spark.model import Column, ColumnType
from ticdc_spark.mysql import parse_type

WITH_CHARSET = frozenset(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"))
"""Types that have a charset."""

# TEXT(n) and BLOB(n) mean the smallest type that holds n.
_BY_SIZE = {
    "text": ((255, "tinytext"), (65535, "text"), (16777215, "mediumtext"), (4294967295, "longtext")),
    "blob": ((255, "tinyblob"), (65535, "blob"), (16777215, "mediumblob"), (4294967295, "longblob")),
}
_DECIMALS = ("decimal", "numeric", "dec", "fixed")
_TO_BINARY = {
    "char": "binary",
    "varchar": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
    "longtext": "longblob",
}
_NATIONAL = ("national", "nchar", "nvarchar")
"""First words of types whose character set is UTF-8, whatever the table's default."""
_CHARS = ("char", "character", "varchar")
_NEXT_WORDS = {
    "double": ("precision",),
    "long": ("varchar", "varbinary", "char", "character"),
    "national": _CHARS,
    "nchar": ("varying", "varchar"),
    **dict.fromkeys(_CHARS, ("varying", "byte")),
}


@dataclass
class _Options:
    type_name: str
    unsigned: bool = False
    zerofill: bool = False
    primary: bool = False
    nonclustered: bool = False
    unique: bool = False
    constraint: str = ""
    foreign: str | None = None
    nullable: bool | None = None
    charset: str | None = None
    collate: str | None = None
    default: WrittenDefault | None = None
    expression: str = ""
    stored: bool = False
    filled: bool = False
    numbered: bool = False
    """AUTO_INCREMENT, which makes it NOT NULL whatever else is written."""
    comment: str | None = None

    @property
    def null(self) -> bool | None:
        """Whether it may be NULL; ``None``: not specified."""
        return False if self.numbered else self.nullable


def column_def(cur: Cursor) -> ColumnDef:
    """Read ``name type options``; stops before ``,``, ``)``, FIRST, AFTER or the end.

    A text type without its own charset gets ``charset=None``; the table decides.
    Raises: MessageError if the text is not a column definition.
    """
    name = cur.name()
    type_name, size, elements = _type(cur)
    options = _Options(type_name)
    if type_name.startswith(_NATIONAL):
        options.charset = "utf8mb3"
    if type_name == "serial":
        type_name = "bigint"
        options.unsigned = options.unique = options.filled = True
        options.nullable = False
    while not _column_ends(cur):
        _read_option(cur, options)
    kind = _column_type(type_name, size, elements, options)
    default, known = (None, True) if options.default is None else stored_default(options.default, kind)
    column = Column(
        name=name,
        type=kind,
        nullable=options.null is not False and not options.primary,
        default=default,
        virtual=bool(options.expression) and not options.stored,
        stored=options.stored,
        expression="" if options.stored else options.expression,
    )
    return ColumnDef(
        column=column,
        nullable=options.null,
        primary=options.primary,
        nonclustered=options.nonclustered,
        unique=options.unique,
        foreign=options.foreign,
        filled=options.filled,
        computed=not known,
        written=options.default,
        comment=options.comment,
    )


def _column_ends(cur: Cursor) -> bool:
    token = cur.peek()
    if token.kind == "op":
        return token.text in ",);"
    return token.kind == "end" or token.is_word("first") or token.is_word("after") or cur.at_partitioning()


def _type(cur: Cursor) -> tuple[str, str, tuple[str, ...]]:
    """Name, the text in its brackets, members."""
    name = last = cur.name().lower()
    while last and (last := cur.any_of(*_NEXT_WORDS.get(last, ()))):
        name += " " + last
    if name in ("enum", "set"):
        cur.expect_op("(")
        return name, "", tuple(member.rstrip(" ") for member in cur.members())
    size = cur.brackets().replace(" ", "") if cur.opens() else ""
    if name in _DECIMALS and size in ("0", "0,0"):
        size = ""
    if name in _BY_SIZE and size.isdigit():
        name, size = next((wide for most, wide in _BY_SIZE[name] if int(size) <= most), "long" + name), ""
    return name, size, ()


def _column_type(name: str, size: str, elements: tuple[str, ...], options: _Options) -> ColumnType:
    if elements:
        quoted = ",".join("'" + member.replace("'", "''") + "'" for member in elements)
        kind = parse_type(f"{name}({quoted})")
    else:
        flags = " unsigned" * options.unsigned + " zerofill" * options.zerofill
        kind = parse_type(name + (f"({size})" if size else "") + flags)
    charset, collate = options.charset, options.collate
    if kind.name not in WITH_CHARSET:
        return msgspec.structs.replace(kind, charset="binary", collate="binary")
    if charset is None and collate:
        charset = charset_of_collate(collate)
    return to_binary(msgspec.structs.replace(kind, charset=charset, collate=collate))


def to_binary(kind: ColumnType) -> ColumnType:
    """The bytes type that MySQL makes of a text type of character set binary; other types are unchanged."""
    if kind.charset != "binary" or kind.name not in _TO_BINARY:
        return kind
    return msgspec.structs.replace(kind, name=_TO_BINARY[kind.name], collate="binary")


def _read_option(cur: Cursor, options: _Options) -> None:
    if cur.opens():
        cur.brackets()
        return
    token = cur.next()
    read = _OPTIONS.get(token.text.lower()) if token.kind == "word" else None
    if read is not None:
        read(cur, options)
    # other options are not stored: AUTO_RANDOM, CHECK, CLUSTERED, COLUMN_FORMAT, ON DELETE …


def _unsigned(cur: Cursor, options: _Options) -> None:
    options.unsigned = True


def _zerofill(cur: Cursor, options: _Options) -> None:
    options.unsigned = options.zerofill = True


def _not(cur: Cursor, options: _Options) -> None:
    if cur.accept("null"):
        options.nullable = False


def _null(cur: Cursor, options: _Options) -> None:
    options.nullable = True


def _default(cur: Cursor, options: _Options) -> None:
    options.default = read_default(cur)


def _on(cur: Cursor, options: _Options) -> None:
    # in REFERENCES, ON UPDATE has another meaning
    if cur.accept("update") and read_default(cur).text.startswith("CURRENT_TIMESTAMP"):
        options.filled = options.type_name == "timestamp"


def _auto_increment(cur: Cursor, options: _Options) -> None:
    options.filled = options.numbered = True


def _primary(cur: Cursor, options: _Options) -> None:
    cur.accept("key")
    options.primary = True
    options.nonclustered = cur.accept("nonclustered")


def _unique(cur: Cursor, options: _Options) -> None:
    cur.accept("key")
    options.unique = True


def _charset(cur: Cursor, options: _Options) -> None:
    cur.accept("set")
    options.charset = cur.charset()


def _collate(cur: Cursor, options: _Options) -> None:
    options.collate = cur.charset()


def _binary(cur: Cursor, options: _Options) -> None:
    options.collate = options.collate or "bin"


def _short_charset(charset: str) -> Callable[[Cursor, _Options], None]:
    def read(_cur: Cursor, options: _Options) -> None:
        options.charset = charset

    return read


def _word(cur: Cursor, options: _Options) -> None:
    cur.next()


def _generated(cur: Cursor, options: _Options) -> None:
    cur.accept("always")
    cur.accept("as")
    options.expression = cur.brackets()
    options.stored = bool(cur.any_of("stored", "persistent"))


def _serial(cur: Cursor, options: _Options) -> None:
    if cur.accept("default", "value"):
        options.unique = options.filled = True
        options.nullable = False


def _comment(cur: Cursor, options: _Options) -> None:
    options.comment = cur.string()


def _constraint(cur: Cursor, options: _Options) -> None:
    if cur.peek().word not in ("check", "references"):
        options.constraint = cur.name()


def _references(cur: Cursor, options: _Options) -> None:
    options.foreign = options.constraint
    cur.table()
    if cur.opens():
        cur.brackets()
    while (cur.accept("match") and cur.next()) or _action(cur):
        pass


def _action(cur: Cursor) -> bool:
    """Read what a foreign key does: it has words that are options of a column, too."""
    whole = (("restrict",), ("cascade",), ("set", "null"), ("set", "default"), ("no", "action"))
    return any(cur.accept("on", when, *words) for when in ("delete", "update") for words in whole)


_OPTIONS: dict[str, Callable[[Cursor, _Options], None]] = {
    "unsigned": _unsigned,
    "zerofill": _zerofill,
    "not": _not,
    "null": _null,
    "default": _default,
    "on": _on,
    "auto_increment": _auto_increment,
    "primary": _primary,
    "key": _primary,
    "unique": _unique,
    "character": _charset,
    "char": _charset,
    "charset": _charset,
    "binary": _binary,
    "byte": _short_charset("binary"),
    "ascii": _short_charset("latin1"),
    "unicode": _short_charset("ucs2"),
    "column_format": _word,
    "storage": _word,
    "collate": _collate,
    "generated": _generated,
    "as": _generated,
    "comment": _comment,
    "serial": _serial,
    "constraint": _constraint,
    "references": _references,
}


def position(cur: Cursor) -> Position | None:
    """Read FIRST or AFTER name; ``None`` if neither follows."""
    if cur.accept("first"):
        return "first", ""
    if cur.accept("after"):
        return "after", cur.name()
    return None
