"""The ``kafka.…`` options of a job file. Mistakes in a cluster's security are found before anything connects.

Kafka's client ignores names that it does not know, and retries for ever if a login or TLS is missing.
"""

from collections.abc import Mapping

from ticdc_spark.config.paths import existing
from ticdc_spark.config.toml import Mistakes
from ticdc_spark.errors import UsageError
from ticdc_spark.topics.client_options import MECHANISMS, form_of
from ticdc_spark.topics.jaas import parse_jaas

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_JAAS = "`kafka.sasl.jaas.config`, with PlainLoginModule or ScramLoginModule, username and password"
_LIBRDKAFKA = {
    "sasl.mechanisms": "`kafka.sasl.mechanism`",
    "sasl.username": _JAAS,
    "sasl.password": _JAAS,
    "ssl.ca.location": '`kafka.ssl.truststore.location` and `kafka.ssl.truststore.type` = "PEM"',
    "ssl.ca.pem": '`kafka.ssl.truststore.certificates` and `kafka.ssl.truststore.type` = "PEM"',
    "ssl.certificate.location": "`kafka.ssl.keystore.location`, a PEM file with key and certificate",
    "ssl.certificate.pem": "`kafka.ssl.keystore.certificate.chain`",
    "ssl.key.location": "`kafka.ssl.keystore.location`, a PEM file with key and certificate",
    "ssl.key.pem": "`kafka.ssl.keystore.key`",
    "enable.ssl.certificate.verification": "nothing: Kafka's Java client always checks certificates",
}
_OWN = {
    "bootstrap.servers": "write `bootstrap-servers`",
    "auto.offset.reset": "write `starting`",
    "enable.auto.commit": "offsets are kept in the state folder",
    "key.deserializer": "keys are read as bytes",
    "value.deserializer": "values are read as bytes",
    "interceptor.classes": "Spark does not allow it",
}


def read_kafka_options(given: Mapping[str, str], mistakes: Mistakes) -> dict[str, str]:
    """The options with absolute paths. Names keep their ``kafka.``. Mistakes are noted."""
    options = {key.removeprefix("kafka."): value for key, value in given.items()}

    def wrong(key: str, what: str) -> None:
        mistakes.add(f"[source] kafka.{key}", what)

    for key in options.keys() & _OWN.keys():
        wrong(key, f"is set by the job; {_OWN[key]}")
    for key in options.keys() & _LIBRDKAFKA.keys():
        wrong(key, f"is librdkafka's name, and Spark has Kafka's Java client; write {_LIBRDKAFKA[key]}")
    protocol = options.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        allowed = ", ".join(f'"{name}"' for name in _PROTOCOLS)
        wrong("security.protocol", f"found {options['security.protocol']!r}; allowed: {allowed}")
    else:
        _check_effect(options, protocol, mistakes)
    if (jaas := options.get("sasl.jaas.config")) is not None:
        _check_login(jaas, options.get("sasl.mechanism"), mistakes)
    for store in ("truststore", "keystore"):
        key = f"ssl.{store}.location"
        if options.get(key):
            before = mistakes.count
            options[key] = str(existing(mistakes.path, options[key], f"[source] kafka.{key}", mistakes))
            if mistakes.count == before:
                _check_store(store, options, mistakes)
    return {f"kafka.{key}": value for key, value in options.items()}


def _check_effect(options: Mapping[str, str], protocol: str, mistakes: Mistakes) -> None:
    """Look for options of a login or of TLS that have no effect under ``security.protocol``."""
    login = next((key for key in ("sasl.jaas.config", "sasl.mechanism") if key in options), None)
    stores = next((key for key in sorted(options) if key.startswith(("ssl.truststore.", "ssl.keystore."))), None)
    for key, part, other in (
        (login, "SASL", "SASL_SSL" if stores or protocol == "SSL" else 'SASL_SSL" or "SASL_PLAINTEXT'),
        (stores, "SSL", "SASL_SSL" if login or protocol == "SASL_PLAINTEXT" else "SSL"),
    ):
        if key is not None and part not in protocol.split("_"):
            found = f"is {protocol}" if "security.protocol" in options else "is missing"
            mistakes.add(
                f"[source] kafka.{key}", f'has no effect, as `kafka.security.protocol` {found}; write "{other}"'
            )


def _check_login(jaas: str, mechanism: str | None, mistakes: Mistakes) -> None:
    where = "[source] kafka.sasl.jaas.config"
    try:
        found = parse_jaas(jaas)
    except ValueError as error:
        mistakes.add(where, str(error))
        return
    suited = [f'"{name}"' for name, module in MECHANISMS.items() if module == found.module]
    if not suited:
        return
    if mechanism is None:  # Java's default is GSSAPI
        mistakes.add("[source] kafka.sasl.mechanism", f"missing; {found.module} is for {' or '.join(suited)}")
    elif f'"{mechanism}"' not in suited:
        is_for = f"{found.module} is for {' or '.join(suited)}"
        mistakes.add("[source] kafka.sasl.mechanism", f"found {mechanism!r}, but {is_for}")
    for name in ("username", "password"):
        if name not in found.options:
            mistakes.add(where, f"{found.module} has no {name}")


def _check_store(store: str, options: Mapping[str, str], mistakes: Mistakes) -> None:
    """Check that a file of certificates has its stated type. Java's JKS also reads PKCS12."""
    path, key = options[f"ssl.{store}.location"], f"ssl.{store}.type"
    try:
        form = form_of(path)
    except UsageError as error:
        mistakes.add(f"[source] kafka.ssl.{store}.location", str(error))
        return
    named = options.get(key, "JKS").upper()
    if (form == "PEM") != (named == "PEM"):
        found = f'found "{options[key]}"' if key in options else "missing, which is JKS"
        mistakes.add(f"[source] kafka.{key}", f'{found}, but {path} is {form}; write "{form}"')
    elif form == "PEM" and f"ssl.{store}.password" in options:
        what = "PEM has none" + ("; that of the key is `kafka.ssl.key.password`" if store == "keystore" else "")
        mistakes.add(f"[source] kafka.ssl.{store}.password", what)
