"""A Confluent schema registry, through confluent-kafka's client: schemas by id, and registering them.

Import this module only when a registry is used, as its HTTP client is slow to import.

Answers about a schema are data: an unknown id is a KeyError, a refused schema is IncompatibleSchema. Everything else
(down, TLS, wrong password, no registry) is RegistryFault, so a broken registry never makes a message bad.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.common._httpx_compat import httpx
from confluent_kafka.schema_registry.error import SchemaRegistryError

from ticdc_spark.errors import IncompatibleSchema, MessageError, RegistryFault, UsageError

_UNKNOWN_ID = 40403
_UNKNOWN_SUBJECT = (40401, 40402)
_CONFLICT = 409
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_QUESTIONS = {
    "mismatch": "; its certificate is for another host",
    "CERTIFICATE_VERIFY_FAILED": "; does ssl.ca.location name the authority of its certificate?",
    "WRONG_VERSION_NUMBER": "; is it http://?",
    "Server disconnected": "; is it https://?",
    "alert": "; does it require a client's certificate (ssl.certificate.location, ssl.key.location)?",
}
_NUMBERS = {
    "cache.capacity",
    "cache.latest.ttl.sec",
    "max.retries",
    "retries.max.wait.ms",
    "retries.wait.ms",
    "timeout",
}
T = TypeVar("T")


class SchemaRegistry:
    """Schemas by id, fetched once, and ids by subject and schema, registered once.

    ``url`` may have ``user:password@``, each URL-encoded, and several addresses joined by commas. ``options`` are
    passed to the client under its own names: ``ssl.ca.location``, ``ssl.certificate.location``, ``ssl.key.location``,
    ``basic.auth.user.info``, ``max.retries``, ``timeout`` (seconds) … A number may be text.
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        """Create the client. It does not connect yet.

        Raises: UsageError for a URL or an option that the client does not accept.
        """
        addresses, user = _split(url)
        self._where = addresses
        given = {"url": addresses, **({"basic.auth.user.info": user} if user else {}), **_typed(options or {})}
        try:
            self._client = SchemaRegistryClient(given)
        except (ValueError, TypeError, OSError) as error:
            files = [f"{key} {given[key]}" for key in _FILES if key in given and not Path(given[key]).exists()]
            why = f"there is no file {files[0]}" if files else error
            raise UsageError(f"schema registry {addresses}: {why}") from error
        self._schemas: dict[int, str] = {}
        self._ids: dict[tuple[str, str], int] = {}

    def close(self) -> None:
        """Close its connections; also at the end of a ``with``."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def known(self) -> Mapping[int, str]:
        """The schemas fetched so far."""
        return self._schemas

    def __getitem__(self, number: int) -> str:
        """The text of a schema.

        Raises: KeyError for an id that the registry does not have; MessageError for a schema that is not Avro;
        RegistryFault for a registry that cannot be reached.
        """
        found = self._schemas.get(number)
        if found is None:
            try:
                schema = self._ask(f"schema id {number}", lambda: self._client.get_schema(number))
            except SchemaRegistryError as error:
                if error.error_code == _UNKNOWN_ID:
                    raise KeyError(number) from error
                raise self._fault(f"schema id {number}", error) from error
            if schema.schema_type not in (None, "AVRO"):
                raise MessageError(f"schema id {number} is {schema.schema_type}; Avro is expected")
            found = self._schemas[number] = schema.schema_str or ""
        return found

    def register(self, subject: str, schema: str) -> int:
        """Register a schema under a subject, unless it is there. Returns: its id.

        Raises: IncompatibleSchema if the subject's compatibility check refuses it; RegistryFault.
        """
        number = self._ids.get((subject, schema))
        if number is None:
            what = f"subject {subject}"
            try:
                number = self._ask(what, lambda: self._client.register_schema(subject, Schema(schema, "AVRO")))
            except SchemaRegistryError as error:
                if error.http_status_code == _CONFLICT:
                    raise self._incompatible(subject, schema, error) from error
                raise self._fault(what, error) from error
            self._ids[subject, schema] = number
        return number

    def _ask(self, what: str, question: Callable[[], T]) -> T:
        try:
            return question()
        except SchemaRegistryError as error:
            if error.http_status_code == _CONFLICT or error.error_code in (_UNKNOWN_ID, *_UNKNOWN_SUBJECT):
                raise
            raise self._fault(what, error) from error
        except (httpx.HTTPError, OSError, ValueError, TypeError) as error:
            raise self._fault(what, error) from error

    def _fault(self, what: str, error: Exception) -> RegistryFault:
        why = str(error) or type(error).__name__
        return RegistryFault(f"schema registry {self._where}, {what}: {why}{_question(error, why)}")

    def _incompatible(self, subject: str, schema: str, refusal: SchemaRegistryError) -> IncompatibleSchema:
        try:
            latest = self._ask(f"subject {subject}", lambda: self._client.get_latest_version(subject))
            changes = schema_changes(latest.schema.schema_str or "{}", schema)
        except (SchemaRegistryError, RegistryFault):
            changes = []
        what = "; ".join(changes) or "what changed is not known"
        return IncompatibleSchema(
            f"subject {subject}: the registry refuses the new schema: {what} ({refusal.error_message})"
        )


def _question(error: Exception, why: str) -> str:
    """The most likely cause, if the client's error does not name it."""
    if isinstance(error, SchemaRegistryError):
        refused = error.http_status_code in (401, 403)
        return "; user and password belong in its URL, as user:password@, URL-encoded" if refused else ""
    for part, question in _QUESTIONS.items():
        if part in why:
            return question
    return ""


def _typed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Converts numbers, which are text in a configuration file, for the client."""
    return {
        key: (float(text) if "." in str(text) else int(text))
        if key in _NUMBERS and re.fullmatch(r"\d+(\.\d+)?", str(text))
        else text
        for key, text in options.items()
    }


def _split(url: str) -> tuple[str, str | None]:
    """Addresses without user and password, and ``user:password`` of the first that has them."""
    addresses, user = [], None
    for address in filter(None, map(str.strip, url.split(","))):
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                "a schema registry is file:PATH, or a URL that begins with http:// or https:// and names a host"
            )
        before, found, host = parts.netloc.rpartition("@")
        if found and user is None:
            name, _, password = before.partition(":")
            user = f"{unquote(name)}:{unquote(password)}"
        addresses.append(urlunsplit(parts._replace(netloc=host)))
    if not addresses:
        raise UsageError("a schema registry needs a URL")
    return ",".join(addresses), user


def schema_changes(old: str, new: str) -> list[str]:
    """What a table's new schema changes, a sentence a column."""
    try:
        before, after = ({field["name"]: field for field in json.loads(text).get("fields", ())} for text in (old, new))
    except (ValueError, TypeError, KeyError, AttributeError):
        return []
    found = []
    for name, field in after.items():
        if name not in before:
            found.append(f"column `{name}` is new, {_shown(field)}, {_default(field)}")
        elif _shown(before[name]) != _shown(field):
            found.append(f"column `{name}` was {_shown(before[name])} and is {_shown(field)}")
        elif _default(before[name]) != _default(field):
            found.append(f"column `{name}` was {_default(before[name])} and is {_default(field)}")
    found += [f"column `{name}` is gone" for name in before if name not in after]
    return found


def _default(field: Mapping[str, Any]) -> str:
    return f"with default {json.dumps(field['default'])}" if "default" in field else "without a default"


def _shown(field: Mapping[str, Any]) -> str:
    kind = field["type"]
    nullable = isinstance(kind, list)
    bare = next((branch for branch in kind if branch != "null"), kind) if nullable else kind
    if isinstance(bare, dict):
        parameters = bare.get("connect.parameters", {})
        more = [parameters[name] for name in ("length", "allowed") if name in parameters]
        more += [str(bare[name]) for name in ("precision", "scale") if name in bare]
        bare = f"{parameters.get('tidb_type', '?')}{'(' + ','.join(more) + ')' if more else ''} as {bare.get('type')}"
    return f"{bare}{'' if nullable else ' not null'}"
