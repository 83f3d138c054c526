"""A changefeed and a broker that wants TLS and a login, both real."""

import threading
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.secure_broker import PASSWORD, SecureBroker
from tests.workload import Workload, WorkloadConfig, dispatch, write_topic
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.loop import Upstream, run
from ticdc_spark.changefeed.report import Report
from ticdc_spark.errors import SinkFault
from ticdc_spark.protocols.encoder_options import target_encoder

SHOP = WorkloadConfig(seed=5, changes=50)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("source") / "recorded"
    write_topic(dispatch(Workload(SHOP), SHOP, target_encoder("simple", {})), folder)
    return str(folder)


def send(address: str, topic: str, source: str, state: Path, more: str) -> Report:
    uri = f"kafka://{address}/{topic}?protocol=simple&dial-timeout=5s{more}"
    feed = load_changefeed(None, uri, {"changefeed-id": "test"})
    return run(feed, Upstream(open_stream(source), "recorded topic"), state, stop=threading.Event())


def login(mechanism: str, password: str = PASSWORD) -> str:
    return f"&sasl-mechanism={mechanism}&sasl-user=cdc&sasl-password={quote(password, safe='')}"


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
@pytest.mark.parametrize("tls", [True, False])
def test_logins(secure: SecureBroker, source: str, tmp_path: Path, mechanism: str, tls: bool) -> None:
    address = secure.broker.listeners["SASL_SSL" if tls else "SASL_PLAINTEXT"]
    topic = f"{mechanism}-{tls}"
    more = login(mechanism) + _tls(secure, tls)
    assert send(address, topic, source, tmp_path, more).finished
    assert topic in secure.broker.admin.list_topics(timeout=10).topics


def _tls(secure: SecureBroker, tls: bool) -> str:
    return f"&ca={secure.ca}&cert={secure.cert}&key={secure.key}" if tls else ""


def test_a_client_certificate(secure: SecureBroker, source: str, tmp_path: Path) -> None:
    assert send(secure.broker.listeners["SSL"], "certificate", source, tmp_path, _tls(secure, True)).finished


@pytest.mark.parametrize(
    ("listener", "more", "message"),
    [
        ("SASL_PLAINTEXT", login("plain", "wrong"), "(?i)authentication failed"),
        ("SASL_PLAINTEXT", login("scram-sha-512", "wrong"), "(?i)authentication failed"),
        ("SASL_PLAINTEXT", "", "does this listener require TLS, or a login"),
        ("SSL", "&enable-tls=true", "(?i)certificate"),
        ("SSL", "&enable-tls=true&insecure-skip-verify=true", "(?i)certificate|disconnected|alert"),
    ],
)
def test_what_is_refused_says_why(
    secure: SecureBroker, source: str, tmp_path: Path, listener: str, more: str, message: str
) -> None:
    with pytest.raises(SinkFault, match=message) as refused:
        send(secure.broker.listeners[listener], "refused", source, tmp_path, more)
    assert PASSWORD not in str(refused.value)


def test_a_server_of_another_authority_is_refused(secure: SecureBroker, source: str, tmp_path: Path) -> None:
    more = f"&ca={secure.other_ca}&cert={secure.cert}&key={secure.key}"
    with pytest.raises(SinkFault, match=r"(?i)certificate"):
        send(secure.broker.listeners["SSL"], "refused", source, tmp_path, more)
    skipped = f"{more}&insecure-skip-verify=true"
    assert send(secure.broker.listeners["SSL"], "skipped", source, tmp_path, skipped).finished
