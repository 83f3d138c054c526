"""Collations: how texts compare.

``…_bin`` and all case-sensitive collations compare code points. ``…_ci`` ignores case and, unless it is ``…_as_ci``,
accents. In the collations of ``_KNOWN`` equality is MySQL's for the letters of European languages: Latin to U+017F but
for ``ŀ`` and ``ŉ``, Greek U+0386 to U+03CE, Cyrillic U+0400 to U+045F and ``ґ``. Other ``…_ci`` compare ASCII only.
Order is by folded letters, which differs from MySQL's weights for punctuation and East Asian scripts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache, reduce

import msgspec

from ticdc_spark.errors import MessageError

PADS_NOT = ("_0900_", "nopad")
_KNOWN = re.compile(
    r"(?:utf8(?:mb[34])?|ucs2|utf16(?:le)?|utf32)_(general|unicode|unicode_520|uca1400|0900)(?:_nopad)?(?:_(a[is]))?_ci"
)
"""Character sets of Unicode, in the collations that know no language."""


class _Letters(msgspec.Struct, frozen=True):
    """How a family of collations differs from the base letters that Unicode names."""

    apart: frozenset[str]
    """Letters that are not their base letter with an accent, or not the small form of another."""
    bases: dict[str, str]
    """Other base letters."""
    pairs: dict[str, str]
    """Letters that equal two."""


_OLD = {"Ґ": "Г", "ª": "A", "º": "O"}
_NEW = {**_OLD, "Ø": "O", "Ł": "L", "Đ": "D", "Ð": "D", "Ħ": "H"}
_PAIRS = {"ß": "SS", "Œ": "OE", "Ĳ": "IJ"}
_UNICODE_9 = _Letters(frozenset("Йı"), _NEW, {**_PAIRS, "Æ": "AE"})
_LETTERS = {
    "general": _Letters(frozenset("Й"), {"ß": "S"}, {}),
    "unicode": _Letters(frozenset("ЙЇЃЌЎı"), _OLD, _PAIRS),
    "unicode_520": _Letters(frozenset("ЙЇЃЌЎı"), _NEW, _UNICODE_9.pairs),
    "uca1400": _UNICODE_9,
    "0900": _UNICODE_9,
    "as": _Letters(frozenset("ıſ"), {"ª": "A", "º": "O"}, {"Ĳ": "IJ"}),
}


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
        """The text in the form that is compared. Raises: MessageError for letters whose equality is not known."""
        folded = self.letters(text)
        if not self.folds or folded.isascii():
            return folded
        pairs = _LETTERS[_family(self.name)].pairs
        return "".join(pairs.get(char, char) for char in folded)

    def letters(self, text: str) -> str:
        """The text with each character in the form in which LIKE and LOCATE compare it. Its length is the same.

        Raises: MessageError for letters whose equality is not known.
        """
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


def common(left: Collation, right: Collation) -> Collation:
    """The collation in which two values compare."""
    if left.explicit != right.explicit:
        return left if left.explicit else right
    return right if left.folds and not right.folds else left


def united(found: Iterable[Collation | None]) -> Collation | None:
    """The collation of several values. ``None``: a literal, which takes the others'; the result: all are literals."""
    known = [collation for collation in found if collation is not None]
    return reduce(common, known) if known else None


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
    family = _family(name)
    if family == "general" and char > "\uffff":
        return "\ufffd"  # utf8mb4_general_ci treats all characters beyond the BMP as equal
    letters, upper = _LETTERS[family], _upper(char)
    for letter in (char, upper):
        if letter in letters.apart:
            return letter
    base = upper if family == "as" else _upper(unicodedata.normalize("NFD", upper)[0])
    return letters.bases.get(base, base)


def _upper(char: str) -> str:
    upper = char.upper()
    return upper if len(upper) == 1 else char


@lru_cache
def _family(name: str) -> str:
    found = _KNOWN.fullmatch(name)
    if found is None:
        raise MessageError(f"texts that are not ASCII cannot be compared in {name} (COLLATE names another collation)")
    return "as" if found[2] == "as" else found[1]
