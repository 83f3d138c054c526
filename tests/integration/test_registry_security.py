"""A schema registry with TLS and a password, both real: for what reads it, and for what registers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.integration.test_replicate_registry import FIRST, insert, job, rows, send
from tests.spark.lake import replicate
from tests.spark.simple_topic import ddl, table, topic
from tests.spark.simple_topic import insert as simple_insert
from tests.support.apicurio_registry import Registry
from tests.support.certificates import Authority
from tests.support.kafka_broker import Broker
from tests.support.registry_proxy import guarded
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.loop import Upstream, run
from ticdc_spark.changefeed.report import Report
from ticdc_spark.cli import main
from ticdc_spark.clients.registry import SchemaRegistry
from ticdc_spark.errors import RegistryFault, UsageError
from ticdc_spark.model import Watermark

USER, PASSWORD = "us@er", "p:w/ö+ %"
WRONG = "hunter2-wrong"


class Secure:
    """A registry with TLS, and the same behind a proxy that also requires a password."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder / "pki")
        self.certificate = authority.sign("server")
        self.ca = authority.certificate
        self.other_ca = Authority(folder / "other", "other").certificate
        self.registry = Registry(folder, self.certificate)
        self.address = ""

    def url(self, password: str = PASSWORD) -> str:
        return f"https://{quote(USER, safe='')}:{quote(password, safe='')}@{self.address}"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    found = Secure(tmp_path_factory.mktemp("registry"))
    try:
        found.registry.start()
        with guarded(found.registry, USER, PASSWORD, found.certificate) as found.address:
            yield found
    finally:
        found.registry.stop()


def with_authority(file: Path, ca: Path) -> Path:
    """A job file whose registry has a certificate of ``ca``, which lies beside it."""
    (file.parent / "ca.pem").write_bytes(ca.read_bytes())
    where = '"schema-registry.max.retries" = 0\n'
    file.write_text(file.read_text().replace(where, f'{where}"schema-registry.ssl.ca.location" = "ca.pem"\n'))
    return file


def test_a_registry_that_has_tls_itself(secure: Secure) -> None:
    address = secure.registry.secure_url
    with SchemaRegistry(address, {"ssl.ca.location": str(secure.ca), "timeout": "20"}) as opened:
        number = opened.register("tls-value", '"string"')
        assert opened[number] == '"string"'
    for options in ({"ssl.ca.location": str(secure.other_ca)}, {}):
        with (
            SchemaRegistry(address, {**options, "max.retries": "0"}) as opened,
            pytest.raises(RegistryFault, match=r"does ssl\.ca\.location name the authority"),
        ):
            opened[1]
    with (
        SchemaRegistry(address.replace("https", "http"), {"max.retries": "0"}) as opened,
        pytest.raises(RegistryFault, match="is it https://"),
    ):
        opened[1]
    with pytest.raises(UsageError, match=r"there is no file ssl\.ca\.location /no/such\.pem"):
        SchemaRegistry(address, {"ssl.ca.location": "/no/such.pem"})


def test_replicate_by_tls_and_a_password(
    broker: Broker,
    secure: Secure,
    spark: SparkSession,
    tmp_path: Path,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic_name)
    send(broker, secure.registry.url, topic_name, [insert(FIRST, 1 << 20)])
    url = f"https://us%40er:${{env:REGISTRY_PASSWORD}}@{secure.address}"
    file = job(tmp_path, broker, topic_name, url, 'on-reject = "continue"')
    monkeypatch.setenv("REGISTRY_PASSWORD", WRONG)
    with pytest.raises(RegistryFault, match=r"Unauthorized.*user and password belong in its URL") as refused:
        replicate(with_authority(file, secure.ca))
    assert "hunter2" not in str(refused.value)
    monkeypatch.setenv("REGISTRY_PASSWORD", quote(PASSWORD, safe=""))
    (tmp_path / "ca.pem").write_bytes(secure.other_ca.read_bytes())
    with pytest.raises(RegistryFault, match=r"does ssl\.ca\.location name the authority"):
        replicate(file)
    (tmp_path / "ca.pem").write_bytes(secure.ca.read_bytes())
    assert replicate(file).finished
    assert len(rows(spark, tmp_path)) == 1, "no message was taken for a bad one"
    (tmp_path / "ca.pem").unlink()
    with pytest.raises(
        UsageError, match=r"\[source\] schema-registry\.ssl\.ca\.location: found 'ca\.pem', but there is"
    ):
        replicate(file)


def test_inspect_by_tls_and_a_password(broker: Broker, secure: Secure, topic_name: str) -> None:
    broker.create_topic(topic_name)
    send(broker, secure.registry.url, topic_name, [insert(FIRST, 1 << 20)])
    command = ["inspect", "--json", "--bootstrap-servers", broker.servers, "--topic", topic_name, "--protocol", "avro"]
    command += ["--source-timezone", "UTC", "--schema-registry", secure.url()]
    done = CliRunner().invoke(main, [*command, "-X", f"schema-registry.ssl.ca.location={secure.ca}"])
    assert (done.exit_code, json.loads(done.stdout)["kind"]) == (0, "insert"), done.output
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1 and quote(PASSWORD, safe="") not in done.output and PASSWORD not in done.output


@pytest.mark.parametrize(
    ("protocol", "password", "right", "message"),
    [
        ("avro", PASSWORD, True, ""),
        pytest.param("debezium-avro", PASSWORD, True, "", marks=pytest.mark.slow),
        ("avro", WRONG, True, "Unauthorized.*user and password belong in its URL"),
        ("avro", PASSWORD, False, r"does ssl\.ca\.location name the authority"),
    ],
)
def test_a_changefeed_by_tls_and_a_password(
    broker: Broker,
    secure: Secure,
    topic_name: str,
    tmp_path: Path,
    protocol: str,
    password: str,
    right: bool,
    message: str,
) -> None:
    (tmp_path / "ca.pem").write_bytes((secure.ca if right else secure.other_ca).read_bytes())
    made = table(1)
    events = [
        ddl("CREATE", 1 << 20, "CREATE TABLE t (id INT PRIMARY KEY)", made),
        simple_insert(made, 2 << 20, id="1"),
        Watermark(3 << 20),
    ]
    source = topic(tmp_path, events)
    registry = quote(secure.url(password), safe="")
    (tmp_path / "feed.toml").write_text(
        "[ticdc-spark]\n"
        f'sink-uri = "kafka://{broker.servers}/{topic_name}?protocol={protocol}&schema-registry={registry}"\n'
        '[ticdc-spark.schema-registry]\n"ssl.ca.location" = "ca.pem"\ntimeout = 5\n"max.retries" = 0\n'
    )

    def sent() -> Report:
        feed = load_changefeed(tmp_path / "feed.toml", None, {"changefeed-id": "test"})
        return run(feed, Upstream(open_stream(str(source)), "recorded"), tmp_path / "state", stop=threading.Event())

    if not message:
        assert sent().rows == 1
        return
    began = time.monotonic()
    with pytest.raises(RegistryFault, match=message) as refused:
        sent()
    assert time.monotonic() - began < 60
    assert "hunter2" not in str(refused.value) and quote(PASSWORD, safe="") not in str(refused.value)
