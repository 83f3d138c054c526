"""Values after DEFAULT."""

from __future__ import annotations

import re

from ticdc_spark.ddl.lex import Cursor

_MOMENT = re.compile(r"(current_timestamp|now|localtime|localtimestamp|current_date|curdate)(\(\d*\))?", re.IGNORECASE)
_NOW = ("current_timestamp", "now", "localtime", "localtimestamp")


def default_value(cur: Cursor, type_name: str = "") -> str | int | None:
    """Read the value after DEFAULT: text, or an int for BIT.

    ``CURRENT_TIMESTAMP`` and expressions are their text; NULL is ``None``. Bytes of a hexadecimal literal that are
    no UTF-8 become U+FFFD, as in a Simple message.
    """
    token = cur.peek()
    if token.kind == "word" and token.text.startswith("_"):  # a charset introducer: _UTF8MB4'x'
        cur.next()
        token = cur.peek()
    if token.kind == "word":
        return _named_default(cur)
    if token.kind == "string":
        text = cur.string()
        while cur.peek().kind == "string":  # 'a' 'b' is one text
            text += cur.string()
        return text
    if cur.opens():
        return cur.brackets()
    sign = "-" if cur.op("-") else ""
    cur.op("+")
    token = cur.next()
    if token.kind in ("bits", "hex"):
        return _literal(token.text, type_name)
    if token.kind != "number":
        raise cur.fail("a default value")
    return int(token.text) if type_name == "bit" and token.text.isdigit() else sign + token.text


def is_expression(cur: Cursor) -> bool:
    """Whether an expression comes after DEFAULT; nothing is consumed."""
    token = cur.peek()
    if token.kind == "word" and not token.text.startswith("_"):
        return token.word not in _CONSTANTS
    return cur.opens()


def is_moment(default: str) -> bool:
    """Whether a default is the moment: CURRENT_TIMESTAMP, CURRENT_DATE and what is the same."""
    return _MOMENT.fullmatch(default) is not None


_CONSTANTS = {"null": None, "true": "1", "false": "0"}


def _named_default(cur: Cursor) -> str | None:
    word = cur.next().text
    if word.lower() in _CONSTANTS:
        return _CONSTANTS[word.lower()]
    argument = cur.brackets() if cur.opens() else None
    if word.lower() in _NOW:
        return f"CURRENT_TIMESTAMP({argument})" if argument else "CURRENT_TIMESTAMP"
    return word if argument is None else f"{word}({argument})"


def _literal(text: str, type_name: str) -> str | int:
    base = 2 if text[0] in "bB" or text[:2] == "0b" else 16
    digits = text[2:].rstrip("'")
    value = int(digits or "0", base)
    if type_name == "bit":
        return value
    if type_name.endswith(("char", "binary", "text", "blob", "enum", "set")):
        size = (len(digits) + 1) // 2 if base == 16 else (len(digits) + 7) // 8
        return value.to_bytes(size, "big").decode("utf-8", "replace")
    return str(value)
