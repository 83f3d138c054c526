"""Collations: how texts compare.

``…_bin`` and all case-sensitive collations compare code points. ``…_ci`` ignores case and, unless it is ``…_as_ci``,
accents. Equality is MySQL's for Latin, Greek and Cyrillic letters. Order is by folded letters, which differs from
MySQL's weights for punctuation and East Asian scripts.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import msgspec

PADS_NOT = ("_0900_", "nopad")


class Collation(msgspec.Struct, frozen=True):
    """How a collation compares."""

    name: str
    explicit: bool = False
    """Whether COLLATE gave it. It then wins over the other side's."""

    @property
    def pads(self) -> bool:
        """Whether trailing blanks are ignored."""
        return self.name != "binary" and not any(mark in self.name for mark in PADS_NOT)

    @property
    def folds(self) -> bool:
        """Whether case is ignored."""
        return self.name.endswith("_ci")

    def fold(self, text: str) -> str:
        """The text in the form that is compared. Its length is the same, except for ``ß`` in the Unicode collations."""
        if not self.folds:
            return text
        if text.isascii():
            return text.upper()
        return "".join(_fold(char, self.name) for char in text)


DEFAULT = Collation("utf8mb4_bin")
"""TiDB's default, which literals have too."""


def collation_of(name: str | None) -> Collation:
    """The collation of a column. ``name``: ``None`` if unknown."""
    return Collation(name.lower()) if name else DEFAULT


def common(left: Collation | None, right: Collation | None) -> Collation:
    """The collation in which two values compare. ``None``: a literal, which takes the other's."""
    if left is None or right is None:
        return left or right or DEFAULT
    if left.explicit != right.explicit:
        return left if left.explicit else right
    return right if left.folds and not right.folds else left


def compare(left: str, right: str, collation: Collation) -> int:
    """-1, 0 or 1."""
    left, right = collation.fold(left), collation.fold(right)
    if left == right:
        return 0
    if len(left) != len(right) and collation.pads:
        size = max(len(left), len(right))
        left, right = left.ljust(size), right.ljust(size)
    return (left > right) - (left < right)


@lru_cache(maxsize=1 << 14)
def _fold(char: str, name: str) -> str:
    general = "_general_" in name
    if general and char > "\uffff":
        return "\ufffd"  # utf8mb4_general_ci treats all characters beyond the BMP as equal
    if char == "\u00df":
        return "S" if general else "SS"
    base = char if "_as_" in name else unicodedata.normalize("NFD", char)[0]
    upper = base.upper()
    return upper if len(upper) == 1 else base
