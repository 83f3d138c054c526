"""How the values of a job file are read. Each type reads its values and describes what is allowed."""

import logging
import re
import zoneinfo
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

from ticdc_spark.config import toml as job_file
from ticdc_spark.config.secrets import remember
from ticdc_spark.config.table_filter import read_patterns
from ticdc_spark.config.toml import NotAllowed, Reads
from ticdc_spark.protocols import ALIASES, PROTOCOLS, canonical

log = logging.getLogger(__name__)
ModeName: TypeAlias = Literal["watermark", "arrival"]
OnReject: TypeAlias = Literal["stop", "quarantine", "continue"]
WriterName: TypeAlias = Literal["python", "spark"]
CommitName: TypeAlias = Literal["table", "batch"]
Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
NotNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class SkipDdl(msgspec.Struct, frozen=True):
    """A DDL that a person has decided to skip: exactly one, by its commitTs and the start of its SQL."""

    commit_ts: int
    prefix: str
    """``*`` for any SQL."""

    def matches(self, commit_ts: int, query: str) -> bool:
        """Whether this is the DDL. White space and case of the SQL do not matter."""
        if commit_ts != self.commit_ts:
            return False
        return self.prefix == "*" or _plain(query).startswith(_plain(self.prefix))


class MessagePlace(msgspec.Struct, frozen=True, order=True):
    """The place of a message."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


def _plain(sql: str) -> str:
    return " ".join(sql.split()).casefold()


def skip_ddl_line(commit_ts: int, query: str) -> str:
    """The line of the job file that skips exactly this DDL."""
    sql = " ".join(query.split())
    entry = f"{commit_ts}:{sql[:60].rstrip()}".replace("\\", "\\\\").replace('"', '\\"')
    return f'skip-ddl = ["{entry}"]'


def skip_messages_line(places: Iterable[MessagePlace]) -> str:
    """The line of the job file that skips exactly these messages."""
    escaped = (str(place).replace("\\", "\\\\").replace('"', '\\"') for place in sorted(set(places)))
    quoted = (f'"{place}"' for place in escaped)
    return f"skip-messages = [{', '.join(quoted)}]"


def _name(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.-]+", value) and value not in (".", ".."):
        return value
    raise ValueError


def _identifier(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        return value
    raise ValueError


def _text(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError


def _characters(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and value and all(isinstance(item, str) and item.strip() for item in value):
        return tuple(value)
    raise ValueError


def _text_or_texts(value: object) -> tuple[str, ...]:
    return _texts([value] if isinstance(value, str) else value)


def _paths(value: object) -> tuple[Path, ...]:
    return tuple(map(Path, _text_or_texts(value)))


def _quote(value: object) -> str:
    if isinstance(value, str) and len(value) <= 1 and value not in ("\r", "\n"):
        return value
    raise ValueError


def _commit_ts(value: object) -> bool:
    if value is True:
        return True
    raise ValueError


def _servers(value: object) -> str:
    servers = [part.strip() for item in _text_or_texts(value) for part in item.split(",")]
    if all(re.fullmatch(r"(\[[^\]]+\]|[^:\s/]+):\d{1,5}", server) for server in servers):
        return ",".join(servers)
    raise ValueError


class Address(msgspec.Struct, frozen=True):
    """Where a server listens."""

    host: str
    port: int


def address_of(value: object) -> Address:
    """``host:port``, or ``:port`` for this host. Raises: ValueError"""
    host, colon, port = _text(value).rpartition(":")
    if not (colon and re.fullmatch(r"[0-9]{1,5}", port) and int(port) < 65536):
        raise ValueError
    return Address(host.strip("[]") or "127.0.0.1", int(port))


def _secret(value: object) -> str:
    text = _text(value)
    remember(text)
    if text.isascii() and text.isprintable():
        return text
    raise ValueError


def _webhook(value: object) -> str:
    text = _text(value)
    remember(text)  # whoever has the URL can write there
    if re.fullmatch(r"https?://[^\s/?#]+[!-~]*", text):
        return text
    raise ValueError


def _collector(value: object) -> str:
    text = _text(value)
    if re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", text):
        return text.rstrip("/")
    raise ValueError


TOKEN = 16
"""The fewest characters of a token."""


def _token(value: object) -> str:
    if isinstance(value, str):
        remember(value)  # also a token that is refused
        if len(value) >= TOKEN and value.isascii() and value.isprintable() and value == value.strip():
            return value
    raise ValueError


def _pattern(value: object) -> str:
    try:
        re.compile(_text(value))
    except re.error as error:
        raise NotAllowed(f"a regular expression ({error})") from None
    return _text(value)


def _zone(value: object) -> str:
    try:
        return zoneinfo.ZoneInfo(_text(value)).key
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError):
        raise ValueError from None


def _protocol(value: object) -> str:
    if isinstance(value, str) and canonical(value) in PROTOCOLS:
        return canonical(value)
    near = job_file.nearest(value, (*PROTOCOLS, *ALIASES)) if isinstance(value, str) else ""
    raise NotAllowed(", ".join(f'"{name}"' for name in sorted(PROTOCOLS)) + near)


def _registry(value: object) -> str:
    text = _text(value)
    addresses = [part.strip() for part in text.split(",")]
    if text.startswith("file:") or all(re.match(r"https?://[^/\s]", address) for address in addresses):
        return text
    raise ValueError


def _upstream(value: object) -> str:
    text = _text(value)
    if re.match(r"mysql://[^/?#]+/?(\?[^#]*)?$", text):
        return text
    raise ValueError


def _postgres(value: object) -> str:
    text = _text(value)
    if re.match(r"postgres(ql)?://[^/?#]+/[^/?#]+(\?[^#]*)?$", text):
        return text
    raise ValueError


def _skips(value: object) -> tuple[SkipDdl, ...]:
    if not isinstance(value, list):
        raise ValueError
    skips = []
    for item in value:
        ts, colon, prefix = item.partition(":") if isinstance(item, str) else ("", "", "")
        if not (colon and re.fullmatch(r"[0-9]{1,19}", ts) and 0 < int(ts) < 2**63 and prefix.strip()):
            raise ValueError
        skips.append(SkipDdl(int(ts), prefix.strip()))
    return tuple(skips)


def _places(value: object) -> tuple[MessagePlace, ...]:
    if not isinstance(value, list):
        raise ValueError
    found = []
    for item in value:
        topic, partition, offset = ("", "", *item.rsplit("/", 2))[-3:] if isinstance(item, str) else ("", "", "")
        if not (topic and re.fullmatch(r"[0-9]{1,9}", partition) and re.fullmatch(r"[0-9]{1,18}", offset)):
            raise ValueError
        found.append(MessagePlace(topic, int(partition), int(offset)))
    return tuple(found)


def _choice(key: str, words: Iterable[str], old_words: Mapping[str, str]) -> Reads:
    """One of some words. ``old_words`` are former names, which this version still reads with a warning."""
    allowed = frozenset(words)

    def read(value: object) -> str:
        if isinstance(value, str) and value in old_words:
            new = old_words[value]
            log.warning('%s = "%s" is now "%s"; the next version does not read the old word', key, value, new)
            return new
        if isinstance(value, str) and value in allowed:
            return value
        raise ValueError

    return Reads(read, ", ".join(f'"{word}"' for word in words))


Name: TypeAlias = Annotated[str, Reads(_name, "letters, digits, `_`, `.` and `-`")]
Identifier: TypeAlias = Annotated[str, Reads(_identifier, "a letter or `_`, then letters, digits and `_`")]
Text: TypeAlias = Annotated[str, Reads(_text, "a string that is not empty", secret=True)]
Label: TypeAlias = Annotated[str, Reads(_text, "a string that is not empty")]
Folder: TypeAlias = Annotated[Path, Reads(lambda value: Path(_text(value)), "a path")]
Characters: TypeAlias = Annotated[str, Reads(_characters, "characters")]
Quote: TypeAlias = Annotated[str, Reads(_quote, "one character, or an empty string")]
CommitTs: TypeAlias = Annotated[
    bool, Reads(_commit_ts, "true: set it in the changefeed, too, for rows without their commitTs cannot be ordered")
]
Zone: TypeAlias = Annotated[str, Reads(_zone, 'an IANA time zone such as "Asia/Shanghai", "UTC"')]
Skips: TypeAlias = Annotated[
    tuple[SkipDdl, ...], Reads(_skips, 'a list of "<commitTs>:<start of the SQL>", or "<commitTs>:*" for any SQL')
]
Places: TypeAlias = Annotated[
    tuple[MessagePlace, ...], Reads(_places, 'a list of "<topic>/<partition>/<offset>", such as "shop/0/1042"')
]
Patterns: TypeAlias = Annotated[
    tuple[str, ...], Reads(read_patterns, 'a list of TiCDC filter rules such as "shop.*", "!shop.tmp_*", "*.*"')
]
Topics: TypeAlias = Annotated[tuple[str, ...], Reads(_texts, "a list of topic names")]
Paths: TypeAlias = Annotated[tuple[Path, ...], Reads(_paths, "a path or a list of paths")]
Servers: TypeAlias = Annotated[str, Reads(_servers, '"host:port", several with commas or as a list')]
Listen: TypeAlias = Annotated[
    Address, Reads(address_of, '"host:port" such as "127.0.0.1:9464", or ":9464" for this host')
]
Secret: TypeAlias = Annotated[str, Reads(_secret, "a text in ASCII", secret=True)]
_ENCODED = ", with special characters URL-encoded (# is %23, @ is %40)"
Collector: TypeAlias = Annotated[str, Reads(_collector, 'a URL such as "http://127.0.0.1:4318"')]
Webhook: TypeAlias = Annotated[str, Reads(_webhook, 'a URL such as "https://hooks.example/x"', secret=True)]
Command: TypeAlias = Annotated[
    tuple[str, ...], Reads(_texts, 'a program and its arguments, such as ["/usr/local/bin/page", "--team", "data"]')
]
Token: TypeAlias = Annotated[
    str, Reads(_token, f"a text of {TOKEN} characters at least, better from a file", secret=True)
]
TopicPattern: TypeAlias = Annotated[str, Reads(_pattern, "a regular expression")]
RegistryUrl: TypeAlias = Annotated[
    str,
    Reads(_registry, 'a URL such as "https://user:password@host:8081", or "file:schemas.json"', secret=True),
]
UpstreamUrl: TypeAlias = Annotated[
    str, Reads(_upstream, f'a URL such as "mysql://user:password@host:4000"{_ENCODED}', secret=True)
]
PostgresUrl: TypeAlias = Annotated[
    str, Reads(_postgres, f'a URL such as "postgresql://user:password@host:5432/database"{_ENCODED}', secret=True)
]
ProtocolName: TypeAlias = Annotated[str, Reads(_protocol, "the name of a protocol")]
Writer: TypeAlias = Annotated[WriterName, _choice("[job] writer", ("python", "spark"), {"tasks": "python"})]
Mode: TypeAlias = Annotated[ModeName, _choice("[job] mode", ("watermark", "arrival"), {"barrier": "watermark"})]
