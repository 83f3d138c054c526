"""librdkafka's options for a changefeed: for its producer and its admin client."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from ticdc_spark.changefeed.config.settings import KafkaTarget, Sasl, Tls
from ticdc_spark.errors import UsageError

_GSSAPI = {
    "sasl-gssapi-service-name": "sasl.kerberos.service.name",
    "sasl-gssapi-user": "sasl.kerberos.principal",
    "sasl-gssapi-keytab-path": "sasl.kerberos.keytab",
}
_OAUTH = {
    "sasl-oauth-client-id": "sasl.oauthbearer.client.id",
    "sasl-oauth-token-url": "sasl.oauthbearer.token.endpoint.url",
    "sasl-oauth-scopes": "sasl.oauthbearer.scope",
}


def connection(kafka: KafkaTarget) -> dict[str, Any]:
    """Options that every client of the cluster needs."""
    secure = ("SASL_" if kafka.sasl else "") + ("SSL" if kafka.tls else "PLAINTEXT")
    options: dict[str, Any] = {
        "bootstrap.servers": ",".join(kafka.servers),
        "client.id": kafka.client_id,
        "security.protocol": secure,
        "socket.connection.setup.timeout.ms": _milliseconds(kafka.dial_timeout, 1000, 2**31 - 1),
        "socket.timeout.ms": _milliseconds(max(kafka.read_timeout, kafka.write_timeout), 10, 300_000),
        "reconnect.backoff.max.ms": 2000,
        "topic.metadata.refresh.interval.ms": 60_000,
        "allow.auto.create.topics": False,
    }
    if kafka.tls is not None:
        options |= _tls(kafka.tls)
    if kafka.sasl is not None:
        options |= _sasl(kafka.sasl)
    return options


def producing(kafka: KafkaTarget) -> dict[str, Any]:
    """Options that only the producer needs.

    It is idempotent if all replicas acknowledge: its retries never repeat or reorder messages. It retries without end.
    The caller that waits for acknowledgements decides when that is too long.
    """
    idempotent = kafka.required_acks == -1
    return connection(kafka) | {
        "acks": kafka.required_acks,
        "enable.idempotence": idempotent,
        # without idempotence, retries keep the order only if there is one request at a time
        "max.in.flight.requests.per.connection": 5 if idempotent else 1,
        "message.timeout.ms": 0,
        "request.timeout.ms": _milliseconds(kafka.write_timeout, 1, 900_000),
        "retry.backoff.max.ms": 2000,
        "compression.type": kafka.compression,
        "linger.ms": 5,
        "message.max.bytes": 1_000_000_000,  # the encoder keeps the topic's own limit
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 262_144,
    }


def _milliseconds(seconds: float, low: int, high: int) -> int:
    """A timeout in milliseconds, within librdkafka's bounds."""
    return min(high, max(low, int(seconds * 1000)))


def _tls(tls: Tls) -> dict[str, Any]:
    named = {"ssl.ca.location": tls.ca, "ssl.certificate.location": tls.cert, "ssl.key.location": tls.key}
    options: dict[str, Any] = {key: value for key, value in named.items() if value}
    if tls.insecure_skip_verify:
        options["enable.ssl.certificate.verification"] = False
    return options


def _sasl(sasl: Sasl) -> dict[str, Any]:
    options: dict[str, Any] = {"sasl.mechanism": sasl.mechanism}
    if sasl.mechanism == "GSSAPI":
        if sasl.options.get("sasl-gssapi-auth-type", "").lower() == "user":
            raise UsageError("sasl-gssapi-auth-type = 'user': Kerberos by password is not supported; use a keytab")
        return options | {_GSSAPI[key]: value for key, value in sasl.options.items() if key in _GSSAPI}
    if sasl.mechanism == "OAUTHBEARER":
        options["sasl.oauthbearer.method"] = "oidc"
        if secret := sasl.options.get("sasl-oauth-client-secret"):
            try:
                options["sasl.oauthbearer.client.secret"] = b64decode(secret, validate=True).decode()
            except ValueError as error:
                raise UsageError("sasl-oauth-client-secret is not base64") from error
        if audience := sasl.options.get("sasl-oauth-audience"):
            options["sasl.oauthbearer.extensions"] = f"audience={audience}"
        return options | {_OAUTH[key]: value for key, value in sasl.options.items() if key in _OAUTH}
    return options | {"sasl.username": sasl.user or "", "sasl.password": sasl.password or ""}
