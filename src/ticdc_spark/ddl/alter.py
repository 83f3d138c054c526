"""The parts of an ALTER TABLE."""

import re
from collections.abc import Callable

from msgspec.structs import replace

from ticdc_spark.ddl.columns import column_def, position
from ticdc_spark.ddl.defaults import WrittenDefault, read_default
from ticdc_spark.ddl.indexes import constraint_name, index_def
from ticdc_spark.ddl.known import NO_EFFECT, WITH_LISTS
from ticdc_spark.ddl.lex import KEPT_OPTIONS, Cursor
from ticdc_spark.ddl.statements import (
    AddColumn,
    Alteration,
    ChangeColumn,
    Charset,
    DropColumn,
    DropForeignKey,
    DropIndex,
    MoveRows,
    NoEffect,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
    TableComment,
)

_OPTION = re.compile(r"[\w`]+\s*=")
"""An option of a storage engine."""
_NO_INDEX = {"check": "ADD CHECK", "period": "ADD PERIOD"}
"""What ADD adds that looks like a key and is no index, by its first word."""


def alteration(cur: Cursor) -> list[Alteration]:
    """Read one part, up to the ``,`` behind it. ADD COLUMN with brackets returns several.

    Raises: MessageError if the part begins like a relevant one but cannot be read to its end.
    """
    token = cur.peek()
    read = _PARTS.get(token.text.lower()) if token.kind == "word" else None
    if read is None:
        what = _skip(cur, options=token.word not in WITH_LISTS)
        while token.word in WITH_LISTS and cur.op(","):
            if cur.at_kept_option() or cur.peek().word in _RESERVED:
                return [NoEffect(what), *alteration(cur)]
            what += ", " + _skip(cur)
        return [NoEffect(what, known=token.word in NO_EFFECT or _OPTION.match(what) is not None)]
    cur.next()
    return read(cur)


def _skip(cur: Cursor, *, options: bool = False) -> str:
    """Skip a part, or the options of a table up to one that is kept; always moves the cursor."""
    text = cur.skip_item(options=options)
    return text or cur.next().text


def _add(cur: Cursor) -> list[Alteration]:
    if cur.accept("partition"):
        return _add_partition(cur)
    if cur.accept("system", "versioning"):
        return [NoEffect("ADD SYSTEM VERSIONING", known=False)]
    named = ""
    constraint_if_not_exists = False
    if cur.accept("constraint"):
        constraint_if_not_exists = cur.accept("if", "not", "exists")
        if not any(cur.peek().is_word(word) for word in ("primary", "unique", "foreign", "check")):
            named = cur.name()
    kind = cur.peek().word
    added = index_def(cur, named)
    if added is not None:
        if not added.index.columns:
            return [NoEffect(_NO_INDEX[kind])]
        return [replace(added, if_not_exists=added.if_not_exists or constraint_if_not_exists)]
    cur.accept("column")
    if_not_exists = cur.accept("if", "not", "exists")
    if not cur.op("("):
        definition = column_def(cur)
        return [AddColumn(definition, position(cur) or ("last", ""), if_not_exists)]
    columns: list[Alteration] = []
    while True:
        added = index_def(cur, constraint_name(cur))
        if added is None:
            columns.append(AddColumn(column_def(cur), ("last", ""), if_not_exists))
        elif added.index.columns:
            columns.append(added)
        if not cur.op(","):
            break
    cur.expect_op(")")
    return columns


def _add_partition(cur: Cursor) -> list[Alteration]:
    if cur.peek().is_word("partitions"):  # a table partitioned by hash: all its rows are redistributed
        return [MoveRows("ADD PARTITION " + _skip(cur), lossless=True)]
    return [NoEffect("ADD PARTITION " + _skip(cur))]


def _drop(cur: Cursor) -> list[Alteration]:
    if cur.accept("system", "versioning"):
        return [NoEffect("DROP SYSTEM VERSIONING", known=False)]
    if cur.accept("primary", "key"):
        return [DropIndex("")]
    if cur.any_of("index", "key"):
        cur.accept("if", "exists")
        name = cur.name()
        return [DropIndex("" if name.lower() == "primary" else name)]
    if cur.accept("foreign", "key"):
        cur.accept("if", "exists")
        return [DropForeignKey(cur.name())]
    if cur.accept("check"):
        return [NoEffect("DROP CHECK " + _skip(cur))]
    if cur.accept("constraint"):
        cur.accept("if", "exists")
        name = cur.name()
        return [DropIndex("" if name.lower() == "primary" else name, unique=True)]
    if cur.accept("period", "for"):
        return [NoEffect("DROP PERIOD FOR " + _skip(cur))]
    if cur.accept("partition"):
        return [MoveRows("DROP PARTITION " + _names(cur), lossless=False)]
    cur.accept("column")
    if_exists = cur.accept("if", "exists")
    part = DropColumn(cur.name(), if_exists)
    cur.any_of("restrict", "cascade")
    return [part]


def _names(cur: Cursor) -> str:
    """Partition names: the commas between them do not end the part."""
    names = [cur.skip_item()]
    while cur.op(","):
        names.append(cur.skip_item())
    return ", ".join(names)


def _modify(cur: Cursor) -> list[Alteration]:
    cur.accept("column")
    if_exists = cur.accept("if", "exists")
    definition = column_def(cur)
    return [ChangeColumn(definition.column.name, definition, position(cur), if_exists)]


def _change(cur: Cursor) -> list[Alteration]:
    cur.accept("column")
    if_exists = cur.accept("if", "exists")
    old = cur.name()
    definition = column_def(cur)
    return [ChangeColumn(old, definition, position(cur), if_exists)]


def _rename(cur: Cursor) -> list[Alteration]:
    if cur.accept("column"):
        if_exists = cur.accept("if", "exists")
        return [RenameColumn(*_old_new(cur), if_exists)]
    if cur.any_of("index", "key"):
        cur.accept("if", "exists")
        return [RenameIndex(*_old_new(cur))]
    cur.any_of("to", "as")
    cur.op("=")
    return [RenameTo(cur.table())]


def _old_new(cur: Cursor) -> tuple[str, str]:
    old = cur.name()
    if not cur.accept("to"):
        raise cur.fail("TO")
    return old, cur.name()


def _alter(cur: Cursor) -> list[Alteration]:
    if what := cur.any_of("index", "key", "check", "constraint"):
        return [NoEffect(f"ALTER {what.upper()} {_skip(cur)}")]
    cur.accept("column")
    if_exists = cur.accept("if", "exists")
    name = cur.name()
    if cur.accept("drop", "default"):
        return [SetDefault(name, WrittenDefault("null"), if_exists)]
    if cur.accept("set", "visible") or cur.accept("set", "invisible"):
        return [NoEffect("ALTER COLUMN … SET VISIBLE or INVISIBLE")]
    if not cur.accept("set", "default"):
        raise cur.fail("SET DEFAULT or DROP DEFAULT")
    return [SetDefault(name, read_default(cur), if_exists)]


def _default(cur: Cursor) -> list[Alteration]:
    if cur.peek().is_word("collate"):
        return []
    return alteration(cur)


def _convert(cur: Cursor) -> list[Alteration]:
    if cur.any_of("partition", "table"):
        return [NoEffect("CONVERT of a partition or a table " + _skip(cur), known=False)]
    cur.accept("to")
    return _charset(cur, convert=True)


def _charset(cur: Cursor, convert: bool = False) -> list[Alteration]:
    cur.any_of("charset", "character", "char")
    cur.accept("set")
    cur.op("=")
    charset = cur.charset()
    cur.accept("default")
    collate = None
    if cur.accept("collate"):
        cur.op("=")
        collate = cur.charset()
    return [Charset(charset, collate, convert)]


def _comment(cur: Cursor) -> list[Alteration]:
    cur.op("=")
    return [TableComment(cur.string())]


def _collate(cur: Cursor) -> list[Alteration]:
    cur.op("=")
    return [Charset(None, cur.charset(), False)]


def _exchange(cur: Cursor) -> list[Alteration]:
    cur.accept("partition")
    name = cur.name()
    if not cur.accept("with", "table"):
        raise cur.fail("WITH TABLE")
    other, rest = cur.table(), cur.skip_item()
    return [MoveRows(f"EXCHANGE PARTITION {name} {rest}".rstrip(), other=other, lossless=False)]


def _truncate(cur: Cursor) -> list[Alteration]:
    cur.accept("partition")
    return [MoveRows("TRUNCATE PARTITION " + _names(cur), lossless=False)]


def _reorganize(cur: Cursor) -> list[Alteration]:
    cur.accept("partition")
    return [MoveRows("REORGANIZE PARTITION " + _names(cur), lossless=True)]


def _coalesce(cur: Cursor) -> list[Alteration]:
    return [MoveRows("COALESCE " + _skip(cur), lossless=True)]


def _partition(cur: Cursor) -> list[Alteration]:
    return [MoveRows("PARTITION " + _skip(cur), lossless=True)]


def _remove(cur: Cursor) -> list[Alteration]:
    if cur.accept("partitioning"):
        return [MoveRows("REMOVE PARTITIONING", lossless=True)]
    return [NoEffect("REMOVE " + _skip(cur))]


def _first(cur: Cursor) -> list[Alteration]:
    """TiDB: FIRST PARTITION LESS THAN drops the partitions below the bound."""
    return [MoveRows("FIRST " + _skip(cur), lossless=False)]


def _interval(word: str) -> Callable[[Cursor], list[Alteration]]:
    """TiDB: LAST PARTITION LESS THAN, MERGE FIRST PARTITION LESS THAN and SPLIT MAXVALUE PARTITION LESS THAN."""
    return lambda cur: [MoveRows(f"{word} {_skip(cur)}", lossless=True)]


def _tablespace(cur: Cursor) -> list[Alteration]:
    if cur.peek().is_word("partition") or cur.peek().is_word("tablespace"):
        return [MoveRows("IMPORT or DISCARD " + _names(cur), lossless=False)]
    return [NoEffect("IMPORT or DISCARD " + _skip(cur), known=False)]


_PARTS: dict[str, Callable[[Cursor], list[Alteration]]] = {
    "add": _add,
    "drop": _drop,
    "modify": _modify,
    "change": _change,
    "rename": _rename,
    "alter": _alter,
    "default": _default,
    "convert": _convert,
    "character": _charset,
    "char": _charset,
    "charset": _charset,
    "collate": _collate,
    "comment": _comment,
    "exchange": _exchange,
    "truncate": _truncate,
    "reorganize": _reorganize,
    "coalesce": _coalesce,
    "partition": _partition,
    "remove": _remove,
    "first": _first,
    "last": _interval("LAST"),
    "merge": _interval("MERGE"),
    "split": _interval("SPLIT"),
    "import": _tablespace,
    "discard": _tablespace,
}
_RESERVED = _PARTS.keys() - KEPT_OPTIONS
"""Words that begin a part and cannot be names of columns or partitions."""
