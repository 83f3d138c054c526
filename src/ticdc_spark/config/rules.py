"""The grammar of the matchers of TiDB's tools: rules over table names and over column names.

A rule is ``schema.table``. Each half is a name in which ``*``, ``?``, ``[a-z]`` and ``[!a-z]`` are wild and ``\\``
escapes, a name in ``"…"`` or back quotes, or a regular expression ``/…/`` (RE2, found anywhere in the name). ``!rule``
excludes. ``@file`` reads rules from a file, one a line. ``#`` begins a comment. A rule over columns is one half.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
import re2

from ticdc_spark.errors import UsageError, os_reason


class Pattern(msgspec.Struct, frozen=True):
    """Half of a rule: what a name must match."""

    kind: Literal["any", "name", "regex"]
    """``any`` is a single ``*``."""
    text: str = ""


class Rule(msgspec.Struct, frozen=True):
    """A rule of a table matcher."""

    accepts: bool
    schema: Pattern
    table: Pattern


class ColumnRule(msgspec.Struct, frozen=True):
    """A rule of a column matcher."""

    accepts: bool
    column: Pattern


def parse_rules(rules: Sequence[str], *, folder: Path | None = None) -> tuple[Rule, ...]:
    """Read rules over tables. Raises: UsageError that names the rule."""
    found = []
    for line, where in _lines(rules, folder):
        accepts, rest = _sign(line)
        reader = _Reader(rest, line, where)
        schema = reader.pattern()
        if not reader.rest.startswith("."):
            raise reader.fail("a dot is expected after the schema: schema.table")
        reader.rest = reader.rest[1:]
        table = reader.pattern()
        if reader.rest:
            raise reader.fail(f"{reader.rest!r} is left over after the table")
        found.append(Rule(accepts, schema, table))
    return tuple(found)


def parse_column_rules(rules: Sequence[str], *, folder: Path | None = None) -> tuple[ColumnRule, ...]:
    """Read rules over columns. Raises: UsageError that names the rule."""
    found = []
    for line, where in _lines(rules, folder):
        accepts, rest = _sign(line)
        reader = _Reader(rest, line, where)
        pattern = reader.pattern(dotted=False)
        if reader.rest:
            raise reader.fail(f"{reader.rest!r} is left over after the column")
        found.append(ColumnRule(accepts, pattern))
    return tuple(found)


def regex(pattern: str, what: str) -> Regex:
    """Compile a regular expression in Go's dialect. Raises: UsageError that begins with ``what``."""
    try:
        if _C_ESCAPE.search(pattern):  # a single byte: RE2's, not Go's
            raise re2.error(b"invalid escape sequence: \\C")
        return compiled_regex(pattern)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "invalid"
        raise UsageError(f"{what}: /{pattern}/ is no regular expression of RE2: {reason}") from error
    except UnicodeEncodeError as error:
        raise UsageError(f"{what}: {pattern!r} is no text: it holds half a surrogate pair") from error


class Regex(Protocol):
    """A compiled regular expression."""

    def search(self, text: str) -> object:
        """A match anywhere in the text, or ``None``."""


@functools.lru_cache(maxsize=4096)
def compiled_regex(pattern: str) -> Regex:
    """``regex`` of a pattern that has been checked."""
    compiled: Regex = re2.compile(pattern, _OPTIONS)
    return compiled


_Line: TypeAlias = tuple[str, str]
"""A rule and its place: ``""`` in the list, ``rules.txt:3`` in a file."""


def _lines(rules: Sequence[str], folder: Path | None) -> Iterator[_Line]:
    for rule in rules:
        line = rule.strip(" \t")
        if not line.isprintable() and any("\ud800" <= char <= "\udfff" for char in line):
            raise UsageError(f"rule {line!r} is no text: it holds half a surrogate pair")
        if line.startswith("@"):
            yield from _imported(line, folder)
        elif line and not line.startswith("#"):
            yield line, ""


def _imported(rule: str, folder: Path | None) -> Iterator[_Line]:
    path = (folder or Path()) / rule[1:]
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise UsageError(f"rule {rule!r}: the file cannot be read: {os_reason(error)}") from error
    except ValueError as error:  # not UTF-8, or a path with NUL
        raise UsageError(f"rule {rule!r}: the file cannot be read: {error}") from error
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.removesuffix("\r").strip(" \t")
        if line.startswith("@"):
            raise UsageError(f"rule {line!r} at {path}:{number}: a file of rules cannot name another file")
        if line and not line.startswith("#"):
            yield line, f" at {path}:{number}"


def _sign(line: str) -> tuple[bool, str]:
    return (False, line[1:]) if line.startswith("!") else (True, line)


class _Reader:
    """Reads a rule. ``rest`` is the part that is not read yet."""

    def __init__(self, rest: str, rule: str, where: str) -> None:
        self.rest = rest
        self._rule = rule
        self._where = where

    def fail(self, reason: str) -> UsageError:
        return UsageError(f"rule {self._rule!r}{self._where}: {reason}")

    def pattern(self, *, dotted: bool = True) -> Pattern:
        """Consume a half. ``dotted``: a dot ends it."""
        first = self.rest[:1]
        if not first:
            raise self.fail("a name is missing: schema.table" if dotted else "a name is missing")
        if first == "/":
            return self._regex(self._delimited(_SLASHED, "/")[1:-1])
        if first in _QUOTED:
            name = self._delimited(_QUOTED[first], first)[1:-1]
            return Pattern("name", name.replace(first * 2, first))
        return self._wildcard(dotted)

    def _delimited(self, shape: Any, end: str) -> str:
        found = shape.match(self.rest)
        if found is None:
            raise self.fail(f"the closing {end} is missing, or nothing comes before it")
        text: str = found.group(0)
        self.rest = self.rest[len(text) :]
        return text

    def _regex(self, text: str) -> Pattern:
        if text == "(?s)^.*$":  # what ``*`` becomes; written so by hand it is the same, as in TiDB
            return Pattern("any")
        regex(text, f"rule {self._rule!r}{self._where}")
        regex("(?i)" + text, f"rule {self._rule!r}{self._where}")
        return Pattern("regex", text)

    def _wildcard(self, dotted: bool) -> Pattern:
        name: list[str] = []
        wild: list[str] = []
        literal = True
        while self.rest and not (dotted and self.rest[0] == "."):
            char = self.rest[0]
            if char == "[":
                wild.append(self._characters())
                literal = False
                continue
            size = 1
            if char in "*?":
                wild.append(".*" if char == "*" else ".")
                literal = False
            elif char == "\\":
                size, char = 2, self._escaped()
                name.append(char)
                wild.append(re2.escape(char))
            elif char in "$_" or (char.isascii() and char.isalnum()) or char >= "\x80":
                name.append(char)
                wild.append(re2.escape(char))
            else:
                instead = f": write '{self._escaped_hyphens()}'" if char == "-" else ""
                raise self.fail(f"{char!r} must be escaped with \\, or the name quoted with ` `{instead}")
            self.rest = self.rest[size:]
        if literal:
            return Pattern("name", "".join(name))
        return self._regex("(?s)^" + "".join(wild) + "$")

    def _escaped_hyphens(self) -> str:
        rest: str = _HYPHEN.sub(lambda found: found.group(1) or r"\-", self.rest)
        return self._rule[: -len(self.rest)] + rest

    def _escaped(self) -> str:
        if len(self.rest) == 1:
            raise self.fail("nothing follows the last \\")
        char = self.rest[1]
        if char.isascii() and char.isalnum():
            raise self.fail(f"\\{char} is reserved: a letter or digit cannot be escaped")
        return char

    def _characters(self) -> str:
        text = self._delimited(_CHARACTERS, "]")
        if text.startswith("[!"):
            return "[^" + text[2:]
        return "[\\^" + text[2:] if text.startswith("[^") else text


_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_C_ESCAPE = re2.compile(r"^(?:[^\\]|\\[^C])*\\C", _OPTIONS)
_SLASHED = re2.compile(r"/(?:\\.|[^/])+/", _OPTIONS)
_QUOTED = {'"': re2.compile(r'"(?:""|[^"])+"', _OPTIONS), "`": re2.compile(r"`(?:``|[^`])+`", _OPTIONS)}
_CHARACTERS = re2.compile(r"\[!?(?:\\[^0-9a-zA-Z]|[^\\\]])+\]", _OPTIONS)
_HYPHEN = re2.compile(r"""(\[[^\]]*\]|`[^`]*`|"[^"]*"|\\.)|-""", _OPTIONS)
