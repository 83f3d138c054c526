"""librdkafka's options from options of Kafka's Java client, so that a cluster's security is configured only once.

A login by password and PEM files work in both. Formats that only Java reads (JKS, Kerberos by JAAS, classes) are
refused, and the error says what to do.
"""

from collections.abc import Mapping
from pathlib import Path

from ticdc_spark.errors import UsageError, os_reason
from ticdc_spark.topics.jaas import parse_jaas

SECURITY = ("security.", "sasl.", "ssl.")
"""Prefixes of the options for the connection to a cluster."""
MECHANISMS = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
}
"""Logins by password, and Java's login module for each."""

_WITHOUT_EFFECT = frozenset(
    f"ssl.{name}"
    for name in (
        "enabled.protocols",
        "keymanager.algorithm",
        "protocol",
        "provider",
        "secure.random.implementation",
        "truststore.password",
        "truststore.type",
        "keystore.type",
        "trustmanager.algorithm",
    )
)
"""Options that only Java needs, or that say the format of a file, which the file itself shows."""
_CLASSES = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "ssl.engine.factory.class")


def librdkafka_options(given: Mapping[str, str]) -> dict[str, str]:
    """Translate options that Java's client names differently. Others, and librdkafka's own names, do not change.

    A name may begin with ``kafka.``, as in a job file.

    Raises: UsageError that names an option without an equivalent in librdkafka, and what to do.
    """
    java = {key.removeprefix("kafka."): value for key, value in given.items()}
    for key in _CLASSES:
        if key in java:
            raise UsageError(f"{key}: a class of Java, which librdkafka cannot use")
    options = {key: value for key, value in java.items() if key not in _WITHOUT_EFFECT}
    if "_WITH_" in options.get("ssl.cipher.suites", ""):
        del options["ssl.cipher.suites"]  # Java's names
    if options.get("ssl.endpoint.identification.algorithm") == "":
        options["ssl.endpoint.identification.algorithm"] = "none"
    if "sasl.jaas.config" in options:
        options |= _login(options.pop("sasl.jaas.config"))
    if "ssl.truststore.location" in options:
        options["ssl.ca.location"] = _authority(options.pop("ssl.truststore.location"))
    for ours, theirs in (
        ("ssl.truststore.certificates", "ssl.ca.pem"),
        ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        ("ssl.keystore.key", "ssl.key.pem"),
    ):
        if ours in options:
            options[theirs] = options.pop(ours)
    if "ssl.keystore.location" in options:
        options |= _certificate(options.pop("ssl.keystore.location"))
    return options


def form_of(path: str) -> str:
    """``PEM``, ``JKS`` or ``PKCS12``, by the first bytes of a file of keys or certificates. Raises: UsageError"""
    try:
        with Path(path).open("rb") as file:
            start = file.read(4)
            if start == b"\xfe\xed\xfe\xed":
                return "JKS"
            return "PEM" if b"-----BEGIN " in start + file.read(1 << 20) else "PKCS12"
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {os_reason(error)}") from error


def _login(jaas: str) -> dict[str, str]:
    try:
        found = parse_jaas(jaas)
    except ValueError as error:
        raise UsageError(f"sasl.jaas.config: {error}") from error
    if found.module not in MECHANISMS.values():
        raise UsageError(
            f"sasl.jaas.config: of {found.module} librdkafka has no equivalent; "
            f"{' and '.join(sorted(set(MECHANISMS.values())))} have"
        )
    return {"sasl.username": found.options.get("username", ""), "sasl.password": found.options.get("password", "")}


def _authority(path: str) -> str:
    form = form_of(path)
    if form != "PEM":
        raise UsageError(
            f"ssl.truststore.location: librdkafka reads PEM, and {path} is {form}; "
            f"`keytool -list -rfc -keystore {path} > ca.pem` writes it as PEM, for both clients "
            "(with ssl.truststore.type = PEM)"
        )
    return path


def _certificate(path: str) -> dict[str, str]:
    form = form_of(path)
    if form == "JKS":
        raise UsageError(
            f"ssl.keystore.location: librdkafka reads PEM and PKCS12, and {path} is JKS; `keytool -importkeystore "
            f"-srckeystore {path} -destkeystore keys.p12 -deststoretype PKCS12` writes it as PKCS12, for both clients "
            "(with ssl.keystore.type = PKCS12)"
        )
    if form == "PKCS12":
        return {"ssl.keystore.location": path}
    return {"ssl.certificate.location": path, "ssl.key.location": path}
