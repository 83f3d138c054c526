"""No error, warning or repr of a changefeed's configuration has a secret."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.changefeed_files import load, sink_uri
from tests.unit.changefeed.config.test_config_wrong import refused
from ticdc_spark.changefeed.config.key import KAFKA
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.config.secrets import forget
from ticdc_spark.errors import UsageError


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget()


SECRET = "p4ss/w?rd&+ é%"


@pytest.mark.parametrize(
    "uri",
    [
        "kafka://a/t?protocol=simple&sasl-password={}",
        "kafka://a/t?sasl-passwrd={}",
        "kafka://user:{}@a:1/t?protocol=simple",
        "mysql://user:{}@a:1/t",
        "broker:1/t?sasl-password={}",
        "kafka://a:1/t?protocol=simple&sasl-password={}&sasl-password=other-one",
        "kafka://a:1/t?protocol=x&schema-registry=http%3A%2F%2Fu:{}@r:1",
        "kafka://a:1/t?protocol=simple&schema-registry=u:{}@r:1",
        "kafka://a:1/t?protocol=simple&sasl-mechanism={0}&sasl-password={0}",
        "kafka://a:1/t?protocol=simple&sasl-password={}%zz",
    ],
)
@pytest.mark.parametrize("upper", [True, False])
def test_no_error_has_a_secret(tmp_path: Path, uri: str, upper: bool) -> None:
    encoded = "p4ss%2Fw%3Frd%26%2B%20%C3%A9%25"
    encoded = encoded if upper else encoded.lower()
    found = refused(tmp_path, "", uri.format(encoded))
    for form in (SECRET, encoded, "p4ss"):
        assert form not in found


def test_no_error_of_a_file_has_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "from the environment")
    (tmp_path / "secret").write_text("from a file\n")
    text = (
        '[sink.kafka-config]\nsasl-password = "${env:PASSWORD}"\nsasl-gssapi-password = "${file:secret}"\n'
        'sasl-user = 3\nsasl-passwort = "written here"\ncompression = "from the environment"\n'
        'sasl-oauth-client-secret = "not base64!"\nkafka-client-id = "from a file"\n'
    )
    found = refused(tmp_path, text, sink_uri(protocol="simple"))
    assert "sasl-user" in found and "kafka-client-id" in found
    for secret in ("from the environment", "from a file", "written here", "not base64"):
        assert secret not in found


def test_a_changefeed_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER", "broker:9092")
    monkeypatch.setenv("PASSWORD", "a&b=c#d%")
    uri = "kafka://${env:BROKER}/t?protocol=avro&sasl-mechanism=plain&sasl-user=u&sasl-password=${env:PASSWORD}"
    feed = load(tmp_path, {"sink.schema-registry": "http://u:registry-pass@r:1"}, uri)
    assert feed.kafka.servers == ("broker:9092",)
    assert feed.kafka.sasl is not None and feed.kafka.sasl.password == "a&b=c#d%"
    assert feed.schema_registry == "http://u:registry-pass@r:1"
    for shown in (repr(feed), str(feed), repr(feed.kafka), repr(feed.kafka.sasl), *feed.warnings):
        assert "a&b=c#d%" not in shown and "registry-pass" not in shown


def test_a_whole_uri_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINK", "kafka://b:1/t?protocol=simple&kafka-client-id=%24%7Benv")
    with pytest.raises(UsageError, match=r"kafka-client-id: found '\$\{env'"):
        load_changefeed(None, "${env:SINK}")
    monkeypatch.setenv("SINK", "kafka://b:1/t?protocol=simple&partition-num=4")
    assert load_changefeed(None, "${env:SINK}").kafka.partition_num == 4


def test_what_is_in_base64_is_a_secret_too(tmp_path: Path) -> None:
    encoded = "dGhlIGRlY29kZWQgb25l"
    values = {
        "sink.protocol": "simple",
        f"{KAFKA}.sasl-oauth-client-secret": encoded,
        f"{KAFKA}.large-message-handle.large-message-handle-compression": "the decoded one",
    }
    with pytest.raises(UsageError) as error:
        load(tmp_path, values)
    assert "large-message-handle-compression" in str(error.value)
    assert encoded not in str(error.value) and "the decoded one" not in str(error.value)
