"""The default character sets of tables and databases: what SQL says about them, and what that means."""

from __future__ import annotations

from collections.abc import Iterable

from ticdc_spark.ddl.statements import DEFAULT, Charset, charset_of_collate

# TiDB's default collations; all others are <charset>_bin.
_COLLATES = {"binary": "binary", "gbk": "gbk_chinese_ci", "gb18030": "gb18030_chinese_ci"}
DEFAULT_CHARSET = Charset("utf8mb4", "utf8mb4_bin", False)
"""That of a database about which nothing is known."""


def default_collate(charset: str) -> str:
    """TiDB's default collation of a charset."""
    return _COLLATES.get(charset, f"{charset}_bin")


def full_collate(collate: str | None, charset: str) -> str | None:
    """A written collation with its charset: MariaDB's ``uca1400_ai_ci`` is ``utf8mb4_uca1400_ai_ci`` in utf8mb4.

    ``None``: the charset's default.
    """
    if collate is None or collate == DEFAULT:
        return None
    if charset == "binary":
        return "binary"
    return collate if charset_of_collate(collate) else f"{charset}_{collate}"


def resolved(written: Charset, current: Charset, default: Charset) -> Charset:
    """The charset and collation that are meant.

    ``current``: the charset if only a collation is written. ``default``: what DEFAULT means.
    """
    own = None
    if written.charset == DEFAULT:
        name, own = default.name, default.collate
    elif written.charset is None and written.collate is None:
        name, own = current.name, current.collate
    else:
        name = written.charset or charset_of_collate(written.collate or "") or current.name
    return Charset(name, full_collate(written.collate, name) or own or default_collate(name), False)


def joined(parts: Iterable[Charset]) -> Charset:
    """Several options of one statement as one. Servers accept charset and collation in any order."""
    charset = collate = None
    for part in parts:
        charset, collate = part.charset or charset, part.collate or collate
    return Charset(charset, collate, False)
