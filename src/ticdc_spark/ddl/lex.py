"""Words of MySQL and TiDB DDL: a cursor that reads them on demand.

On demand, because one text has two kinds of strings: TiDB writes the members of ENUM and SET without escaping
backslashes (also in ``SHOW CREATE TABLE``), but all other strings with escapes.
"""

import re
from typing import Literal, NamedTuple, TypeAlias

from ticdc_spark.errors import MessageError

Name: TypeAlias = tuple[str | None, str]
"""(schema, table) as written; ``None``: unqualified."""
Backslash: TypeAlias = Literal["literal", "escape"]
"""What a backslash in an ENUM or SET member means: itself (TiDB's printed text) or an escape (text a user typed)."""

# The content of /*T! ... */ and /*! ... */ is part of the statement, so only their brackets are skipped.
_SKIP = re.compile(r"(?:\s+|--(?=\s|$)[^\n]*|\#[^\n]*|/\*T!(?:\[[^\]]*\])?|/\*!\d*|\*/|/\*(?!T?!).*?\*/)+", re.DOTALL)
_TOKEN = re.compile(
    r"""
    `(?P<name>(?:[^`]|``)*)`
  | (?P<string>[nN]?'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<bits>[bB]'[01]*'|0b[01]+\b)
  | (?P<hex>[xX]'[0-9A-Fa-f]*'|0x[0-9A-Fa-f]+\b)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w$]))
  | (?P<word>[\w$]+)
  | (?P<op>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_MEMBER = {
    "literal": re.compile(r"\s*'((?:[^']|'')*)'\s*([,)])"),
    "escape": re.compile(r"\s*'((?:[^'\\]|\\.|'')*)'\s*([,)])", re.DOTALL),
}
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class Token(NamedTuple):
    """One word: ``kind`` is name, string, bits, hex, number, word, op or end; ``text`` as written (names unquoted)."""

    kind: str
    text: str
    start: int
    end: int
    word: str = ""
    """A bare word in lower case; ``""`` for other tokens."""

    def is_word(self, word: str) -> bool:
        """Whether it is this bare word, in any case."""
        return self.word == word


class Named(NamedTuple):
    """A name of a table or database in a statement, at ``[start, end)``."""

    start: int
    end: int
    name: Name
    """For a database, the table is ``""``."""


def unescape(text: str) -> str:
    """The value of a quoted MySQL string. ``text`` includes the quotes."""
    quote = text[-1]
    return _unescape(text[text.index(quote) + 1 : -1], quote)


def _unescape(body: str, quote: str) -> str:
    if "\\" not in body:
        return body.replace(quote * 2, quote)
    pattern = rf"\\(.)|{quote}{quote}"
    return re.sub(pattern, lambda m: quote if m[1] is None else _ESCAPES.get(m[1], m[1]), body, flags=re.DOTALL)


def _of_hex(text: str) -> str:
    digits = text[2:].rstrip("'")
    return bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)).decode("utf-8", "replace")


KEPT_OPTIONS = frozenset(("character", "char", "charset", "collate", "comment"))
"""First words of the options of a table that are kept. They may also be names."""


class Cursor:
    """A position in a statement."""

    def __init__(self, sql: str, backslash: Backslash = "literal") -> None:
        self.sql = sql
        self.pos = 0
        self.backslash = backslash
        self.named: dict[int, Named] = {}
        """The tables and databases that were read, by the start of their names."""
        self._ahead: Token | None = None

    def peek(self) -> Token:
        """The next token, not consumed."""
        if self._ahead is None:
            self._ahead = self.peek_at(self.pos)
        return self._ahead

    def next(self) -> Token:
        """Consume the next token."""
        token = self.peek()
        self.pos, self._ahead = token.end, None
        return token

    def peek_at(self, pos: int) -> Token:
        """The first token from a position on, without moving there."""
        skipped = _SKIP.match(self.sql, pos)
        if skipped:
            pos = skipped.end()
        found = _TOKEN.match(self.sql, pos)
        if found is None:
            return Token("end", "", pos, pos)
        kind = found.lastgroup or "op"
        text = found[kind]
        if kind == "name":
            text = text.replace("``", "`")
        return Token(kind, text, pos, found.end(), text.lower() if kind == "word" else "")

    def fail(self, wanted: str) -> MessageError:
        """An error with what was expected and what was found here."""
        token = self.peek()
        found = repr(self.sql[token.start : token.start + 40]) if token.kind != "end" else "the end"
        return MessageError(f"DDL: expected {wanted}, found {found}")

    def accept(self, *words: str) -> bool:
        """Consume these bare words (lower case) if all of them follow."""
        pos, ahead = self.pos, self.peek()
        for word in words:
            if self.peek().word != word:
                self.pos, self._ahead = pos, ahead
                return False
            self.next()
        return True

    def any_of(self, *words: str) -> str:
        """Consume one of these bare words; ``""`` if none follows."""
        word = self.peek().word
        if word and word in words:
            self.next()
            return word
        return ""

    def op(self, char: str) -> bool:
        """Consume this punctuation if it follows."""
        token = self.peek()
        if token.kind == "op" and token.text == char:
            self.next()
            return True
        return False

    def expect_op(self, char: str) -> None:
        """Consume this punctuation. Raises: MessageError if something else follows."""
        if not self.op(char):
            raise self.fail(f"{char!r}")

    def opens(self) -> bool:
        """Whether ``(`` follows; not consumed."""
        token = self.peek()
        return token.kind == "op" and token.text == "("

    def name(self) -> str:
        """Consume an identifier. Raises: MessageError if none follows."""
        token = self.peek()
        if token.kind not in ("name", "word"):
            raise self.fail("a name")
        return self.next().text

    def table(self) -> Name:
        """Consume ``name`` or ``schema.name``."""
        start = self.peek().start
        first = self.name()
        found: Name = (first, self.name()) if self.op(".") else (None, first)
        self.named[start] = Named(start, self.pos, found)
        return found

    def database(self) -> str:
        """Consume the name of a database."""
        start = self.peek().start
        found = self.name()
        self.named[start] = Named(start, self.pos, (found, ""))
        return found

    def charset(self) -> str:
        """Consume the name of a character set or collation, which may be a string."""
        return (self.string() if self.peek().kind == "string" else self.name()).lower()

    def at_partitioning(self) -> bool:
        """Whether PARTITION BY or REMOVE PARTITIONING follows, which may be behind the other parts without a comma."""
        token = self.peek()
        after = {"partition": "by", "remove": "partitioning"}.get(token.word)
        return after is not None and self.peek_at(token.end).word == after

    def at_kept_option(self) -> bool:
        """Whether the character set, collation or comment of a table follows. Options need no comma between them."""
        token = self.peek()
        after = self.peek_at(token.end)
        match token.word:
            case "charset" | "collate":
                return after.kind in ("word", "name", "string") or after.text == "="
            case "character" | "char":
                return after.word == "set"
            case "comment":
                text = self.peek_at(after.end) if after.text == "=" else after
                return text.kind == "string"
        return False

    def string(self) -> str:
        """Consume a string and return its value. Raises: MessageError if none follows."""
        if self.peek().kind != "string":
            raise self.fail("a string")
        return unescape(self.next().text)

    def members(self) -> tuple[str, ...]:
        """Consume ``'a','b')`` after the opening bracket of ENUM or SET.

        A list that cannot be read with literal backslashes (``'it\\'s'``) is read with escapes.
        """
        found = self._members(self.backslash) or self._members("escape") or self._member_tokens()
        if not found:
            raise self.fail("members of ENUM or SET")
        return found

    def _members(self, backslash: Backslash) -> tuple[str, ...]:
        pos, values = self.pos, []
        while True:
            match = _MEMBER[backslash].match(self.sql, pos)
            if match is None:
                return ()
            body = match[1]
            values.append(_unescape(body, "'") if backslash == "escape" else body.replace("''", "'"))
            pos = match.end()
            if match[2] == ")":
                self.pos, self._ahead = pos, None
                return tuple(values)

    def _member_tokens(self) -> tuple[str, ...]:
        """Read members with comments between them, or in hexadecimal."""
        pos, ahead, values = self.pos, self._ahead, []
        while (token := self.next()).kind in ("string", "hex"):
            values.append(unescape(token.text) if token.kind == "string" else _of_hex(token.text))
            if self.op(")"):
                return tuple(values)
            if not self.op(","):
                break
        self.pos, self._ahead = pos, ahead
        return ()

    def brackets(self) -> str:
        """Consume ``( ... )``, including nested ones, and return the text between them."""
        self.expect_op("(")
        start, depth = self.pos, 1
        while True:
            token = self.next()
            if token.kind == "end":
                raise self.fail("')'")
            if token.kind == "op":
                depth += (token.text == "(") - (token.text == ")")
                if depth == 0:
                    return self.sql[start : token.start].strip()

    def at_end(self) -> bool:
        """Whether only ``;`` remains."""
        while self.op(";"):
            pass
        return self.peek().kind == "end"

    def skip_item(self, *, options: bool = False) -> str:
        """Consume up to the next ``,`` or ``)`` outside brackets, to partitioning, or to the end; returns the text.

        ``options``: also stop before an option of a table that is kept.
        """
        start = self.peek().start
        while True:
            token = self.peek()
            ends = token.kind == "end" or (token.kind == "op" and token.text in ",);")
            if ends or self.at_partitioning() or (options and self.at_kept_option()):
                return self.sql[start : token.start].strip()
            if token.kind == "op" and token.text == "(":
                self.brackets()
            else:
                self.next()
