"""A changefeed's file and sink URI: what is read, what goes over what, and what is warned of."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.changefeed_files import SERVER, load, load_text, sink_uri
from tests.support.changefeed_tables import cadence, filters
from ticdc_spark.changefeed.clients import producing
from ticdc_spark.changefeed.config.key import CODEC, DISPATCHERS, KAFKA, LARGE, OURS
from ticdc_spark.changefeed.config.load import load_changefeed, load_identity
from ticdc_spark.changefeed.config.settings import Tls
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.filter.events import compile_event_rules
from ticdc_spark.config.secrets import forget
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import UsageError
from ticdc_spark.protocols.encoder_options import target_encoder

SIMPLE = {"sink.protocol": "simple"}
EXTENSION = f"{CODEC}.enable-tidb-extension"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget()


def test_the_least_is_a_uri() -> None:
    feed = load_changefeed(None, "kafka://broker:9092/my.topic?protocol=open-protocol")
    assert (feed.id, feed.file, feed.kafka.topic, feed.protocol) == ("my-topic", None, "my.topic", "open")
    assert feed.kafka.client_id.startswith("TiCDC_producer_") and feed.kafka.client_id.endswith("_default_my-topic")
    assert feed.bootstrap == cadence(interval=120.0, messages=10_000, to_all_partitions=True)
    assert feed.filter == filters() and feed.warnings == ()


def test_the_uri_may_stand_in_the_file_and_the_command_line_goes_over_it(tmp_path: Path) -> None:
    values = {**SIMPLE, f"{OURS}.sink-uri": "kafka://one:1/first?partition-num=2"}
    (tmp_path / "feed.toml").write_text(
        f'[ticdc-spark]\nsink-uri = "{values[f"{OURS}.sink-uri"]}"\n[sink]\nprotocol="simple"'
    )
    in_file = load_changefeed(tmp_path / "feed.toml")
    assert (in_file.kafka.servers, in_file.kafka.partition_num) == (("one:1",), 2)
    over = load_changefeed(tmp_path / "feed.toml", "kafka://two:2/second")
    assert (over.kafka.servers, over.kafka.topic, over.kafka.partition_num) == (("two:2",), "second", None)


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        ("open-protocol", "open"),
        ("Open-Protocol", "open"),
        ("default", "open"),
        ("open", "open"),
        ("CANAL-JSON", "canal-json"),
        ("debezium", "debezium"),
        ("Simple", "simple"),
    ],
)
def test_protocols_have_aliases_in_any_case(name: str, protocol: str) -> None:
    assert load_changefeed(None, sink_uri(protocol=name)).protocol == protocol


@pytest.mark.parametrize("name", ["avro", "flat-avro", "Debezium-Avro"])
def test_protocols_of_a_registry(name: str) -> None:
    feed = load_changefeed(None, sink_uri(protocol=name, schema_registry="http://r:8081"))
    assert feed.schema_registry == "http://r:8081"
    assert any("all tables go to one" in warning for warning in feed.warnings)


def test_the_uri_goes_over_the_file(tmp_path: Path) -> None:
    values = {"sink.protocol": "simple", f"{KAFKA}.partition-num": 3, EXTENSION: False, f"{KAFKA}.compression": "lz4"}
    uri = sink_uri(protocol="canal-json", partition_num=5, enable_tidb_extension="true", compression="none")
    feed = load(tmp_path, values, uri)
    assert (feed.protocol, feed.kafka.partition_num, feed.kafka.compression) == ("canal-json", 5, "none")
    assert feed.encoder["enable-tidb-extension"] == "true"
    assert any("'simple' in the file; 'canal-json' of the sink URI is taken" in warning for warning in feed.warnings)


def test_false_in_the_uri_does_not_replace_true_of_the_file_as_in_ticdc(tmp_path: Path) -> None:
    feed = load(tmp_path, {"sink.protocol": "canal-json", EXTENSION: True}, sink_uri(enable_tidb_extension="false"))
    assert feed.encoder["enable-tidb-extension"] == "true"
    assert any("enable-tidb-extension: false does not replace true" in warning for warning in feed.warnings)
    acks = load(tmp_path, {**SIMPLE, f"{KAFKA}.required-acks": 1}, sink_uri(required_acks=0))
    assert acks.kafka.required_acks == 1 and "required-acks" in acks.warnings[0]
    # The one switch that TiCDC applies again.
    off = load(tmp_path, {"sink.protocol": "debezium"}, sink_uri(debezium_include_start_ts="false"))
    assert off.warnings == ()


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "True", "true"])
def test_switches_of_the_uri_are_gos(text: str) -> None:
    feed = load_changefeed(None, sink_uri(protocol="canal-json", enable_tidb_extension="x").replace("=x", f"={text}"))
    assert feed.encoder["enable-tidb-extension"] == "true"


def test_the_command_line_goes_over_our_section(tmp_path: Path) -> None:
    values = {**SIMPLE, f"{OURS}.time-zone": "Asia/Tokyo", f"{OURS}.start-ts": 5, f"{OURS}.state": "state"}
    feed = load(tmp_path, values, **{"time-zone": "Asia/Shanghai", "start-ts": "7", "target-ts": None})
    assert (feed.time_zone, feed.start_ts, feed.target_ts) == ("Asia/Shanghai", 7, None)
    assert feed.encoder["time-zone"] == "Asia/Shanghai"
    assert feed.state == tmp_path / "state"
    with pytest.raises(UsageError, match=r"--time-zone: found 'Mars'; allowed: an IANA time zone"):
        load(tmp_path, SIMPLE, **{"time-zone": "Mars"})


@pytest.mark.parametrize(
    ("protocol", "more", "sent"),
    [
        ("simple", {}, True),
        ("open", {}, True),
        ("canal-json", {}, False),
        ("canal-json", {EXTENSION: True}, True),
        ("debezium", {}, False),
        ("debezium", {EXTENSION: True}, True),
        ("avro", {EXTENSION: True}, False),
        ("avro", {f"{CODEC}.avro-enable-watermark": True}, False),
        ("avro", {EXTENSION: True, f"{CODEC}.avro-enable-watermark": True}, True),
        ("debezium-avro", {EXTENSION: True}, False),
    ],
)
def test_which_configurations_send_watermarks(
    tmp_path: Path, protocol: str, more: dict[str, object], sent: bool
) -> None:
    registry = {"sink.schema-registry": "http://r:1"} if "avro" in protocol else {}
    assert load(tmp_path, {"sink.protocol": protocol, **registry, **more}).watermarks is sent


def test_content_compatible_turns_updated_columns_on(tmp_path: Path) -> None:
    feed = load(tmp_path, {"sink.protocol": "canal-json", "sink.content-compatible": True})
    assert feed.encoder["only-output-updated-columns"] == "true"


def test_the_claim_check_storage_is_relative_to_the_file(tmp_path: Path) -> None:
    large = {f"{LARGE}.large-message-handle-option": "claim-check", f"{LARGE}.claim-check-storage-uri": "kept"}
    feed = load(tmp_path, {**SIMPLE, **large})
    assert feed.encoder["claim-check-storage-uri"] == str(tmp_path / "kept")
    assert target_encoder(feed.protocol, feed.encoder) is not None


def test_checksums(tmp_path: Path) -> None:
    level = {"integrity.integrity-check-level": "correctness"}
    simple = load(tmp_path, {**SIMPLE, **level}).encoder
    assert (simple["enable-row-checksum"], simple["compute-row-checksum"]) == ("true", "true")
    feed = load(tmp_path, {"sink.protocol": "open", **level})
    assert "enable-row-checksum" not in feed.encoder
    assert any("which has no checksums" in warning for warning in feed.warnings)


def test_options_that_the_protocol_does_not_have_are_warned_of(tmp_path: Path) -> None:
    feed = load(
        tmp_path, {**SIMPLE, EXTENSION: True, "sink.open.output-old-value": False, f"{CODEC}.max-batch-size": 16}
    )
    assert [warning.partition(": ")[0] for warning in feed.warnings] == [
        "[sink.open] output-old-value",
        "[sink.kafka-config.codec-config] enable-tidb-extension",
    ]
    assert "it is for avro, canal-json, debezium, debezium-avro" in feed.warnings[1]


def test_raw_changes_without_old_rows_are_warned_of(tmp_path: Path) -> None:
    raw = {f"{KAFKA}.output-raw-change-event": True}
    feed = load(tmp_path, {"sink.protocol": "open", "sink.open.output-old-value": False, **raw})
    assert feed.output_raw_change_event and "sends no old row" in feed.warnings[0]
    assert load(tmp_path, {"sink.protocol": "open", **raw}).warnings == ()


def test_an_unknown_partition_rule_is_the_default_as_in_ticdc(tmp_path: Path) -> None:
    rule = {f"{DISPATCHERS}.matcher": ["a.b"], f"{DISPATCHERS}.partition": "index-valu"}
    feed = load(tmp_path, {**SIMPLE, **rule})
    assert feed.dispatchers[0].partition == "default"
    assert "did you mean `index-value`?" in feed.warnings[0]
    rowid = load(tmp_path, {**SIMPLE, **rule, f"{DISPATCHERS}.partition": "RowID"})
    assert rowid.dispatchers[0].partition == "index-value" and rowid.warnings == ()


def test_tls(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").touch()
    files = {f"{KAFKA}.{name}": f"{name}.pem" for name in ("ca", "cert", "key")}
    whole = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    assert load(tmp_path, SIMPLE | files).kafka.tls == Tls(**whole)
    assert load(tmp_path, SIMPLE).kafka.tls is None
    assert load(tmp_path, SIMPLE, sink_uri(enable_tls="true")).kafka.tls == Tls()
    assert load(tmp_path, SIMPLE, SERVER.replace("kafka:", "kafka+ssl:")).kafka.tls == Tls()
    skip = load(tmp_path, SIMPLE, sink_uri(enable_tls="true", insecure_skip_verify="true"))
    assert skip.kafka.tls == Tls(insecure_skip_verify=True)
    off = load(tmp_path, SIMPLE, sink_uri(insecure_skip_verify="true"))
    assert off.kafka.tls is None and "TLS is off" in off.warnings[0]


def test_oauth(tmp_path: Path) -> None:
    names = {"client-id": "me", "client-secret": "dGhlIHNlY3JldA==", "token-url": "https://t/", "scopes": ["a", "b"]}
    values = {f"{KAFKA}.sasl-oauth-{name}": value for name, value in names.items()}
    sasl = load(tmp_path, {**SIMPLE, f"{KAFKA}.sasl-mechanism": "oauthbearer", **values}).kafka.sasl
    assert sasl is not None and sasl.mechanism == "OAUTHBEARER"
    assert sasl.options == {
        "sasl-oauth-client-id": "me",
        "sasl-oauth-client-secret": "dGhlIHNlY3JldA==",
        "sasl-oauth-token-url": "https://t/",
        "sasl-oauth-scopes": "a b",
        "sasl-oauth-grant-type": "client_credentials",
    }


def test_a_user_without_a_mechanism_has_no_effect_as_in_ticdc() -> None:
    feed = load_changefeed(None, sink_uri(protocol="simple", sasl_user="u", sasl_password="pass word"))
    assert feed.kafka.sasl is None
    assert len(feed.warnings) == 2 and "pass word" not in "".join(feed.warnings)


def test_options_of_the_registrys_client(tmp_path: Path) -> None:
    text = (
        '[sink]\nprotocol = "avro"\nschema-registry = "file:schemas.json"\n'
        '[ticdc-spark.schema-registry]\n"ssl.ca.location" = "ca.pem"\ntimeout = 5\n'
    )
    with pytest.raises(
        UsageError, match=r"\[ticdc-spark\.schema-registry\] ssl\.ca\.location: found 'ca\.pem', but there"
    ):
        load_text(tmp_path, text)
    (tmp_path / "ca.pem").touch()
    feed = load_text(tmp_path, text)
    assert feed.schema_registry_options == {"ssl.ca.location": str(tmp_path / "ca.pem"), "timeout": "5"}
    assert feed.schema_registry == f"file:{tmp_path / 'schemas.json'}"


@pytest.mark.parametrize(
    ("uri", "servers", "topic"),
    [
        ("kafka://a:1/t?protocol=simple", ("a:1",), "t"),
        ("KAFKA://a:1,b:2,[::1]:3/t?protocol=simple", ("a:1", "b:2", "[::1]:3"), "t"),
        ("  kafka://a:1//t/?protocol=simple\n", ("a:1",), "t"),
        ("kafka://a:1/a%2Eb_c-d?protocol=simple&", ("a:1",), "a.b_c-d"),
        ("kafka://a.b-c.example:65535/t?protocol=%73imple", ("a.b-c.example:65535",), "t"),
        ("kafka://a:1/t?protocol=simple&compression=&kafka-client-id=", ("a:1",), "t"),
        ("kafka://a:1/t?protocol=simple&protocol=simple", ("a:1",), "t"),
    ],
)
def test_sink_uris(uri: str, servers: tuple[str, ...], topic: str) -> None:
    kafka = load_changefeed(None, uri).kafka
    assert (kafka.servers, kafka.topic, kafka.compression) == (servers, topic, "none")


def test_names_of_keys_may_be_in_any_case_in_the_file_as_in_go(tmp_path: Path) -> None:
    assert load_text(tmp_path, 'Case-Sensitive = true\n[sink]\nProtocol = "simple"\n').case_sensitive


def test_names_of_sections_may_be_in_any_case_in_the_file_as_in_go(tmp_path: Path) -> None:
    text = """
        [Sink]
        Protocol = "simple"
        [[SINK.Column-Selectors]]
        Matcher = ["a.b"]
        Columns = ["c"]
        [Sink.Kafka-Config]
        Partition-Num = 3
        [Filter]
        Rules = ["a.*"]
        [TiCDC-Spark]
        Changefeed-ID = "ours"
        """
    feed = load_text(tmp_path, text)
    assert (feed.id, feed.filter.rules, feed.kafka.partition_num) == ("ours", ("a.*",), 3)
    assert [(one.matcher, one.columns) for one in feed.column_selectors] == [(("a.b",), ("c",))]
    assert load_identity(tmp_path / "feed.toml").id == "ours"
    with pytest.raises(UsageError, match="given twice"):
        load_text(tmp_path, "[sink]\nprotocol = 'simple'\n[filter]\nrules = ['a.*']\n[Filter]\nrules = ['b.*']\n")


def test_rules_that_let_no_table_in_are_warned_of(tmp_path: Path) -> None:
    assert "nothing is sent" in load(tmp_path, {**SIMPLE, "filter.rules": ["!a.b", " !c.*"]}).warnings[0]
    assert load(tmp_path, {**SIMPLE, "filter.rules": ["*.*", "!a.b"]}).warnings == ()


def test_files_of_older_versions(tmp_path: Path) -> None:
    for value in (True, False):
        (warning,) = load(tmp_path, {**SIMPLE, "enable-old-value": value}).warnings
        assert warning.startswith("enable-old-value: has no effect here: old rows are always read")
    text = """
        [filter]
        ddl-allow-list = [1, 2]
        [sink]
        protocol = "simple"
        [cyclic-replication]
        enable = false
        replica-id = 1
        filter-replica-ids = [2, 3]
        sync-ddl = true
        [scheduler]
        type = "table-number"
        polling-time = -1
        """
    warnings = load_text(tmp_path, text).warnings
    assert [warning.partition(": has no effect here")[0] for warning in warnings] == [
        "[filter] ddl-allow-list",
        "[cyclic-replication] replica-id, [cyclic-replication] filter-replica-ids, [cyclic-replication] sync-ddl",
        "[scheduler] type, [scheduler] polling-time",
    ]
    with pytest.raises(
        UsageError, match=r"\[cyclic-replication\] enable: found true; not supported: it needs databases"
    ):
        load_text(tmp_path, text.replace("enable = false", "enable = true"))


@pytest.mark.parametrize(
    "text",
    [
        "sync-point-interval = '1s'",
        "sync-point-interval = '5 minutes'",
        "sync-point-retention = '30m'",
        "memory-quota = -1",
        "changefeed-error-stuck-duration = '1m'",
        "performance-mode = 'fast'",
        "event-collector-batch-count = 9000",
        "[mounter]\nworker-num = -16",
        "[integrity]\ncorruption-handle-level = 'ignore'",
        "[sink]\nencoder-concurrency = -1",
        "[sink]\nadvance-timeout-in-sec = -150",
        "[sink.kafka-config]\nkafka-version = 'newest'",
    ],
)
def test_a_key_without_effect_is_not_refused_for_its_value(tmp_path: Path, text: str) -> None:
    (warning,) = load_text(tmp_path, text, sink_uri(protocol="simple")).warnings
    name = text.rpartition("\n")[2].partition(" ")[0]
    assert f"{name}: has no effect here" in warning


def test_warnings_do_not_speak_of_spark_which_may_not_run(tmp_path: Path) -> None:
    text = "memory-quota = 1\n[mounter]\nworker-num = 4\n[sink]\nencoder-concurrency = 8\n"
    warnings = load_text(tmp_path, text, sink_uri(protocol="simple")).warnings
    assert len(warnings) == 2 and not any("Spark" in warning for warning in warnings)


def test_max_retry_is_not_refused_for_its_value() -> None:
    (warning,) = load_changefeed(None, sink_uri(protocol="simple", max_retry=-1)).warnings
    assert "max-retry: has no effect here" in warning


def test_no_rules_are_all_tables_as_in_ticdc(tmp_path: Path) -> None:
    feed = load(tmp_path, {**SIMPLE, "filter.rules": []})
    assert (feed.filter.rules, feed.warnings) == (("*.*",), ())


@pytest.mark.parametrize("matcher", ["", "matcher = [], "])
def test_an_entry_without_rules_takes_no_table_as_in_ticdc(tmp_path: Path, matcher: str) -> None:
    text = f"""[[filter.event-filters]]
{matcher.replace(", ", chr(10))}ignore-event = ["insert"]
[sink]
dispatchers = [{{{matcher}topic = "x"}}]
column-selectors = [{{{matcher}columns = ["*", "!a"]}}]
"""
    feed = load_text(tmp_path, text, sink_uri(protocol="simple"))
    assert [warning for warning in feed.warnings if "matches no table" in warning] == list(feed.warnings)
    assert len(feed.warnings) == 3
    table = parse_create("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "shop", "escape")
    route = Router(feed).route(table)
    assert (route.topic, [*route.columns]) == ("topic", ["id", "a"])
    (rule,) = compile_event_rules(feed.filter.event_filters, case_sensitive=False)
    assert not rule.matcher.accepts("shop", "t")


@pytest.mark.parametrize("found", ["lzma", "LZ5"])
def test_an_unknown_compression_is_none_with_a_warning_as_in_ticdc(tmp_path: Path, found: str) -> None:
    feed = load(tmp_path, {**SIMPLE, "sink.kafka-config.compression": found})
    assert feed.kafka.compression == "none"
    assert f"{found!r} is not known" in feed.warnings[0] and "known: none, gzip" in feed.warnings[0]
    upper = load(tmp_path, {**SIMPLE, "sink.kafka-config.compression": "LZ4"})
    assert (upper.kafka.compression, upper.warnings) == ("lz4", ())


@pytest.mark.parametrize("timeout", ["1ns", "10s", "100h"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"compression": "zstd", "required_acks": 0},
        {"sasl_mechanism": "plain", "sasl_user": "u", "sasl_password": "pass"},
        {"sasl_mechanism": "scram-sha-256", "sasl_user": "u", "sasl_password": "pass", "enable_tls": True},
    ],
)
def test_the_client_takes_what_is_allowed(timeout: str, more: dict[str, object]) -> None:
    """The client refuses options when it is made, which is too late."""
    uri = sink_uri(protocol="simple", dial_timeout=timeout, read_timeout=timeout, write_timeout=timeout, **more)
    assert Producer({**producing(load_changefeed(None, uri).kafka), "log_level": 0}) is not None
