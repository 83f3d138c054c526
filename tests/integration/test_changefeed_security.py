"""A changefeed and a broker that wants TLS and a login, both real."""

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.certificates import Authority
from tests.kafka_broker import Broker
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.loop import Report, run
from ticdc_spark.errors import SinkFault
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.workload import Workload, WorkloadConfig, dispatch, write_topic

PASSWORD = "p&ss wörd+#"
SHOP = WorkloadConfig(seed=5, changes=50)
_JAAS = "org.apache.kafka.common.security"


class Secure:
    """The broker, and the files that its clients need."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder / "pki")
        key, certificate = authority.sign("server")
        store = folder / "server.pem"
        store.write_text(key.read_text() + certificate.read_text())
        self.ca = authority.certificate
        self.key, self.cert = authority.sign("client")
        self.other_ca = Authority(folder / "other", "other").certificate
        options = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        }
        for name in ("sasl_ssl", "sasl_plaintext"):
            login = f'{_JAAS}.plain.PlainLoginModule required user_cdc="{PASSWORD}";'
            login = "".join(one if one.isascii() else f"\\u{ord(one):04x}" for one in login)
            options[f"listener.name.{name}.plain.sasl.jaas.config"] = login
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                scram = f"{_JAAS}.scram.ScramLoginModule required;"
                options[f"listener.name.{name}.{mechanism}.sasl.jaas.config"] = scram
        self.broker = Broker(folder / "kafka", options, protocols=("SSL", "SASL_SSL", "SASL_PLAINTEXT"))
        self.broker.start()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            user = UserScramCredentialUpsertion("cdc", ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            self.broker.admin.alter_user_scram_credentials([user])["cdc"].result(30)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    found = Secure(tmp_path_factory.mktemp("secure"))
    yield found
    found.broker.kill()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("source") / "recorded"
    write_topic(dispatch(Workload(SHOP), SHOP, target_encoder("simple", {})), folder)
    return str(folder)


def send(address: str, topic: str, source: str, state: Path, more: str) -> Report:
    uri = f"kafka://{address}/{topic}?protocol=simple&dial-timeout=5s{more}"
    feed = load_changefeed(None, uri, {"changefeed-id": "test"})
    return run(feed, open_stream(source), state, source="recorded topic", stop=threading.Event())


def login(mechanism: str, password: str = PASSWORD) -> str:
    return f"&sasl-mechanism={mechanism}&sasl-user=cdc&sasl-password={quote(password, safe='')}"


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
@pytest.mark.parametrize("tls", [True, False])
def test_logins(secure: Secure, source: str, tmp_path: Path, mechanism: str, tls: bool) -> None:
    address = secure.broker.listeners["SASL_SSL" if tls else "SASL_PLAINTEXT"]
    topic = f"{mechanism}-{tls}"
    more = login(mechanism) + _tls(secure, tls)
    assert send(address, topic, source, tmp_path, more).finished
    assert topic in secure.broker.admin.list_topics(timeout=10).topics


def _tls(secure: Secure, tls: bool) -> str:
    return f"&ca={secure.ca}&cert={secure.cert}&key={secure.key}" if tls else ""


def test_a_client_certificate(secure: Secure, source: str, tmp_path: Path) -> None:
    assert send(secure.broker.listeners["SSL"], "certificate", source, tmp_path, _tls(secure, True)).finished


@pytest.mark.parametrize(
    ("listener", "more", "message"),
    [
        ("SASL_PLAINTEXT", login("plain", "wrong"), "(?i)authentication failed"),
        ("SASL_PLAINTEXT", login("scram-sha-512", "wrong"), "(?i)authentication failed"),
        ("SASL_PLAINTEXT", "", "does this listener want TLS, or a login"),
        ("SSL", "&enable-tls=true", "(?i)certificate"),
        ("SSL", "&enable-tls=true&insecure-skip-verify=true", "(?i)certificate|disconnected|alert"),
    ],
)
def test_what_is_refused_says_why(
    secure: Secure, source: str, tmp_path: Path, listener: str, more: str, message: str
) -> None:
    with pytest.raises(SinkFault, match=message) as refused:
        send(secure.broker.listeners[listener], "refused", source, tmp_path, more)
    assert PASSWORD not in str(refused.value)


def test_a_server_of_another_authority_is_refused(secure: Secure, source: str, tmp_path: Path) -> None:
    more = f"&ca={secure.other_ca}&cert={secure.cert}&key={secure.key}"
    with pytest.raises(SinkFault, match=r"(?i)certificate"):
        send(secure.broker.listeners["SSL"], "refused", source, tmp_path, more)
    skipped = f"{more}&insecure-skip-verify=true"
    assert send(secure.broker.listeners["SSL"], "skipped", source, tmp_path, skipped).finished
