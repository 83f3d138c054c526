"""``replicate`` and the commands that read Kafka, where a real broker requires TLS and a login: one set of options."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.spark.lake import replicate
from tests.spark.simple_topic import ddl, insert, table
from tests.support.job_state import read
from tests.support.secure_broker import PASSWORD, SecureBroker
from tests.unit.cli.test_check import check
from tests.workload import Truth
from tests.workload.compare import compare
from ticdc_spark.cli import main
from ticdc_spark.errors import SourceFault
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.spark.sources.kafka import KafkaTopicSource

MODULES = {"PLAIN": "plain.Plain", "SCRAM-SHA-256": "scram.Scram", "SCRAM-SHA-512": "scram.Scram"}
JOB = """
[job]
name = "secure"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["shop"]
protocol = "simple"
{options}
[sink]
kind = "iceberg"
warehouse = "lake"
"""


@pytest.fixture(scope="session")
def truth(secure: SecureBroker) -> Truth:
    """One small table in the topic ``shop`` of the broker."""
    secure.broker.create_topic("shop")
    simple, made = encoder(SimpleConfig()), table(1)
    rows = [insert(made, 2 << 20, id=str(number)) for number in range(20)]
    sent = [simple.ddl(ddl("CREATE", 1 << 20, "CREATE TABLE t (id INT PRIMARY KEY)", made)), *simple.rows(rows)]
    sent.append(simple.watermark(3 << 20))
    secure.broker.produce("shop", [(one.key, one.value) for one in sent if one is not None])
    return {("s", "t"): (made, {(str(number),): {"id": str(number)} for number in range(20)})}


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_PASSWORD", PASSWORD)


def options(secure: SecureBroker, mechanism: str | None, tls: bool, ca: Path | None = None) -> dict[str, str]:
    """As a job file has them."""
    protocol = ("SASL_" if mechanism else "") + ("SSL" if tls else "PLAINTEXT")
    found = {"kafka.security.protocol": protocol}
    if mechanism:
        module = f"org.apache.kafka.common.security.{MODULES[mechanism]}LoginModule"
        found["kafka.sasl.mechanism"] = mechanism
        found["kafka.sasl.jaas.config"] = f'{module} required username="cdc" password="${{env:CDC_PASSWORD}}";'
    if tls:
        found["kafka.ssl.truststore.type"] = "PEM"
        found["kafka.ssl.truststore.location"] = str(ca or secure.ca)
    return found


def client_certificate(secure: SecureBroker, folder: Path) -> dict[str, str]:
    """What a listener needs that requires a certificate of its clients."""
    file = folder / "client.pem"
    file.write_text(secure.key.read_text() + secure.cert.read_text())
    return {"kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": file.name}


def job(folder: Path, servers: str, options: dict[str, str]) -> Path:
    file = folder / "job.toml"
    lines = (f"\"{key}\" = '{value}'" for key, value in options.items())
    file.write_text(JOB.format(servers=servers, options="\n".join(lines)))
    return file


def test_a_lake_by_a_login_over_tls(secure: SecureBroker, spark: SparkSession, truth: Truth, tmp_path: Path) -> None:
    file = job(tmp_path, secure.broker.listeners["SASL_SSL"], options(secure, "SCRAM-SHA-512", tls=True))
    assert check(file)[0] == 0
    assert replicate(file).finished
    assert not any(compare(file, truth).values())


def test_a_wrong_password_is_one_error_at_once(
    secure: SecureBroker, truth: Truth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_PASSWORD", "hunter2-wrong")
    file = job(tmp_path, secure.broker.listeners["SASL_SSL"], options(secure, "SCRAM-SHA-512", tls=True))
    with pytest.raises(SourceFault, match="Authentication failed") as refused:
        replicate(file)
    assert "hunter2" not in str(refused.value)
    assert read(tmp_path / "job.toml").progress is None
    code, lines = check(file)
    assert (code, "Authentication failed" in lines["source"], "protocol" in lines) == (1, True, False)


@pytest.mark.parametrize(
    ("listener", "mechanism", "tls", "other_ca", "message"),
    [
        ("SASL_SSL", "PLAIN", True, True, "certificate verify failed.*kafka.ssl.truststore.location"),
        ("SASL_PLAINTEXT", None, False, False, "does this listener require TLS, a login"),
        pytest.param("SASL_SSL", "PLAIN", False, False, "does this listener require TLS", marks=pytest.mark.slow),
        pytest.param("SSL", None, False, False, "does this listener require TLS", marks=pytest.mark.slow),
        pytest.param("SSL", None, True, False, "(?i)certificate", marks=pytest.mark.slow),
        pytest.param("PLAINTEXT", None, True, False, "PLAINTEXT broker listener", marks=pytest.mark.slow),
        pytest.param("PLAINTEXT", "PLAIN", False, False, "PLAIN mechanism handshake failed", marks=pytest.mark.slow),
    ],
)
def test_what_does_not_fit_the_listener(
    secure: SecureBroker,
    truth: Truth,
    tmp_path: Path,
    listener: str,
    mechanism: str | None,
    tls: bool,
    other_ca: bool,
    message: str,
) -> None:
    servers = secure.broker.listeners.get(listener, secure.broker.servers)
    file = job(tmp_path, servers, options(secure, mechanism, tls, secure.other_ca if other_ca else None))
    with pytest.raises(SourceFault, match=message) as refused:
        replicate(file)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("names", ["java", "librdkafka"])
def test_inspect_and_record_take_the_options_of_both_clients(
    secure: SecureBroker, truth: Truth, tmp_path: Path, names: str
) -> None:
    if names == "java":
        given = options(secure, "SCRAM-SHA-256", tls=True)
    else:
        given = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "cdc",
            "sasl.password": "${env:CDC_PASSWORD}",
            "ssl.ca.location": str(secure.ca),
        }
    kafka = ["--bootstrap-servers", secure.broker.listeners["SASL_SSL"], "--topic", "shop"]
    for key, value in given.items():
        kafka += ["-X", f"{key}={value}"]
    done = CliRunner().invoke(main, ["inspect", "--summary", "--json", *kafka])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["kinds"]["insert"] == 20
    done = CliRunner().invoke(main, ["record", *kafka, str(tmp_path / "recorded")])
    assert done.exit_code == 0 and "recorded" in done.stdout, done.output


@pytest.mark.slow
@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("mechanism", [*MODULES, None])
def test_both_clients_take_every_login(
    secure: SecureBroker, spark: SparkSession, truth: Truth, tmp_path: Path, mechanism: str | None, tls: bool
) -> None:
    listener = ("SASL_" if mechanism else "") + ("SSL" if tls else "PLAINTEXT")
    servers = secure.broker.listeners.get(listener, secure.broker.servers)
    more = client_certificate(secure, tmp_path) if listener == "SSL" else {}
    file = job(tmp_path, servers, options(secure, mechanism, tls) | more)
    code, lines = check(file)
    assert (code, "messages" in lines["source"]) == (0, True), lines
    assert replicate(file).finished
    assert not any(compare(file, truth).values())


@pytest.mark.slow
def test_java_stores_and_the_way_to_pem(
    secure: SecureBroker, spark: SparkSession, truth: Truth, tmp_path: Path
) -> None:
    """A JKS of authorities is Spark's alone; written as PEM as the error proposes, both clients read it."""
    keytool = str(Path(os.environ["JAVA_HOME"]) / "bin" / "keytool") if "JAVA_HOME" in os.environ else "keytool"
    jks, p12 = tmp_path / "trust.jks", tmp_path / "keys.p12"
    store = ["-keystore", str(jks), "-storepass", "hunter2jks"]
    run(keytool, "-importcert", "-noprompt", "-alias", "ca", "-file", str(secure.ca), "-storetype", "JKS", *store)
    run(
        "openssl",
        "pkcs12",
        "-export",
        "-in",
        str(secure.cert),
        "-inkey",
        str(secure.key),
        "-out",
        str(p12),
        "-passout",
        "pass:hunter2p12",
    )
    given = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.keystore.type": "PKCS12",
        "kafka.ssl.keystore.location": p12.name,
        "kafka.ssl.keystore.password": "hunter2p12",
    }
    of_java = {"kafka.ssl.truststore.location": jks.name, "kafka.ssl.truststore.password": "hunter2jks"}
    file = job(tmp_path, secure.broker.listeners["SSL"], given | of_java)
    code, lines = check(file)
    assert (code, "topics are checked by Spark (ssl.truststore.location" in lines["source"]) == (0, True), lines
    assert replicate(file).finished
    assert not any(compare(file, truth).values())
    (tmp_path / "ca.pem").write_text(run(keytool, "-list", "-rfc", *store))
    of_both = {"kafka.ssl.truststore.location": "ca.pem", "kafka.ssl.truststore.type": "PEM"}
    file = job(tmp_path, secure.broker.listeners["SSL"], given | of_both)
    code, lines = check(file)
    assert (code, "messages" in lines["source"]) == (0, True), lines
    assert replicate(file).finished


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("listener", "mechanism", "tls", "message"),
    [
        ("SASL_SSL", "PLAIN", True, "SaslAuthenticationException"),
        ("SASL_PLAINTEXT", None, False, r"does this listener require TLS.*kafka\.security\.protocol"),
        ("SSL", None, False, r"does this listener require TLS.*kafka\.security\.protocol"),
        ("SSL", None, True, r"(?i)certificate|SslException|SSLException"),
    ],
)
def test_errors_of_the_java_client_alone(
    secure: SecureBroker,
    spark: SparkSession,
    truth: Truth,
    listener: str,
    mechanism: str | None,
    tls: bool,
    message: str,
) -> None:
    """Where librdkafka is not installed, or cannot read what Java reads."""
    given = options(secure, mechanism, tls)
    given = {key: value.replace("${env:CDC_PASSWORD}", "hunter2-wrong") for key, value in given.items()}
    assert re.search(message, java_refusal(secure, spark, listener, given))


def test_the_java_client_alone_names_the_authority(secure: SecureBroker, spark: SparkSession, truth: Truth) -> None:
    given = options(secure, None, True, secure.other_ca)
    assert "does kafka.ssl.truststore.location hold the authority" in java_refusal(secure, spark, "SSL", given)


def java_refusal(secure: SecureBroker, spark: SparkSession, listener: str, given: dict[str, str]) -> str:
    source = KafkaTopicSource(spark, secure.broker.listeners[listener], topics=["shop"], options=given)
    with pytest.raises(SourceFault) as refused:
        source.end_offsets()
    source.close()
    assert "hunter2" not in str(refused.value)
    return str(refused.value)
