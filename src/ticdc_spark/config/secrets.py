"""Secrets: where they come from, and how they are kept out of all output.

A string of the job file may hold ``${env:NAME}``, ``${env:NAME:-default}`` and ``${file:PATH}``; ``$${`` writes a
plain ``${``. Their values are remembered here for the life of the process. ``redact`` replaces them in any text:
log lines, errors, tracebacks of Python and of the JVM, ``repr`` of a job.
"""

import base64
import json
import os
import re
import threading
import urllib.parse
from collections.abc import Iterable
from pathlib import Path

SECRET = "(secret)"

_REFERENCE = re.compile(r"\$(?P<escape>\$)\{|\$\{(?P<kind>(?i:env|file)):(?P<rest>[^{}]*)(?P<end>\}?)")
_SECRET_KEY = re.compile(
    r"(?i)passw|passphrase|secret|token|credential|jaas|(?:private|access|api|account|shared|encryption)[-._]?key"
    r"|oauthbearer\.config|keystore\.key|ssl\.key\.pem|connection[-._]?string|azure\.sas\."
)
_NO_SECRET_KEY = re.compile(
    r"(?i)(?:path|location|file|url|uri|endpoint|provider|class|type|enabled|alias|name|id|[-._]ms)$"
)
# Patterns that are always secret: user:password@host, and password=… in a URL or a JAAS line.
_SHAPES = (
    (re.compile(r"(?<=://)([^/@\s:\"']*):([^/@\s\"']+)(?=@)"), rf"\1:{SECRET}"),
    (
        re.compile(r"(?i)(password|passwd|pwd)(\s*=\s*)(?:\"[^\"]*\"|'[^']*'|(?!\(secret)[^\s&;,\"')]+)"),
        rf"\1\2{SECRET}",
    ),
)
_SHORT = 6

_lock = threading.Lock()
_known: dict[str, re.Pattern[str] | None] = {}


class ReferenceFault(Exception):
    """A reference that cannot be resolved; the text says which and why."""


def remember(value: str) -> None:
    """Keep ``value`` out of everything that ``redact`` sees from now on, also escaped, quoted and in base64."""
    if not value.strip():
        return
    with _lock:
        forms = {form for part in _parts(value) for form in _forms(part)}
        words = {form: None for form in [*_known, *forms] if form}
        _known.clear()
        _known.update(dict.fromkeys(sorted(words, key=len, reverse=True)))
        for word in _known:
            # Match a short value ("1", "abc") only as a whole word, or it would break other words.
            if len(word) < _SHORT:
                _known[word] = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")


def redact(text: str) -> str:
    """Replace every known secret in ``text`` by ``(secret)``, and passwords in URLs and ``password=…`` too."""
    with _lock:
        known = list(_known.items())
    for word, pattern in known:
        text = text.replace(word, SECRET) if pattern is None else pattern.sub(SECRET, text)
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text


def forget() -> None:
    """Forget every secret; for tests."""
    with _lock:
        _known.clear()


def is_secret_key(key: str) -> bool:
    """Whether an option's name marks its value as a secret: ``kafka.sasl.jaas.config``."""
    return _SECRET_KEY.search(key) is not None and _NO_SECRET_KEY.search(key) is None


def resolve(text: str, folder: Path, *, public: bool = False) -> str:
    """Resolve the references in ``text``; paths are relative to ``folder``.

    A file's text is always secret. A variable's text is secret unless ``public``. A default (``:-``) is not secret, as
    anyone can read it in the job file.

    Raises: ReferenceFault for an unset variable, an unreadable file or a malformed reference.
    """

    def value_of(match: re.Match[str]) -> str:
        if match["escape"]:
            return "${"
        kind, rest = match["kind"], match["rest"]
        if not match["end"]:
            raise ReferenceFault(f"{match[0]!r} has no closing brace; allowed: ${{env:NAME}}, ${{file:PATH}}")
        if kind != kind.lower():
            raise ReferenceFault(f"found {match[0]!r}; allowed: ${{{kind.lower()}:{rest}}}")
        found = _file(rest, folder) if kind == "file" else _environment(rest)
        if isinstance(found, _Default):
            return found
        if kind == "file" or not public:
            remember(found)
        return found

    return _REFERENCE.sub(value_of, text)


class _Default(str):
    """A value from the job file itself."""


def _environment(rest: str) -> str:
    name, has_default, default = rest.partition(":-")
    found = os.environ.get(name)
    if has_default and not found:
        return _Default(default)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ReferenceFault(f"found ${{env:{rest}}}; allowed: the name of an environment variable")
    if found is None:
        raise ReferenceFault(f"environment variable {name} is not set; set it, or write ${{env:{name}:-default}}")
    return found


def _file(rest: str, folder: Path) -> str:
    path = folder / os.path.expanduser(rest)  # noqa: PTH111  Path.expanduser fails for a user that there is not
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise ReferenceFault(f"file {path} of ${{file:{rest}}} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ReferenceFault(f"file {path} of ${{file:{rest}}} is not UTF-8 text") from error
    except ValueError as error:
        raise ReferenceFault(f"file {path} of ${{file:{rest}}} cannot be read: {error}") from error


def _parts(value: str) -> Iterable[str]:
    """The value, each long line of it (a PEM key is logged line by line), and the passwords inside a JAAS line."""
    yield value
    if "\n" in value:
        yield from (line.strip() for line in value.splitlines() if len(line.strip()) >= 8 and "-----" not in line)
    for shape in (r"password\s*=\s*\"((?:[^\"\\]|\\.)+)\"", r"(?<=:)([^/@:\s]+)(?=@)"):
        yield from re.findall(shape, value)


def _forms(value: str) -> Iterable[str]:
    """The spellings of a value in texts: plain, in JSON, in repr, in a URL, in base64."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield urllib.parse.quote(value, safe="")
    yield urllib.parse.quote_plus(value)
    if len(value) >= _SHORT:
        yield base64.b64encode(value.encode()).decode()
