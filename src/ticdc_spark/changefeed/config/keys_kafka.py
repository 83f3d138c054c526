"""Keys of the Kafka cluster and the producer."""

from functools import partial

from ticdc_spark.changefeed.config.key import GLUE, KAFKA, URI, Key
from ticdc_spark.changefeed.config.kinds import (
    Kind,
    base64_text,
    boolean,
    duration,
    integer,
    one_of,
    path,
    text,
    texts,
    words,
)

_glue = partial(
    Key, section=GLUE, use="refused", reason="AWS Glue is not supported; use a Confluent registry (`schema-registry`)"
)


def _key(
    name: str,
    kind: Kind,
    default: object,
    meaning: str,
    *,
    uri: bool = True,
    secret: bool = False,
) -> Key:
    place = name if uri else None
    return Key(name=name, section=KAFKA, uri=place, kind=kind, default=default, meaning=meaning, secret=secret)


def _kerberos(name: str, kind: Kind, meaning: str, reason: str, *, secret: bool = False) -> Key:
    return Key(
        name=name,
        section=KAFKA,
        uri=name,
        kind=kind,
        meaning=f"Kerberos: {meaning}",
        use="ignored",
        reason=reason,
        secret=secret,
    )


KAFKA_KEYS = (
    Key(
        name="kafka-version",
        section=KAFKA,
        uri="kafka-version",
        kind=text(r"v?[0-9]+\.[0-9]+\.[0-9]+(\.[0-9]+)?", 'a version such as "2.4.0"'),
        meaning="Version of the protocol that is spoken with the brokers.",
        use="ignored",
        reason="the client finds out which versions the brokers speak",
    ),
    _key(
        "kafka-client-id",
        text(r"[A-Za-z0-9._-]+", "letters, digits, `.`, `_` and `-`"),
        None,
        "This client's name in brokers' logs and quotas. Default: `TiCDC_producer_<host>_default_<changefeed id>`.",
    ),
    _key(
        "partition-num",
        integer(1),
        None,
        "How many partitions of each topic are used. Default: all that a topic has; a new topic gets 3. "
        "More than there are is an error.",
    ),
    _key(
        "replication-factor",
        integer(1, 2**15 - 1),
        1,
        "Replicas of a new topic. With `required-acks = -1` not below the brokers' `min.insync.replicas`.",
    ),
    Key(
        name="max-message-bytes",
        section=KAFKA,
        uri="max-message-bytes",
        kind=integer(1),
        default=10_485_760,
        meaning="Largest message: key, value and 36 bytes. The topic's own limit holds too.",
        option="max-message-bytes",
    ),
    _key(
        "required-acks",
        one_of(-1, 0, 1),
        -1,
        "Who must have a message: -1 all replicas in sync, 1 the leader, 0 no one.",
    ),
    _key(
        "compression",
        text(),
        "none",
        "Compression by the producer: `none`, `gzip`, `snappy`, `lz4` or `zstd`; anything else is `none`.",
    ),
    _key(
        "auto-create-topic",
        boolean(),
        True,
        "Whether topics that do not exist are created, for `dispatchers` too.",
    ),
    Key(
        name="max-retry",
        section=URI,
        kind=integer(0),
        default=5,
        meaning="How often the producer sends a message again.",
        use="ignored",
        reason="a message is sent again until it is acknowledged",
    ),
    _key("dial-timeout", duration(), "10s", "Timeout for the connection to a broker."),
    _key("read-timeout", duration(), "10s", "Timeout for a broker's answer."),
    _key("write-timeout", duration(), "10s", "Timeout for sending to a broker."),
    _key(
        "enable-tls",
        boolean(),
        None,
        "TLS to the brokers. Default: on with `ca`, `cert` and `key`, and with the scheme `kafka+ssl`.",
    ),
    _key(
        "ca",
        path(),
        None,
        "PEM file of the authority that signed the brokers' certificates; together with the next two.",
    ),
    _key("cert", path(), None, "PEM file of the client's certificate."),
    _key("key", path(), None, "PEM file of the client's private key."),
    _key("insecure-skip-verify", boolean(), False, "With TLS, accept any certificate of a broker."),
    _key(
        "sasl-mechanism",
        words("plain scram-sha-256 scram-sha-512 gssapi oauthbearer", upper=True),
        None,
        "How the client signs in; without it `sasl-user` and `sasl-password` have no effect.",
    ),
    _key("sasl-user", text(), None, "To sign in with PLAIN or SCRAM."),
    _key("sasl-password", text(), None, "To sign in with PLAIN or SCRAM.", secret=True),
    _key("sasl-gssapi-auth-type", words("keytab"), None, "Kerberos: how to sign in; here by keytab only."),
    _key("sasl-gssapi-keytab-path", path(), None, "Kerberos: the keytab."),
    _kerberos(
        "sasl-gssapi-kerberos-config-path", path(), "krb5.conf.", "KRB5_CONFIG of the environment names krb5.conf"
    ),
    _key("sasl-gssapi-service-name", text(), None, "Kerberos: the brokers' service."),
    _key(
        "sasl-gssapi-user", text(), None, "Kerberos: the principal, with `@` and its realm if that is not the default."
    ),
    _kerberos("sasl-gssapi-password", text(), "the password.", "Kerberos signs in by keytab here", secret=True),
    _kerberos("sasl-gssapi-realm", text(), "the realm.", "the realm is part of `sasl-gssapi-user`, or krb5.conf's"),
    _kerberos("sasl-gssapi-disable-pafxfast", boolean(), "without PA-FX-FAST.", "the Kerberos library decides that"),
    _key("sasl-oauth-client-id", text(), None, "OAUTHBEARER: the client.", uri=False),
    _key("sasl-oauth-client-secret", base64_text(), None, "OAUTHBEARER: its secret.", uri=False, secret=True),
    _key(
        "sasl-oauth-token-url",
        text(r"https?://\S+", "an http(s) URL"),
        None,
        "OAUTHBEARER: where tokens are issued.",
        uri=False,
    ),
    _key("sasl-oauth-scopes", texts(), None, "OAUTHBEARER: scopes that are requested.", uri=False),
    _key(
        "sasl-oauth-grant-type", words("client_credentials"), "client_credentials", "OAUTHBEARER: the grant.", uri=False
    ),
    _key("sasl-oauth-audience", text(), None, "OAUTHBEARER: the audience.", uri=False),
    _key(
        "output-raw-change-event",
        boolean(),
        False,
        "Send an UPDATE that changes the primary or a unique key as one message, not as delete and insert.",
        uri=False,
    ),
    _glue(name="registry-name", kind=text(), meaning="Name of a registry in AWS Glue."),
    _glue(name="region", kind=text(), meaning="Its region."),
    _glue(name="access-key", kind=text(), meaning="To sign in.", secret=True),
    _glue(name="secret-access-key", kind=text(), meaning="To sign in.", secret=True),
    _glue(name="token", kind=text(), meaning="To sign in.", secret=True),
)
