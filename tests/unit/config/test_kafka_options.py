"""One set of options for Kafka's Java client and librdkafka; what is wrong about it is found in the job file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.config.test_job_file import KAFKA, load, refused
from ticdc_spark.config.job import KafkaSource
from ticdc_spark.errors import UsageError
from ticdc_spark.topics.client_options import librdkafka_options
from ticdc_spark.topics.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN = f"""'{PLAIN} required username="cdc" password="hunter2";'"""
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recorded").mkdir()
    (tmp_path / "ca.pem").write_text(PEM)
    (tmp_path / "ca.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    (tmp_path / "keys.p12").write_bytes(b"\x30\x82\x0a\x0b")
    return tmp_path


def given_options(**options: str) -> dict[str, str]:
    """A section ``[source]``; ``_`` stands for ``.``, values are TOML."""
    return KAFKA | {f'"kafka.{name.replace("_", ".")}"': value for name, value in options.items()}


TLS = {"ssl_truststore_type": '"PEM"', "ssl_truststore_location": '"ca.pem"'}
SASL_SSL = {"security_protocol": '"SASL_SSL"', "sasl_mechanism": '"PLAIN"', "sasl_jaas_config": LOGIN, **TLS}


def test_a_login_over_tls_is_the_same_for_both_clients(folder: Path) -> None:
    source = load(folder, source=given_options(**SASL_SSL)).source
    assert isinstance(source, KafkaSource)
    assert source.options["kafka.ssl.truststore.location"] == str(folder / "ca.pem"), "relative to the job file"
    assert librdkafka_options(source.options) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "cdc",
        "sasl.password": "hunter2",
        "ssl.ca.location": str(folder / "ca.pem"),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SASL_SSL | {"security_protocol": '"SASL-SSL"'}, "kafka.security.protocol: found 'SASL-SSL'; allowed"),
        (
            {"sasl_mechanism": '"PLAIN"', "sasl_jaas_config": LOGIN},
            'sasl.jaas.config: has no effect, as `kafka.security.protocol` is missing; write "SASL_SSL" or "SASL',
        ),
        (TLS, 'kafka.ssl.truststore.location: has no effect, as `kafka.security.protocol` is missing; write "SSL"'),
        (
            SASL_SSL | {"security_protocol": '"SASL_PLAINTEXT"'},
            'location: has no effect, as `kafka.security.protocol` is SASL_PLAINTEXT; write "SASL_SSL"',
        ),
        (SASL_SSL | {"security_protocol": '"SSL"'}, 'protocol` is SSL; write "SASL_SSL"'),
        (
            {"security_protocol": '"SASL_SSL"', "sasl_jaas_config": LOGIN, **TLS},
            'kafka.sasl.mechanism: missing; PlainLoginModule is for "PLAIN"',
        ),
        (SASL_SSL | {"sasl_mechanism": '"SCRAM-SHA-512"'}, "found 'SCRAM-SHA-512', but PlainLoginModule is for"),
        (SASL_SSL | {"sasl_jaas_config": f"'{PLAIN} required password=\"hunter2\";'"}, "Module has no username"),
        (SASL_SSL | {"sasl_jaas_config": LOGIN.replace(";", "")}, "kafka.sasl.jaas.config: one `;` must end it"),
        (SASL_SSL | {"ssl_truststore_location": '"no.pem"'}, "there is no file or folder"),
        (SASL_SSL | {"ssl_truststore_location": '"recorded"'}, "cannot be read: Is a directory"),
        (
            SASL_SSL | {"ssl_truststore_type": '"JKS"'},
            'kafka.ssl.truststore.type: found "JKS", but ',
        ),
        (
            {key: value for key, value in SASL_SSL.items() if key != "ssl_truststore_type"},
            "kafka.ssl.truststore.type: missing, which is JKS, but ",
        ),
        (SASL_SSL | {"ssl_truststore_location": '"ca.jks"'}, 'ca.jks is JKS; write "JKS"'),
        (SASL_SSL | {"ssl_truststore_password": '"hunter2"'}, "kafka.ssl.truststore.password: PEM has none"),
        (
            {"security_protocol": '"SASL_SSL"', "sasl_username": '"cdc"', "sasl_password": '"hunter2"'},
            "kafka.sasl.password: is librdkafka's name, and Spark has Kafka's Java client; write `kafka.sasl.",
        ),
        (
            {"security_protocol": '"SSL"', "ssl_ca_location": '"ca.pem"'},
            'write `kafka.ssl.truststore.location` and `kafka.ssl.truststore.type` = "PEM"',
        ),
        ({"auto_offset_reset": '"latest"'}, "kafka.auto.offset.reset: is set by the job; write `starting`"),
    ],
)
def test_what_cannot_work_names_its_key(folder: Path, options: dict[str, str], message: str) -> None:
    found = refused(folder, source=given_options(**options))
    assert message in found
    assert "hunter2" not in found


def test_what_only_java_reads_is_left_to_spark(folder: Path) -> None:
    options = SASL_SSL | {"ssl_truststore_type": '"JKS"', "ssl_truststore_location": '"ca.jks"'}
    source = load(folder, source=given_options(**options)).source
    assert isinstance(source, KafkaSource)
    with pytest.raises(UsageError, match=r"ssl\.truststore\.location: librdkafka reads PEM.*keytool -list -rfc"):
        librdkafka_options(source.options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ssl.keystore.location": "ca.jks"}, "ssl.keystore.location: librdkafka reads PEM and PKCS12"),
        ({"ssl.truststore.location": "keys.p12"}, "keys.p12 is PKCS12"),
        ({"ssl.truststore.location": "none"}, "none cannot be read: No such file"),
        ({"ssl.engine.factory.class": "x.Y"}, "ssl.engine.factory.class: a class of Java"),
        ({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "of Krb5LoginModule"),
        ({"sasl.jaas.config": f'{PLAIN} required password="hunter2'}, "a quotation mark is not closed"),
    ],
)
def test_what_librdkafka_has_nothing_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(UsageError) as found:
        librdkafka_options(options)
    assert message in str(found.value) and "hunter2" not in str(found.value)


def test_the_other_translations(folder: Path) -> None:
    pem, p12 = str(folder / "ca.pem"), str(folder / "keys.p12")
    assert librdkafka_options(
        {
            "kafka.ssl.keystore.location": pem,
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.key.password": "k",
            "kafka.ssl.truststore.certificates": PEM,
            "kafka.ssl.endpoint.identification.algorithm": "",
            "kafka.ssl.enabled.protocols": "TLSv1.3",
            "kafka.ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        }
    ) == {
        "ssl.certificate.location": pem,
        "ssl.key.location": pem,
        "ssl.key.password": "k",
        "ssl.ca.pem": PEM,
        "ssl.endpoint.identification.algorithm": "none",
    }
    store = {"ssl.keystore.location": p12, "ssl.keystore.password": "s"}
    assert librdkafka_options({**store, "ssl.keystore.type": "PKCS12"}) == store
    chain = {"ssl.keystore.key": "key", "ssl.keystore.certificate.chain": PEM}
    assert librdkafka_options(chain) == {"ssl.key.pem": "key", "ssl.certificate.pem": PEM}
    own = {
        "ssl.cipher.suites": "ECDHE-RSA-AES128-SHA",
        "sasl.username": "cdc",
        "ssl.ca.location": "x",
        "log_level": "0",
    }
    assert librdkafka_options(own) == own, "its own names stay"


@given(st.text(), st.sampled_from("\"'"))
def test_a_password_is_read_as_java_reads_it(password: str, quote: str) -> None:
    escaped = password.replace("\\", "\\\\").replace("\n", "\\n").replace(quote, f"\\{quote}")
    found = parse_jaas(f" {SCRAM}\n required username=cdc password={quote}{escaped}{quote} ; ")
    assert found == ("ScramLoginModule", {"username": "cdc", "password": password})


@pytest.mark.parametrize(
    ("written", "read"), [(r"\"", '"'), (r"a\\b", "a\\b"), (r"\101\7z", "A\az"), (r"\x", "x"), ("=;'", "=;'")]
)
def test_escapes_of_java(written: str, read: str) -> None:
    assert parse_jaas(f'a.b.X required p="{written}";').options == {"p": read}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "X",
        "X required",
        "X always a=b;",
        "X required a=b; Y required c=d;",
        "X required a=;",
        "X required =b;",
        "X required a b;",
        "X required a==b;",
        "X required a=b; rest",
        'X required a="b;',
    ],
)
def test_what_is_no_login(text: str) -> None:
    with pytest.raises(ValueError, match="login module"):
        parse_jaas(text)
