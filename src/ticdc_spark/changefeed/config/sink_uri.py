"""TiCDC's sink URI: ``kafka://host:port,host:port/topic?name=value&…``, values URL-encoded.

It may be or have ``${env:NAME}`` and ``${file:PATH}``, whose values are not URL-decoded.
"""

import re
import urllib.parse
from pathlib import Path

import msgspec

from ticdc_spark.changefeed.config.keys import BY_URI
from ticdc_spark.config.secrets import ReferenceFault, is_secret_key, remember, resolve
from ticdc_spark.config.toml import Mistakes

WHERE = "sink URI"
_FORM = "kafka://host:port,host:port/topic?name=value"
_SCHEMES = ("kafka", "kafka+ssl")
_SERVER = r"(?:\[[0-9A-Fa-f:.]+\]|[^:\s/\[\]@]+):([0-9]{1,5})"
_REFERENCE = re.compile(r"\$?\$\{[^{}]*\}")
_MASK = re.compile("\ue000([0-9]+)\ue001")


class Parameter(msgspec.Struct, frozen=True):
    """A decoded ``name=value`` of the URI. ``secret`` values are remembered, and must not be shown."""

    name: str
    value: str
    secret: bool


class SinkUri(msgspec.Struct, frozen=True):
    """The parts of a sink URI, without the wrong ones."""

    scheme: str = ""
    servers: tuple[str, ...] = ()
    topic: str = ""
    parameters: tuple[Parameter, ...] = ()


def parse_sink_uri(text: str, folder: Path, mistakes: Mistakes) -> SinkUri:
    """Split a sink URI. Mistakes are noted. Paths of references are relative to ``folder``."""
    text = text.strip()
    resolving = True
    if _REFERENCE.fullmatch(text):
        try:
            text, resolving = resolve(text, folder, public=True).strip(), False
        except ReferenceFault as fault:
            mistakes.add(WHERE, str(fault))
            return SinkUri()
    return _Parser(text, folder, mistakes, resolving).parsed()


class _Parser:
    def __init__(self, text: str, folder: Path, mistakes: Mistakes, resolving: bool) -> None:
        self._folder = folder
        self._mistakes = mistakes
        self._references: list[str] = []
        # A reference may have any separator of a URI, so one character replaces it while the URI is split.
        if resolving and "\ue000" not in text:
            text = _REFERENCE.sub(self._masked, text)
        scheme, colon, rest = text.partition("://")
        self._scheme = scheme.lower() if colon else ""
        self._rest = rest

    def parsed(self) -> SinkUri:
        rest, hash_, _ = self._rest.partition("#")
        before, _, query = rest.partition("?")
        authority, _, path = before.partition("/")
        parameters = self._parameters(query)  # first, so that secrets are known
        if not self._scheme:
            self._add("", f"found no scheme; allowed: {_FORM}")
            return SinkUri()
        if self._scheme not in _SCHEMES:
            self._add("scheme", f"found {self._scheme!r}; allowed: kafka, kafka+ssl (other sinks are TiCDC's alone)")
        if hash_:
            self._add("", "`#` must be written %23: text behind it is not read")
        return SinkUri(self._scheme, self._servers(authority), self._topic(path), parameters)

    def _servers(self, authority: str) -> tuple[str, ...]:
        if "@" in authority:
            remember(urllib.parse.unquote(authority.rpartition("@")[0].partition(":")[2]))
            self._add("host", "user and password do not belong here; allowed: `sasl-user` and `sasl-password`")
            return ()
        text = self._resolved("host", authority)
        if text is None:
            return ()
        servers = tuple(part.strip() for part in text.split(","))
        for server in servers:
            match = re.fullmatch(_SERVER, server)
            if match is None or not 0 < int(match[1]) < 2**16:
                self._add("host", f"found {server!r}; allowed: host:port, several joined by commas")
                return ()
        return servers

    def _topic(self, path: str) -> str:
        decoded = self._decoded("topic", path)
        topic = self._resolved("topic", decoded) if decoded is not None else None
        if topic is None:
            return ""
        topic = topic.strip("/")
        if not topic:
            self._add("topic", f"missing; allowed: {_FORM}")
        elif not is_topic(topic):
            self._add("topic", f"found {topic!r}; allowed: 1 to 249 letters, digits, `.`, `_` and `-`")
            return ""
        return topic

    def _parameters(self, query: str) -> tuple[Parameter, ...]:
        found: dict[str, Parameter] = {}
        pairs = [pair.partition("=") for pair in query.split("&") if pair]
        for raw, _, value in pairs:
            if self._is_secret(raw):
                remember_secret(self._unmasked(value), url=self._is_url(raw))
        for raw, _, value in pairs:
            name = self._decoded("", raw)
            if name is None:
                continue
            secret = self._is_secret(name)
            decoded = self._decoded(name, value, secret)
            text = self._resolved(name, decoded, secret) if decoded is not None else None
            if text is None:
                continue
            if secret:
                remember_secret(text, url=self._is_url(name))
            if name in found and found[name].value != text:
                self._add(name, "given twice, with different values")
            found.setdefault(name, Parameter(name, text, secret))
        return tuple(found.values())

    def _is_secret(self, name: str) -> bool:
        key = BY_URI.get(name)
        return key.secret if key else is_secret_key(name)

    def _is_url(self, name: str) -> bool:
        return name in BY_URI and BY_URI[name].url

    def _decoded(self, name: str, text: str, secret: bool = False) -> str | None:
        shown = "" if secret else f"found {self._unmasked(text)!r}; "
        if re.search(r"%(?![0-9A-Fa-f]{2})", text):
            self._add(name, f"{shown}allowed: URL-encoded text, in which % is written %25")
            return None
        try:
            return urllib.parse.unquote_plus(text, errors="strict")
        except UnicodeDecodeError:
            self._add(name, f"{shown}allowed: URL-encoded UTF-8")
            return None

    def _resolved(self, name: str, text: str, secret: bool = False) -> str | None:
        if not self._references:
            return text
        try:
            return resolve(self._unmasked(text), self._folder, public=not secret)
        except ReferenceFault as fault:
            self._add(name, str(fault))
            return None

    def _masked(self, match: re.Match[str]) -> str:
        self._references.append(match[0])
        return f"\ue000{len(self._references) - 1}\ue001"

    def _unmasked(self, text: str) -> str:
        return _MASK.sub(lambda match: self._references[int(match[1])], text) if self._references else text

    def _add(self, name: str, what: str) -> None:
        self._mistakes.add(f"{WHERE} {name}".strip(), what)


def is_topic(name: str) -> bool:
    """Whether Kafka allows a name for a topic."""
    return re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) is not None and name not in (".", "..")


def remember_secret(text: str, *, url: bool = False) -> None:
    """Keep a secret out of all output. ``url``: only the part that may be its password."""
    for form in {text, urllib.parse.unquote_plus(text)}:
        words = re.findall(r"(?:^|//|,)[^:/@,]*:(.+)@", form) if url else [form]
        for word in words:
            for secret in {word, urllib.parse.unquote(word)}:
                if len(secret) > 1 and secret not in ("true", "false"):
                    remember(secret)
