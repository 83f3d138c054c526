"""Wrong changefeed files and sink URIs: an error that names the key, all of them at once, not just the first."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.changefeed_files import SERVER, load_text, sink_uri, toml
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.config.secrets import forget
from ticdc_spark.errors import UsageError

AVRO = {"sink.protocol": "avro", "sink.schema-registry": "http://r:1"}
CODEC = "sink.kafka-config.codec-config."
LARGE = "sink.kafka-config.large-message-handle."
DISPATCHERS = "sink.dispatchers[]."
FILES = [
    # the file as a whole
    ("a = ", "not valid TOML"),
    ("memory-quota = 1\nmemory-quota = 2", "not valid TOML: `memory-quota` is given twice, in lines 1 and 2"),
    (
        "[sink]\ndispatchers = [{matcher = ['a.*']}]\n\n[[sink.dispatchers]]\nmatcher = ['b.*']",
        "`sink.dispatchers` is given twice, in lines 2 and 4; allowed: once",
    ),
    (
        "[[sink.dispatchers]]\nmatcher = ['b.*']\n[sink]\ndispatchers = [{matcher = ['a.*']}]",
        "`sink.dispatchers` is given twice, in lines 1 and 4; allowed: once",
    ),
    (
        "[sink]\ndispatchers = [{matcher = ['a.*']}]\n\ndispatchers = [\n  {matcher = ['b.*']},\n]",
        "`sink.dispatchers` is given twice, in lines 2 and 4; allowed: once",
    ),
    ("[sink]\nencoder-concurrency = 1\n[sink]", "`sink` is given twice, in lines 1 and 3"),
    ("[sink]\nprotocol = “simple”", "line 2 has the typographic quote “; allowed: \" and '"),
    ("[filter]\nrules = [\n 'a.*',\n ‘b.*’]", "line 4 has the typographic quote ‘"),
    ('[sink]\nprotocol = "simple”', "line 2 has the typographic quote ”"),
    ("a = " + "[" * 5000, "cannot be read"),
    ("memory-quota = " + "9" * 5000, "cannot be read"),
    ("sink = 3", "[sink]"),
    ('[sink]\nkafka-config = "x"', "[sink.kafka-config]"),
    ("memory-qouta = 1", "unknown key `memory-qouta`; did you mean `memory-quota`?"),
    ("[snk]", "unknown key `snk`; did you mean `sink`?"),
    ("partition-num = 3", "unknown key `partition-num`; it belongs to [sink.kafka-config] partition-num"),
    ("[kafka-config]\npartition-num = 3", "unknown key `kafka-config`; it belongs to [sink.kafka-config]"),
    ("[sink.kafka-config]\nmax-retry = 3", "`max-retry`"),
    ("[sink.kafka-config]\nenable-tidb-extension = true", "[sink.kafka-config.codec-config] enable-tidb-extension"),
    ("[sink]\nprotocl = 'simple'", "`protocl`; did you mean `protocol`?"),
    ("case-sensitive = true\nCase-Sensitive = true", "case-sensitive: given twice"),
    # types and values
    ("case-sensitive = 'yes'", "case-sensitive: found 'yes'; allowed: true, false"),
    ("case-sensitive = 1", "case-sensitive"),
    ("enable-sync-point = true", "enable-sync-point: found true; not supported"),
    ("bdr-mode = true", "bdr-mode: found true; not supported"),
    ("enable-active-active = true", "enable-active-active"),
    ("[mounter]\nworker-num = '16'", "[mounter] worker-num"),
    ("[scheduler]\nregion-threshold = 1.5", "[scheduler] region-threshold"),
    ("[integrity]\nintegrity-check-level = 'some'", "[integrity] integrity-check-level"),
    ("[sink]\nprotocol = 'avroo'", "[sink] protocol: found 'avroo'; allowed:"),
    ("[sink]\nprotocol = 'canal'", "canal is not supported here"),
    ("[sink]\nprotocol = 3", "[sink] protocol"),
    ("[sink]\ntransaction-atomicity = 'table'", "[sink] transaction-atomicity"),
    ("[sink]\nschema-registry = 'registry'", "[sink] schema-registry"),
    ("[sink]\nsend-bootstrap-in-msg-count = 2147483648", "[sink] send-bootstrap-in-msg-count"),
    ("[sink]\nsend-bootstrap-interval-in-sec = '2m'", "[sink] send-bootstrap-interval-in-sec"),
    ("[sink.debezium]\ninclude-start-ts = true", "[sink.debezium] include-start-ts"),
    ("[sink.kafka-config]\npartition-num = 0", "[sink.kafka-config] partition-num"),
    ("[sink.kafka-config]\npartition-num = '3'", "[sink.kafka-config] partition-num"),
    ("[sink.kafka-config]\nreplication-factor = 40000", "[sink.kafka-config] replication-factor"),
    ("[sink.kafka-config]\nmax-message-bytes = 0", "[sink.kafka-config] max-message-bytes"),
    ("[sink.kafka-config]\nrequired-acks = 2", "required-acks: found 2; allowed: -1, 0, 1"),
    ("[sink.kafka-config]\nrequired-acks = 'all'", "required-acks"),
    ("[sink.kafka-config]\nkafka-client-id = 'a b'", "[sink.kafka-config] kafka-client-id"),
    ("[sink.kafka-config]\ndial-timeout = '0s'", "[sink.kafka-config] dial-timeout"),
    ("[sink.kafka-config]\nread-timeout = 10", "[sink.kafka-config] read-timeout"),
    ("[sink.kafka-config]\nwrite-timeout = '-1s'", "[sink.kafka-config] write-timeout"),
    ("[sink.kafka-config]\nsasl-mechanism = 'md5'", "[sink.kafka-config] sasl-mechanism"),
    ("[sink.kafka-config]\nsasl-mechanism = 'plain'", "[sink.kafka-config] sasl-user: missing"),
    ("[sink.kafka-config]\nsasl-mechanism = 'gssapi'", "[sink.kafka-config] sasl-gssapi-auth-type: missing"),
    ("[sink.kafka-config]\nsasl-oauth-client-id = 'x'", "sasl-oauth-client-id: is for sasl-mechanism OAUTHBEARER"),
    ("[sink.kafka-config]\nsasl-mechanism = 'oauthbearer'", "[sink.kafka-config] sasl-oauth-token-url: missing"),
    (
        "[sink.kafka-config]\nsasl-oauth-client-secret = 'plain text'",
        "sasl-oauth-client-secret: allowed: text in base64",
    ),
    ("[sink.kafka-config]\nsasl-gssapi-auth-type = 'user'", "sasl-gssapi-auth-type: found 'user'; allowed: \"keytab\""),
    ("[sink.kafka-config]\nsasl-oauth-grant-type = 'password'", "[sink.kafka-config] sasl-oauth-grant-type"),
    ("[sink.kafka-config]\nsasl-gssapi-auth-type = 'both'", "sasl-gssapi-auth-type"),
    ("[sink.kafka-config]\nca = 'nowhere.pem'", "[sink.kafka-config] ca: found 'nowhere.pem', but there is no file"),
    ("[sink.kafka-config]\nca = 'feed.toml'", "[sink.kafka-config] cert: missing"),
    (
        "[sink.kafka-config]\nca = 'feed.toml'\ncert = 'feed.toml'\nkey = 'feed.toml'\nenable-tls = false",
        "[sink.kafka-config] enable-tls: found false",
    ),
    ("[sink.kafka-config.glue-schema-registry-config]\nregion = 'r'", "glue-schema-registry-config] region"),
    ("[sink.kafka-config.codec-config]\nmax-batch-size = 0", "codec-config] max-batch-size"),
    ("[sink.kafka-config.codec-config]\nencoding-format = 'xml'", "codec-config] encoding-format"),
    ("[sink.kafka-config.codec-config]\navro-decimal-handling-mode = 'double'", "avro-decimal-handling-mode"),
    ("[sink.kafka-config.codec-config]\navro-bigint-unsigned-handling-mode = 1", "avro-bigint-unsigned-handling-mode"),
    ("[sink.kafka-config.codec-config]\noutput-row-key = true", "output-row-key"),
    ("[sink.kafka-config.codec-config]\navro-include-before-value = true", "avro-include-before-value"),
    ("[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = 'split'", "large-message-handle-option"),
    (
        "[sink.kafka-config.large-message-handle]\nlarge-message-handle-compression = 'gzip'",
        "large-message-handle-compression",
    ),
    (
        "[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = 'claim-check'",
        "claim-check-storage-uri: missing",
    ),
    (
        toml({LARGE + "large-message-handle-option": "claim-check", LARGE + "claim-check-storage-uri": "ftpp://x/y"}),
        "ftpp",
    ),
    # filters, dispatchers, selectors
    ("[filter]\nrules = 'a.b'", "[filter] rules"),
    ("[filter]\nrules = ['a']", "[filter] rules: rule 'a'"),
    ("[filter]\nrules = ['@missing.txt']", "[filter] rules"),
    ("[filter]\nignore-txn-start-ts = [-1]", "[filter] ignore-txn-start-ts"),
    ("[filter]\nevent-filters = 3", "[[filter.event-filters]]"),
    (
        "filter.event-filters = [{matcher = ['a.b']}, {matcher = ['a.b'], ignore-event = ['inserts']}]",
        "[[filter.event-filters]] 2 ignore-event: found 'inserts', which is no event; did you mean `insert`?",
    ),
    ("[[filter.event-filters]]\nmatcher = ['a.b']\nignore-sql = ['(']", "[[filter.event-filters]] 1 ignore-sql"),
    ("[[filter.event-filters]]\nmatcher = ['a.b']\nignore-insert-value-expr = 3", "ignore-insert-value-expr"),
    (
        "[sink]\ndispatchers = [{matcher = ['a.b'], partition = 'ts', dispatcher = 'ts'}]",
        "[[sink.dispatchers]] 1 dispatcher: `dispatcher` and `partition`",
    ),
    ("[sink]\ndispatchers = [{matcher = ['a.b'], topic = 'a b'}]", "[[sink.dispatchers]] 1 topic: found 'a b'"),
    ("[sink]\ndispatchers = [{matcher = ['a.b'], topic = '{table}_{schema}'}]", "[[sink.dispatchers]] 1 topic"),
    ("[sink]\ndispatchers = [{matcher = ['a.b'], topic = '{Schema}'}]", "[[sink.dispatchers]] 1 topic"),
    ("[sink]\ndispatchers = [{matcher = ['a.b'], topic = '..'}]", "[[sink.dispatchers]] 1 topic"),
    ("[sink]\ndispatchers = [{matcher = ['a.b'], partition = 'columns'}]", "[[sink.dispatchers]] 1 columns: missing"),
    ("[sink]\ndispatchers = [{matcher = ['a.b'], columns = 'c'}]", "[[sink.dispatchers]] 1 columns"),
    ("[sink]\ndispatchers = [{matcher = ['a.b'], target-table = '{db}'}]", "[[sink.dispatchers]] 1 target-table"),
    ("[sink]\ndispatchers = [{mather = ['a.b']}]", "[[sink.dispatchers]] 1: unknown key `mather`"),
    ("[sink]\ncolumn-selectors = [{matcher = ['a.b']}]", "[[sink.column-selectors]] 1 columns: missing"),
    ("[sink]\ncolumn-selectors = [{matcher = ['a.b'], columns = ['a b']}]", "[[sink.column-selectors]] 1 columns"),
    ("[sink]\ncolumn-selectors = ['a.b']", "[[sink.column-selectors]]"),
    # our own section
    ("[ticdc-spark]\nchangefeed-id = 'a--b'", "[ticdc-spark] changefeed-id"),
    ("[ticdc-spark]\ntime-zone = 'Mars'", "[ticdc-spark] time-zone"),
    ("[ticdc-spark]\nstart-ts = 0", "[ticdc-spark] start-ts"),
    ("[ticdc-spark]\nstart-ts = 9\ntarget-ts = 9", "[ticdc-spark] target-ts: found 9, which is not after start-ts 9"),
    ("[ticdc-spark]\nsnapshot = 'always'", '[ticdc-spark] snapshot: found \'always\'; allowed: "never", "initial"'),
    ("[ticdc-spark]\nsnapshot = 'initial'\nstart-ts = 9", "[ticdc-spark] snapshot: found 'initial'; not with start-ts"),
    ("[ticdc-spark]\nsnapshot = 'initial'\nsource = 'kafka://a:1/t'", "only where source is one of mysql://"),
    ("[ticdc-spark]\nsnapshot-parallelism = 0", "[ticdc-spark] snapshot-parallelism"),
    ("[ticdc-spark]\nsnapshot-chunk-rows = 0", "[ticdc-spark] snapshot-chunk-rows"),
    ("[ticdc-spark.spark]\nmaster = 'local'", "[ticdc-spark] spark: "),
    ("[ticdc-spark]\nspark = 3", "[ticdc-spark] spark: found 3; allowed: a table"),
    ("[ticdc-spark]\ncluster-id = 'a b'", "[ticdc-spark] cluster-id"),
    ("[ticdc-spark]\nstate = ''\nstates = 'x'", "unknown key `states`; did you mean `state`?"),
    ("[ticdc-spark]\nstate = '${env:NOT_SET_ANYWHERE}'", "[ticdc-spark] state: environment variable NOT_SET_ANYWHERE"),
    ("sink-uri = 'kafka://a:1/t'\n[ticdc-spark]\nsink-uri = 'kafka://a:1/t'", "sink-uri: given here and at"),
    ("[ticdc-spark.schema-registry]\ntimeout = []", "[ticdc-spark.schema-registry] timeout"),
]
URIS = [
    ("", "sink URI: missing"),
    ("broker:9092/topic", "sink URI: found no scheme; allowed: kafka://"),
    ("mysql://u@b:1/t", "sink URI scheme: found 'mysql'; allowed: kafka, kafka+ssl"),
    ("kafka://broker/topic?protocol=simple", "sink URI host: found 'broker'; allowed: host:port"),
    ("kafka://broker:0/topic?protocol=simple", "sink URI host"),
    ("kafka://broker:65536/topic?protocol=simple", "sink URI host"),
    ("kafka://a:1,/topic?protocol=simple", "sink URI host"),
    ("kafka:///topic?protocol=simple", "sink URI host"),
    ("kafka://a:1?protocol=simple", "sink URI topic: missing"),
    ("kafka://a:1/?protocol=simple", "sink URI topic: missing"),
    ("kafka://a:1/t?protocol=simple&topic=t", "sink URI: unknown key `topic`: the topic is the path of the URI"),
    ("kafka://a:1/a/b?protocol=simple", "sink URI topic: found 'a/b'"),
    ("kafka://a:1/a%20b?protocol=simple", "sink URI topic"),
    ("kafka://a:1/" + "x" * 250 + "?protocol=simple", "sink URI topic"),
    ("kafka://a:1/t?protocol=simple#x", "sink URI: `#` must be written %23"),
    ("kafka://a:1/t", "[sink] protocol: missing"),
    ("kafka://a:1/t?protocol=", "[sink] protocol: missing"),
    ("kafka://a:1/t?protocol=sample", "sink URI protocol: found 'sample'"),
    ("kafka://a:1/t?protocol=simple&protocol=open", "sink URI protocol: given twice"),
    ("kafka://a:1/t?protocol=simple&partition-num=", "sink URI partition-num: found ''"),
    ("kafka://a:1/t?protocol=simple&partition-num=+3", "sink URI partition-num"),
    ("kafka://a:1/t?protocol=simple&partition-num=1_0", "sink URI partition-num"),
    ("kafka://a:1/t?protocol=simple&partition-num=٣", "sink URI partition-num"),
    ("kafka://a:1/t?protocol=simple&partition-num=99999999999999999999", "sink URI partition-num"),
    ("kafka://a:1/t?protocol=simple&partition_num=3", "unknown key `partition_num`; did you mean `partition-num`?"),
    ("kafka://a:1/t?protocol=simple&auto-create-topic=yes", "sink URI auto-create-topic"),
    ("kafka://a:1/t?protocol=simple&compression=%zz", "sink URI compression: found '%zz'; allowed: URL-encoded"),
    ("kafka://a:1/t?protocol=simple&kafka-client-id=%ff", "sink URI kafka-client-id"),
    ("kafka://a:1/t?protocol=simple&dial-timeout=10", "sink URI dial-timeout: found '10'"),
    ("kafka://a:1/t?protocol=simple&encoder-concurrency=3", "[sink] encoder-concurrency"),
    ("kafka://a:1/t?protocol=simple&sasl-oauth-client-id=x", "[sink.kafka-config] sasl-oauth-client-id"),
    ("kafka+ssl://a:1/t?protocol=simple&enable-tls=false", "sink URI enable-tls: found false"),
    ("kafka://a:1/t?protocol=avro", "[sink] schema-registry: missing; avro needs"),
    ("kafka://a:1/t?protocol=debezium-avro", "[sink] schema-registry: missing"),
    ("kafka://a:1/t?protocol=debezium&schema-registry=http://r:1", 'allowed with protocol "debezium-avro" or "avro"'),
    ("kafka://a:1/t?protocol=debezium&debezium-include-start-ts=true", "sink URI debezium-include-start-ts"),
    ("${env:NOT_SET_ANYWHERE}", "sink URI: environment variable NOT_SET_ANYWHERE is not set"),
    ("kafka://${env:NOT_SET_ANYWHERE}/t?protocol=simple", "sink URI host: environment variable NOT_SET_ANYWHERE"),
]
TOGETHER: list[tuple[dict[str, Any], str]] = [
    (AVRO | {"force-replicate": True}, "force-replicate: found true; allowed with avro: false"),
    (AVRO | {f"{DISPATCHERS}matcher": ["*.*"], f"{DISPATCHERS}topic": "{schema}"}, "1 topic: found '{schema}'"),
    (AVRO | {f"{DISPATCHERS}matcher": ["*.*"], f"{DISPATCHERS}topic": "x_{table}"}, "1 topic: found 'x_{table}'"),
    (AVRO | {"integrity.integrity-check-level": "correctness"}, "codec-config] enable-tidb-extension: found false"),
    (
        AVRO
        | {"integrity.integrity-check-level": "correctness", f"{CODEC}enable-tidb-extension": True}
        | {f"{CODEC}avro-decimal-handling-mode": "string"},
        "avro-bigint-unsigned-handling-mode: found long; `integrity-check-level",
    ),
    (AVRO | {f"{LARGE}large-message-handle-option": "handle-key-only"}, "large-message-handle-option: found"),
    (
        {"sink.protocol": "canal-json", f"{LARGE}large-message-handle-option": "handle-key-only"},
        "it needs enable-tidb-extension = true",
    ),
    (
        {"sink.protocol": "open", f"{LARGE}large-message-handle-option": "claim-check"}
        | {f"{LARGE}claim-check-storage-uri": "x", f"{LARGE}claim-check-raw-value": True},
        "claim-check-raw-value",
    ),
    (
        {"sink.protocol": "open", f"{LARGE}large-message-handle-option": "claim-check"}
        | {f"{LARGE}claim-check-storage-uri": "s3://b/p?access-key=aa&secret-access-key=verysecret"},
        "claim-check-storage-uri: settings behind ?",
    ),
    (
        {"sink.protocol": "open", "sink.delete-only-output-handle-key-columns": True, "force-replicate": True},
        "force-replicate: found true; allowed with `delete-only-output-handle-key-columns`",
    ),
    (
        {"sink.protocol": "simple", "integrity.integrity-check-level": "correctness"}
        | {"sink.column-selectors[].matcher": ["*.*"], "sink.column-selectors[].columns": ["*"]},
        'integrity-check-level: found "correctness"; allowed together with `column-selectors`',
    ),
]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget()


def refused(folder: Path, text: str, uri: str | None = None) -> str:
    with pytest.raises(UsageError) as error:
        load_text(folder, text, uri)
    assert str(folder / "feed.toml") in str(error.value)
    assert error.value.exit_code == 2
    return str(error.value)


@pytest.mark.parametrize(("text", "wanted"), FILES, ids=lambda value: value[:60])
def test_a_wrong_file_names_its_key(tmp_path: Path, text: str, wanted: str) -> None:
    assert wanted in refused(tmp_path, text, sink_uri(protocol="simple"))


@pytest.mark.parametrize(("uri", "wanted"), URIS, ids=lambda value: value[:60])
def test_a_wrong_uri_names_its_key(tmp_path: Path, uri: str, wanted: str) -> None:
    assert wanted in refused(tmp_path, "", uri)
    with pytest.raises(UsageError, match=r"^command line: ") as error:
        load_changefeed(None, uri)
    assert wanted in str(error.value)


@pytest.mark.parametrize(("values", "wanted"), TOGETHER, ids=lambda value: str(value)[:60])
def test_what_does_not_go_together(tmp_path: Path, values: dict[str, Any], wanted: str) -> None:
    found = refused(tmp_path, toml(values))
    assert wanted in found
    assert "verysecret" not in found


def test_there_are_many() -> None:
    assert len(FILES) + len(URIS) + len(TOGETHER) >= 100


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    text = 'bdr-mode = true\n[sink]\nprotocl = "x"\n[sink.kafka-config]\npartition-num = 0\n[filter]\nrules = ["a"]\n'
    found = refused(tmp_path, text, "kafka://a/t?protocol=simpel&partition-num=x")
    assert found.splitlines()[0].endswith("feed.toml: 7 mistakes")
    for key in (
        "bdr-mode",
        "`protocl`",
        "partition-num",
        "[filter] rules",
        "host",
        "URI protocol",
        "URI partition-num",
    ):
        assert key in found


@pytest.mark.parametrize(
    "entry",
    [
        "dispatchers = [{matcher = ['a.b'], partition = 'columns', columns = \"['a', 'b']\"}]",
        "column-selectors = [{matcher = ['a.b'], columns = 'c'}]",
    ],
)
def test_a_list_that_is_wrong_is_not_called_missing_too(tmp_path: Path, entry: str) -> None:
    found = refused(tmp_path, f"[sink]\nprotocol = 'simple'\n{entry}\n")
    assert found.count("columns:") == 1 and "allowed: a list of strings" in found and "missing" not in found


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml: no such changefeed file"):
        load_changefeed(tmp_path / "nowhere.toml", SERVER)
    with pytest.raises(UsageError, match="cannot be read"):
        load_changefeed(tmp_path, SERVER)
