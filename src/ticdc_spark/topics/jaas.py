"""``sasl.jaas.config`` of Kafka's Java client: the login module and its options."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|([^\s"'=;]+)|([=;]))""", re.DOTALL)
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_FORM = "write '<login module> required <name>=\"<value>\" …;'"


class Login(NamedTuple):
    """One entry of a JAAS configuration."""

    module: str
    """Name of the class without its package: ``PlainLoginModule``."""
    options: Mapping[str, str]


def parse_jaas(text: str) -> Login:
    """Read the value as Java does: options are quoted with ``"`` or ``'``, with Java's escapes.

    Raises: ValueError that names the mistake and shows nothing of the text, which has a password.
    """
    words = list(_words(text))
    if len(words) < 2 or words[1] not in _FLAGS:
        raise ValueError(f"not a login module with its options; {_FORM}")
    if words[-1] != ";" or words.count(";") > 1:
        raise ValueError(f"one `;` must end it; {_FORM}")
    options, rest = {}, words[2:-1]
    for at in range(0, len(rest), 3):
        if len(rest) < at + 3 or rest[at + 1] != "=" or "=" in (rest[at], rest[at + 2]):
            raise ValueError(f"an option is not name=value; {_FORM}")
        options[rest[at].removeprefix("\0")] = rest[at + 2].removeprefix("\0")
    return Login(words[0].rpartition(".")[2], options)


def _words(text: str) -> Iterator[str]:
    """Words and signs. A quoted word begins with NUL, to distinguish it from a sign."""
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"a quotation mark is not closed; {_FORM}")
        at = found.end()
        double, single, word, sign = found.groups()
        quoted = double if double is not None else single
        yield word or sign if quoted is None else "\0" + _ESCAPE.sub(_unescaped, quoted)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _LETTERS.get(code, code)
