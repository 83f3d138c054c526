"""The Kafka cluster and the producer: ``[sink.kafka-config]`` and the sink URI."""

import re
import socket
from pathlib import Path
from typing import get_args

from ticdc_spark.changefeed.config.given import Given, read_keys
from ticdc_spark.changefeed.config.key import KAFKA
from ticdc_spark.changefeed.config.keys import KEYS
from ticdc_spark.changefeed.config.settings import Compression, KafkaTarget, Sasl, Tls
from ticdc_spark.changefeed.config.sink_uri import SinkUri
from ticdc_spark.config.paths import absolute
from ticdc_spark.config.toml import nearest

_FILES = ("ca", "cert", "key")
_OAUTH = ("sasl-oauth-client-id", "sasl-oauth-client-secret", "sasl-oauth-token-url")
_PREFIX = {"GSSAPI": "sasl-gssapi-", "OAUTHBEARER": "sasl-oauth-"}
_BY_PASSWORD = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}


def read_kafka(given: Given, uri: SinkUri, changefeed: str) -> KafkaTarget:
    """The cluster, the default topic and the producer. Mistakes are noted."""
    return read_keys(
        KafkaTarget,
        f"{KAFKA}.",
        given,
        servers=uri.servers,
        topic=uri.topic,
        compression=_compression(given),
        client_id=given.get(f"{KAFKA}.kafka-client-id") or _client_id(changefeed),
        tls=_tls(given, uri.scheme),
        sasl=_sasl(given),
    )


def _compression(given: Given) -> Compression:
    name = f"{KAFKA}.compression"
    found = str(given.get(name))
    known: dict[str, Compression] = {word: word for word in get_args(Compression)}
    if found.lower() not in known:
        near = nearest(found, known)
        given.warn(name, f'{found!r} is not known and taken for "none", as in TiCDC; known: {", ".join(known)}{near}')
    return known.get(found.lower(), "none")


def _client_id(changefeed: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"TiCDC_producer_{socket.gethostname()}_default_{changefeed}")


def _tls(given: Given, scheme: str) -> Tls | None:
    names = [f"{KAFKA}.{name}" for name in _FILES]
    files = {name: _existing(given, name) for name in names if given.given(name)}
    for name in names:
        if files and name not in files:
            given.mistake(name, "missing; `ca`, `cert` and `key` must be given together")
    switch, skip = f"{KAFKA}.enable-tls", f"{KAFKA}.insecure-skip-verify"
    wanted = given.get(switch)
    if files and wanted is False:
        given.mistake(switch, "found false, but `ca`, `cert` and `key` are given; allowed: true")
    if wanted is False and scheme == "kafka+ssl":
        given.mistake(switch, "found false, but the scheme of the sink URI is kafka+ssl; allowed: true, or kafka")
    if wanted or (wanted is None and (files or scheme == "kafka+ssl")):
        ca, cert, key = (files.get(name) for name in names)
        return Tls(ca=ca, cert=cert, key=key, insecure_skip_verify=given.get(skip))
    if given.get(skip):
        given.warn(skip, "has no effect, as TLS is off")
    return None


def _existing(given: Given, name: str) -> str:
    path = absolute(given.folder / "any", str(given.get(name)))
    if not path.is_file():
        given.mistake(name, f"found {str(given.get(name))!r}, but there is no file {path}")
    return str(path)


def _sasl(given: Given) -> Sasl | None:
    mechanism = given.get(f"{KAFKA}.sasl-mechanism")
    user, password = given.get(f"{KAFKA}.sasl-user"), given.get(f"{KAFKA}.sasl-password")
    oauth = [f"{KAFKA}.{name}" for name in _OAUTH]
    if any(map(given.given, oauth)) or mechanism == "OAUTHBEARER":
        if mechanism != "OAUTHBEARER":
            name = next(name for name in oauth if given.given(name))
            given.mistake(name, f"is for sasl-mechanism OAUTHBEARER; found {mechanism or 'none'}")
        for name in oauth:
            if not given.given(name):
                given.mistake(name, "missing; OAUTHBEARER needs client id, client secret and token URL")
    if mechanism is None:
        for name in ("sasl-user", "sasl-password"):
            if given.given(f"{KAFKA}.{name}"):
                given.warn(f"{KAFKA}.{name}", "has no effect without `sasl-mechanism`, as in TiCDC")
        return None
    if mechanism in _BY_PASSWORD:
        for name in ("sasl-user", "sasl-password"):
            if not given.given(f"{KAFKA}.{name}"):
                given.mistake(f"{KAFKA}.{name}", f"missing; sasl-mechanism {mechanism} needs it")
    if mechanism == "GSSAPI":
        _check_gssapi(given)
    return Sasl(mechanism=mechanism, user=user, password=password, options=_options(given, _PREFIX.get(mechanism, "")))


def _check_gssapi(given: Given) -> None:
    for name in ("auth-type", "service-name", "user", "keytab-path"):
        if not given.given(f"{KAFKA}.sasl-gssapi-{name}"):
            given.mistake(f"{KAFKA}.sasl-gssapi-{name}", "missing; sasl-mechanism GSSAPI needs it")
    keytab = f"{KAFKA}.sasl-gssapi-keytab-path"
    if given.given(keytab):
        _existing(given, keytab)


def _options(given: Given, prefix: str) -> dict[str, str]:
    """The keys of the mechanism, as text. Paths are absolute. Spaces separate scopes."""
    options = {}
    for found in KEYS:
        if not prefix or found.section != KAFKA or found.use != "used" or not found.name.startswith(prefix):
            continue
        value = given.get(found.id)
        if isinstance(value, Path):
            value = absolute(given.folder / "any", str(value))
        if isinstance(value, tuple):
            value = " ".join(value)
        if value is not None:
            options[found.name] = str(value).lower() if isinstance(value, bool) else str(value)
    return options
