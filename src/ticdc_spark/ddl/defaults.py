"""The text after DEFAULT, as written."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.ddl.lex import Cursor

Kind: TypeAlias = Literal["null", "string", "number", "hex", "hex string", "bits", "expression"]
"""``hex``: 0x31. ``hex string``: X'31', which MariaDB takes for a text also beside numbers."""

_MOMENT = re.compile(r"(current_timestamp|now|localtime|localtimestamp|current_date|curdate)(\(\d*\))?", re.IGNORECASE)
_NOW = ("current_timestamp", "now", "localtime", "localtimestamp")
_CONSTANTS = {"null": None, "true": "1", "false": "0"}
_OPERATORS = frozenset(["and", "between", "div", "in", "is", "like", "mod", "or", "regexp", "rlike", "xor"])
"""Words that continue an expression, which only MariaDB accepts without brackets."""


class WrittenDefault(msgspec.Struct, frozen=True):
    """A default as written in SQL."""

    kind: Kind
    text: str = ""
    """A string's value, a number with its sign, the digits of a hexadecimal or bit literal, an expression."""
    charset: str = ""
    """The charset of an introducer: ``_latin1'x'``."""
    place: tuple[int, int] = (0, 0)
    """Start and end of a hexadecimal literal in the SQL."""


def read_default(cur: Cursor) -> WrittenDefault:
    """Read what follows DEFAULT. ``CURRENT_TIMESTAMP`` and its synonyms are expressions with that
    text, without the number of digits: TiDB stores none.

    Raises: MessageError if it is not a default.
    """
    start = cur.peek().start
    found = _read(cur)
    if found is not None and not _goes_on(cur):
        return found
    while _goes_on(cur):
        if not cur.opens():
            cur.next()
        if cur.opens():
            cur.brackets()
        elif not _goes_on(cur):
            cur.next()
    text = cur.sql[start : cur.pos].strip()
    if not text:
        raise cur.fail("a default value")
    return WrittenDefault("expression", text)


def _goes_on(cur: Cursor) -> bool:
    token = cur.peek()
    return (token.kind == "op" and token.text not in ",);") or token.word in _OPERATORS


def _read(cur: Cursor) -> WrittenDefault | None:
    """One value; ``None`` if an operator follows that is not the sign of a number."""
    token = cur.peek()
    start, charset = token.start, ""
    if token.kind == "word" and token.text.startswith("_"):
        charset = cur.next().word[1:]
    elif token.kind == "word":
        return _named(cur)
    elif cur.opens():
        return WrittenDefault("expression", cur.brackets())
    if cur.peek().kind == "string":
        text = cur.string()
        while cur.peek().kind == "string":  # 'a' 'b' is one text
            text += cur.string()
        return WrittenDefault("string", text, charset)
    sign = "-" if cur.op("-") else ""
    cur.op("+")
    token = cur.peek()
    if token.kind == "number":
        return WrittenDefault("number", sign + cur.next().text)
    if token.kind in ("bits", "hex") and not sign:
        text = cur.next().text
        kind: Kind = "bits" if token.kind == "bits" else "hex string" if text.endswith("'") else "hex"
        return WrittenDefault(kind, text[2:].rstrip("'"), charset, (start, token.end))
    if sign and not _goes_on(cur):
        cur.next()
    return None


def _named(cur: Cursor) -> WrittenDefault:
    if cur.peek().word == "case":
        return WrittenDefault("expression", _case(cur))
    word = cur.next().text
    if word.lower() in _CONSTANTS:
        value = _CONSTANTS[word.lower()]
        return WrittenDefault("null") if value is None else WrittenDefault("number", value)
    argument = cur.brackets() if cur.opens() else None
    if word.lower() in _NOW:
        return WrittenDefault("expression", "CURRENT_TIMESTAMP")
    return WrittenDefault("expression", word if argument is None else f"{word}({argument})")


def _case(cur: Cursor) -> str:
    """Read CASE to its END, which only MariaDB accepts without brackets. Its words are no options of a column."""
    start, depth = cur.peek().start, 0
    while True:
        token = cur.next()
        if token.kind == "end":
            raise cur.fail("END")
        depth += (token.word == "case") - (token.word == "end")
        if depth == 0:
            return cur.sql[start : token.end]


def is_moment(default: str) -> bool:
    """Whether a default is the current time: CURRENT_TIMESTAMP, CURRENT_DATE and their synonyms."""
    return _MOMENT.fullmatch(default) is not None
