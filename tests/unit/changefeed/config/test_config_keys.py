"""Every key of a changefeed's configuration: read from the file and from the sink URI, with TiCDC's default."""

import importlib.util
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.changefeed_files import SERVER, load, sink_uri
from ticdc_spark.changefeed.config.encoding import takes
from ticdc_spark.changefeed.config.key import CODEC, DISPATCHERS, EVENTS, KAFKA, LARGE, OURS, SELECTORS, URI, Key
from ticdc_spark.changefeed.config.keys import BY_ID, BY_URI, KEYS
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.config.secrets import forget
from ticdc_spark.errors import UsageError
from ticdc_spark.protocols import PROTOCOLS

ROOT = Path(__file__).resolve().parents[4]
# What the reference lists, by the name that a key has in its section.
REFERENCE = {
    "": """sink-uri memory-quota case-sensitive force-replicate ignore-ineligible-table check-gc-safe-point
        enable-sync-point sync-point-interval sync-point-retention sql-mode bdr-mode changefeed-error-stuck-duration
        performance-mode enable-table-monitor enable-active-active active-active-progress-interval
        active-active-sync-stats-interval event-collector-batch-count event-collector-batch-bytes consistent""",
    "mounter": "worker-num",
    "scheduler": "enable-table-across-nodes region-threshold write-key-threshold region-count-per-span",
    "synced-status": "synced-check-interval checkpoint-interval",
    "integrity": "integrity-check-level corruption-handle-level",
    "filter": "rules ignore-txn-start-ts",
    EVENTS: """matcher ignore-event ignore-sql ignore-insert-value-expr ignore-update-old-value-expr
        ignore-update-new-value-expr ignore-delete-value-expr ignore-update-only-columns""",
    "sink": """protocol schema-registry encoder-concurrency enable-kafka-sink-v2 only-output-updated-columns
        delete-only-output-handle-key-columns content-compatible send-bootstrap-interval-in-sec
        send-bootstrap-in-msg-count send-bootstrap-to-all-partition send-all-bootstrap-at-start debezium-disable-schema
        terminator date-separator enable-partition-separator file-index-digit csv cloud-storage-config
        transaction-atomicity advance-timeout-in-sec safe-mode mysql-config pulsar-config""",
    "sink.open": "output-old-value",
    "sink.debezium": "output-old-value include-start-ts",
    DISPATCHERS: "matcher topic partition dispatcher index columns target-schema target-table",
    SELECTORS: "matcher columns",
    KAFKA: """kafka-version kafka-client-id partition-num replication-factor max-message-bytes required-acks compression
        auto-create-topic dial-timeout read-timeout write-timeout enable-tls ca cert key insecure-skip-verify
        sasl-mechanism sasl-user sasl-password sasl-gssapi-auth-type sasl-gssapi-keytab-path
        sasl-gssapi-kerberos-config-path sasl-gssapi-service-name sasl-gssapi-user sasl-gssapi-password
        sasl-gssapi-realm sasl-gssapi-disable-pafxfast sasl-oauth-client-id sasl-oauth-client-secret
        sasl-oauth-token-url sasl-oauth-scopes sasl-oauth-grant-type sasl-oauth-audience output-raw-change-event""",
    URI: "max-retry",
    CODEC: """enable-tidb-extension max-batch-size avro-enable-watermark avro-decimal-handling-mode
        avro-bigint-unsigned-handling-mode encoding-format avro-include-before-value output-row-key""",
    LARGE: """large-message-handle-option large-message-handle-compression claim-check-storage-uri
        claim-check-raw-value""",
    "sink.kafka-config.glue-schema-registry-config": "region registry-name access-key secret-access-key token",
}
# Names of the reference's section on the sink URI.
IN_URI = """protocol kafka-version kafka-client-id partition-num replication-factor max-message-bytes required-acks
    compression auto-create-topic max-batch-size max-retry dial-timeout read-timeout write-timeout enable-tidb-extension
    avro-decimal-handling-mode avro-bigint-unsigned-handling-mode avro-enable-watermark avro-include-before-value
    schema-registry only-output-updated-columns content-compatible encoding-format debezium-disable-schema
    debezium-include-start-ts output-row-key enable-tls ca cert key insecure-skip-verify sasl-mechanism sasl-user
    sasl-password sasl-gssapi-auth-type sasl-gssapi-keytab-path sasl-gssapi-kerberos-config-path
    sasl-gssapi-service-name sasl-gssapi-user sasl-gssapi-password sasl-gssapi-realm sasl-gssapi-disable-pafxfast
    transaction-atomicity"""

PLAIN = {f"{KAFKA}.sasl-mechanism": "PLAIN", f"{KAFKA}.sasl-user": "u", f"{KAFKA}.sasl-password": "pass-one"}
GSSAPI = {
    f"{KAFKA}.sasl-mechanism": "gssapi",
    f"{KAFKA}.sasl-gssapi-auth-type": "keytab",
    f"{KAFKA}.sasl-gssapi-keytab-path": "a.pem",
    f"{KAFKA}.sasl-gssapi-service-name": "kafka",
    f"{KAFKA}.sasl-gssapi-user": "u",
}
OAUTH = {
    f"{KAFKA}.sasl-mechanism": "OAUTHBEARER",
    f"{KAFKA}.sasl-oauth-client-id": "c",
    f"{KAFKA}.sasl-oauth-client-secret": "cGFzcy10aHJlZQ==",
    f"{KAFKA}.sasl-oauth-token-url": "https://tokens/",
}
TLS = {f"{KAFKA}.ca": "a.pem", f"{KAFKA}.cert": "a.pem", f"{KAFKA}.key": "a.pem"}
EVENT = {f"{EVENTS}.matcher": ["a.b"]}
DISPATCH = {f"{DISPATCHERS}.matcher": ["a.b"]}
CLAIM = {f"{LARGE}.large-message-handle-option": "claim-check", f"{LARGE}.claim-check-storage-uri": "store"}
# A value that is not the default, where the kind does not suggest one; and what it needs beside it.
VALUES: dict[str, Any] = {
    f"{OURS}.metrics": "127.0.0.1:9465",
    f"{OURS}.metrics-token": "a-token-of-the-test",
    "sink-uri": None,
    f"{OURS}.sink-uri": None,
    "sink.protocol": "canal-json",
    "sink.schema-registry": "http://registry:8081",
    "sink.transaction-atomicity": None,  # there is only one value, as of the next with None
    "filter.rules": ["a.*", "!a.b"],
    f"{EVENTS}.matcher": ["c.*"],
    f"{EVENTS}.ignore-event": ["drop table"],
    f"{DISPATCHERS}.matcher": ["c.*"],
    f"{DISPATCHERS}.topic": "x_{schema}_{table}",
    f"{DISPATCHERS}.partition": "ts",
    f"{DISPATCHERS}.dispatcher": "ts",
    f"{SELECTORS}.matcher": ["c.*"],
    f"{SELECTORS}.columns": ["*", "!c"],
    f"{KAFKA}.kafka-version": "2.6.0",
    f"{KAFKA}.required-acks": 1,
    f"{KAFKA}.compression": "zstd",
    f"{KAFKA}.sasl-mechanism": "SCRAM-SHA-512",
    f"{KAFKA}.sasl-gssapi-auth-type": None,
    f"{KAFKA}.sasl-oauth-grant-type": None,
    f"{KAFKA}.sasl-oauth-client-secret": "c2VjcmV0LWZvdXI=",
    f"{KAFKA}.sasl-oauth-token-url": "https://others/",
    f"{LARGE}.large-message-handle-option": "handle-key-only",
    f"{LARGE}.large-message-handle-compression": "lz4",
    "integrity.corruption-handle-level": "error",
    f"{CODEC}.encoding-format": "AVRO",
    f"{CODEC}.avro-decimal-handling-mode": "string",
    f"{CODEC}.avro-bigint-unsigned-handling-mode": "string",
    "integrity.integrity-check-level": "correctness",
    "performance-mode": "low-latency",
    "consistent": {"level": "eventual"},
    "changefeed-error-stuck-duration": "45m",
    f"{OURS}.time-zone": "Asia/Shanghai",
    f"{OURS}.schema-registry": {"timeout": 9},
    f"{OURS}.snapshot": "initial",
    f"{OURS}.spark": {"spark.master": "local[1]"},
}
BESIDE: dict[str, dict[str, Any]] = {
    f"{EVENTS}.": EVENT,
    f"{DISPATCHERS}.": DISPATCH,
    f"{DISPATCHERS}.columns": DISPATCH | {f"{DISPATCHERS}.partition": "columns", f"{DISPATCHERS}.columns": ["x"]},
    f"{DISPATCHERS}.index": DISPATCH | {f"{DISPATCHERS}.partition": "index-value"},
    f"{SELECTORS}.": {f"{SELECTORS}.matcher": ["a.b"], f"{SELECTORS}.columns": ["*"]},
    f"{KAFKA}.sasl-": PLAIN,
    f"{KAFKA}.sasl-gssapi-": GSSAPI,
    f"{KAFKA}.sasl-oauth-": OAUTH,
    f"{KAFKA}.ca": TLS,
    f"{KAFKA}.cert": TLS,
    f"{KAFKA}.key": TLS,
    f"{KAFKA}.insecure-skip-verify": TLS,
    f"{LARGE}.claim-check": CLAIM,
    f"{CODEC}.avro-enable-watermark": {f"{CODEC}.enable-tidb-extension": True},
}


def beside(key: Key) -> dict[str, Any]:
    """Other keys that a key needs: the protocol that has its option, and what stands under the longest prefix."""
    prefixes = [prefix for prefix in BESIDE if key.id.startswith(prefix) and (prefix[-1:] in ".-" or prefix == key.id)]
    prefixes += [prefix for prefix in BESIDE if prefix.endswith("claim-check") and key.id.startswith(prefix)]
    values = dict(BESIDE[max(prefixes, key=len)]) if prefixes else {}
    able = [name for name, found in sorted(PROTOCOLS.items()) if key.option and takes(found, key.option)]
    needs_registry = key.id in ("sink.schema-registry", f"{OURS}.schema-registry")
    named = "avro" if needs_registry else "debezium" if key.name == "cluster-id" else able[-1] if able else "simple"
    if PROTOCOLS[named].traits.registry:
        values["sink.schema-registry"] = "http://other:8081"
    return {"sink.protocol": named, **values}


def other(key: Key) -> Any:
    """A value that is allowed and is not the default."""
    if key.id in VALUES:
        return VALUES[key.id]
    if isinstance(key.otherwise, bool) or key.kind.allowed == "true, false":
        return not key.otherwise
    if key.kind.allowed.startswith("an integer"):
        return 7
    if key.kind.allowed.startswith("a duration"):
        return "61m1.5s"
    samples: dict[str, Any] = {"a number": 0.5, "a table": {}, "a path": "b.pem"}
    if "list of strings" in key.kind.allowed:
        return ["name"]
    return [7] if "list" in key.kind.allowed else samples.get(key.kind.allowed, "name")


def one_place(feed: Changefeed) -> dict[str, Any]:
    """What a changefeed is, without its file and its warnings."""
    return {name: getattr(feed, name) for name in feed.__struct_fields__ if name not in ("file", "warnings")}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.pem").touch()
    (tmp_path / "b.pem").touch()
    return tmp_path


IN_FILE = [key for key in KEYS if key.section != URI and other(key) is not None]
OVER = [key for key in KEYS if (key.uri or key.section == URI) and other(key) is not None]


def checked(key: Key, folder: Path, base: dict[str, Any], values: dict[str, Any], uri: str) -> Any:
    """What becomes of a value, compared with what the key's row promises."""
    before = load(folder, base)
    if key.use == "refused":
        with pytest.raises(UsageError, match=re.escape(key.reason)) as error:
            load(folder, values, uri)
        assert (key.uri if uri != SERVER else key.name) in str(error.value)
        return None
    after = load(folder, values, uri)
    reasons = [warning for warning in after.warnings if key.reason and key.reason in warning]
    if key.use == "ignored":
        assert one_place(after) == one_place(before)
        assert reasons and key.name in reasons[0]
        return None
    assert one_place(after) != one_place(before), "the value goes nowhere"
    assert not reasons
    return after


@pytest.mark.parametrize("key", IN_FILE, ids=lambda key: key.id)
def test_a_key_of_the_file_is_read(key: Key, folder: Path) -> None:
    base = beside(key)
    if key.name == "dispatcher":
        base.pop(f"{DISPATCHERS}.partition", None)
    checked(key, folder, base, base | {key.id: other(key)}, SERVER)


@pytest.mark.parametrize("key", OVER, ids=lambda key: key.id)
def test_a_key_of_the_uri_is_read_as_the_files_and_goes_over_it(key: Key, folder: Path) -> None:
    name = key.uri or key.name
    value = other(key)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    default = {} if key.default in (None, True) or key.section == URI else {key.id: key.default}
    before = beside(key) | default
    uri = f"{SERVER}?{name}={urllib.parse.quote(text, safe='')}"
    after = checked(key, folder, before, before, uri)
    if after is not None and key.section != URI:
        assert one_place(after) == one_place(load(folder, before | {key.id: value}))


def test_the_table_has_the_references_keys() -> None:
    listed = {
        f"{section}.{name}" if section else name for section, names in REFERENCE.items() for name in names.split()
    }
    assert listed - set(BY_ID) == set()
    ours = {key.id for key in KEYS if key.section == OURS}
    more = {key.id for key in KEYS if key.section == "scheduler"} | {"enable-old-value", "filter.ddl-allow-list"}
    more |= {key.id for key in KEYS if key.section == "cyclic-replication"}  # of other versions
    assert set(BY_ID) - listed - ours - more == set()
    assert set(BY_URI) == set(IN_URI.split())


def test_every_key_is_described() -> None:
    for key in KEYS:
        assert key.meaning.endswith((".", "…")), key.id
        assert bool(key.reason) == (key.use != "used"), key.id
        assert key.default is None or key.otherwise is not None or key.default == ()


def test_defaults_are_ticdcs() -> None:
    wanted = {
        "replication-factor": 1,
        "max-message-bytes": 10485760,
        "required-acks": -1,
        "compression": "none",
        "auto-create-topic": True,
        "max-batch-size": 16,
        "max-retry": 5,
        "dial-timeout": 10.0,
        "read-timeout": 10.0,
        "write-timeout": 10.0,
        "enable-tidb-extension": False,
        "avro-decimal-handling-mode": "precise",
        "avro-bigint-unsigned-handling-mode": "long",
        "avro-enable-watermark": False,
        "avro-include-before-value": False,
        "only-output-updated-columns": False,
        "content-compatible": False,
        "encoding-format": "json",
        "debezium-disable-schema": False,
        "debezium-include-start-ts": False,
        "output-row-key": False,
        "insecure-skip-verify": False,
        "transaction-atomicity": "none",
    }
    assert {name: key.otherwise for name, key in BY_URI.items() if key.default is not None} == wanted | {}
    files = {
        "memory-quota": 1073741824,
        "case-sensitive": False,
        "force-replicate": False,
        "check-gc-safe-point": True,
        "sync-point-interval": 600.0,
        "sync-point-retention": 86400.0,
        "changefeed-error-stuck-duration": 1800.0,
        "performance-mode": "throughput",
        "mounter.worker-num": 16,
        "scheduler.region-threshold": 10000,
        "scheduler.write-key-threshold": 0,
        "synced-status.synced-check-interval": 300,
        "synced-status.checkpoint-interval": 15,
        "integrity.integrity-check-level": "none",
        "integrity.corruption-handle-level": "warn",
        "sink.encoder-concurrency": 32,
        "sink.send-bootstrap-interval-in-sec": 120,
        "sink.send-bootstrap-in-msg-count": 10000,
        "sink.send-bootstrap-to-all-partition": True,
        "sink.send-all-bootstrap-at-start": False,
        "sink.open.output-old-value": True,
        "sink.debezium.output-old-value": True,
        "sink.advance-timeout-in-sec": 150,
        "sink.date-separator": "day",
        "sink.enable-partition-separator": True,
        f"{KAFKA}.sasl-oauth-grant-type": "client_credentials",
        f"{KAFKA}.output-raw-change-event": False,
        f"{LARGE}.large-message-handle-option": "none",
        f"{LARGE}.large-message-handle-compression": "none",
        f"{LARGE}.claim-check-raw-value": False,
        "filter.rules": ("*.*",),
        f"{DISPATCHERS}.topic": "",
        f"{DISPATCHERS}.partition": "default",
    }
    assert {name: BY_ID[name].otherwise for name in files} == files


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_the_encoder_gets_ticdcs_defaults_for_all_that_it_takes(name: str) -> None:
    """Its own defaults are others: an option that is not named would be on."""
    registry = {"schema_registry": "http://r:1"} if PROTOCOLS[name].traits.registry else {}
    options = load_changefeed(None, sink_uri(protocol=name, **registry)).encoder
    for field, value in PROTOCOLS[name].encoder_defaults.items():
        assert options[field.replace("_", "-")] == "false" != str(value).lower()


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("changefeed_keys", ROOT / "scripts" / "changefeed_keys.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_keys_is_in_step_with_the_code(script: ModuleType) -> None:
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run scripts/changefeed_keys.py"
    assert script.page().count("\n| `") >= len(KEYS)
