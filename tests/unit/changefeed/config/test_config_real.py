"""A changefeed file as TiCDC's users have it loads as it is."""

import re
from pathlib import Path

import pytest

from tests.support.changefeed_files import load_text
from tests.support.changefeed_tables import dispatch_rule, event_filter, filters
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.config.settings import ColumnSelector, Sasl
from ticdc_spark.config.secrets import forget

# A file as TiCDC's users have it: every section that concerns Kafka, written with the reference's names.
REAL = """\
memory-quota = 1073741824
case-sensitive = true
force-replicate = true
ignore-ineligible-table = false
enable-sync-point = false
sync-point-interval = "5m"
sync-point-retention = "1h"
sql-mode = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES"
bdr-mode = false
changefeed-error-stuck-duration = "30m"

[mounter]
worker-num = 16

[filter]
ignore-txn-start-ts = [1, 2]
rules = ['*.*', '!test.*', '@more.txt']

[[filter.event-filters]]
matcher = ["test.worker"]
ignore-event = ["insert", "drop table"]
ignore-sql = ["^drop", "add column"]
ignore-delete-value-expr = "name = 'john'"
ignore-insert-value-expr = "id >= 100"
ignore-update-old-value-expr = "age < 18"
ignore-update-new-value-expr = "gender = 'male'"

[[filter.event-filters]]
matcher = ["test.fruit"]
ignore-event = ["all ddl"]

[scheduler]
enable-table-across-nodes = false
region-threshold = 100000
write-key-threshold = 30000

[sink]
dispatchers = [
    {matcher = ['test1.*', 'test2.*'], topic = "table_{schema}_x", partition = "index-value"},
    {matcher = ['test3.*', 'test4.*'], partition = "columns", columns = ["id", "a"]},
    {matcher = ['test5.*'], topic = "{schema}.{table}", dispatcher = "TS"},
    {matcher = ['`test6`.*'], partition = "index-value", index = "idx"},
]
column-selectors = [
    {matcher = ['test1.*'], columns = ["column1", "column2"]},
    {matcher = ['test3.t'], columns = ["column3", "!column4"]},
]
protocol = "canal-json"
schema-registry = "http://127.0.0.1:8081"
encoder-concurrency = 32
enable-kafka-sink-v2 = false
only-output-updated-columns = false
delete-only-output-handle-key-columns = false
terminator = ""
date-separator = 'day'
enable-partition-separator = true
content-compatible = false
advance-timeout-in-sec = 150
send-bootstrap-interval-in-sec = 120
send-bootstrap-in-msg-count = 10000
send-bootstrap-to-all-partition = true
debezium-disable-schema = false

[sink.csv]
delimiter = ','
quote = '"'
null = '\\N'

[sink.open]
output-old-value = true

[sink.debezium]
output-old-value = true

[sink.kafka-config]
kafka-version = "2.4.0"
partition-num = 6
replication-factor = 2
max-message-bytes = 1048576
compression = "LZ4"
required-acks = -1
auto-create-topic = true
dial-timeout = "10s"
write-timeout = "1m30s"
read-timeout = "500ms"
sasl-mechanism = "scram-sha-512"
sasl-user = "cdc"
sasl-password = "not for all to read"
output-raw-change-event = false

[sink.kafka-config.codec-config]
enable-tidb-extension = true
max-batch-size = 16
avro-decimal-handling-mode = "precise"

[sink.kafka-config.large-message-handle]
large-message-handle-option = "handle-key-only"
large-message-handle-compression = "none"

[consistent]
level = "none"
max-log-size = 64
storage = ""

[integrity]
integrity-check-level = "none"
corruption-handle-level = "warn"

[synced-status]
synced-check-interval = 300
checkpoint-interval = 15
"""


def test_a_file_of_ticdc_loads_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("# rules\n!logs.*\n")
    feed = load_text(tmp_path, REAL, "kafka://b1:9092,b2:9092/feed?protocol=canal-json")
    assert feed.id == "feed" and feed.file == str(tmp_path / "feed.toml")
    assert (feed.kafka.servers, feed.kafka.topic) == (("b1:9092", "b2:9092"), "feed")
    assert (feed.kafka.partition_num, feed.kafka.replication_factor, feed.kafka.compression) == (6, 2, "lz4")
    timeouts = (feed.kafka.dial_timeout, feed.kafka.write_timeout, feed.kafka.read_timeout)
    assert timeouts == (10.0, 90.0, 0.5)
    assert feed.kafka.sasl == Sasl(mechanism="SCRAM-SHA-512", user="cdc", password="not for all to read")
    assert feed.kafka.tls is None
    assert feed.protocol == "canal-json" and feed.watermarks
    assert feed.encoder == {
        "enable-tidb-extension": "true",
        "content-compatible": "false",
        "only-output-updated-columns": "false",
        "delete-only-output-handle-key-columns": "false",
        "large-message-handle-option": "handle-key-only",
        "large-message-handle-compression": "none",
        "max-message-bytes": "1048576",
        "time-zone": "UTC",
    }
    assert feed.filter == filters(
        rules=("*.*", "!test.*", f"@{tmp_path / 'more.txt'}"),
        ignore_txn_start_ts=(1, 2),
        event_filters=(
            event_filter(
                matcher=("test.worker",),
                ignore_event=("insert", "drop table"),
                ignore_sql=("^drop", "add column"),
                ignore_delete_value_expr="name = 'john'",
                ignore_insert_value_expr="id >= 100",
                ignore_update_old_value_expr="age < 18",
                ignore_update_new_value_expr="gender = 'male'",
            ),
            event_filter(matcher=("test.fruit",), ignore_event=("all ddl",)),
        ),
    )
    assert feed.dispatchers == (
        dispatch_rule(matcher=("test1.*", "test2.*"), topic="table_{schema}_x", partition="index-value"),
        dispatch_rule(matcher=("test3.*", "test4.*"), partition="columns", columns=("id", "a")),
        dispatch_rule(matcher=("test5.*",), topic="{schema}.{table}", partition="ts"),
        dispatch_rule(matcher=("`test6`.*",), partition="index-value", index="idx"),
    )
    assert feed.column_selectors == (
        ColumnSelector(matcher=("test1.*",), columns=("column1", "column2")),
        ColumnSelector(matcher=("test3.t",), columns=("column3", "!column4")),
    )
    assert feed.case_sensitive and feed.force_replicate
    # One sentence a reason, with the places.
    (regions,) = [warning for warning in feed.warnings if "regions" in warning]
    assert "[scheduler] region-threshold, [scheduler] write-key-threshold: has no effect here" in regions
    assert any("memory-quota, [mounter] worker-num" in warning for warning in feed.warnings)
    assert any("[sink] schema-registry: has no effect with protocol canal-json" in warning for warning in feed.warnings)
    forget()


def test_the_documented_example_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "a long password")
    monkeypatch.setenv("DB_PASSWORD", "another password")
    page = (Path(__file__).resolve().parents[4] / "docs" / "how-to" / "changefeed.md").read_text(encoding="utf-8")
    example, names, snapshot, backlog = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "feed.toml").write_text(example)
    feed = load_changefeed(tmp_path / "feed.toml")
    assert (feed.id, feed.protocol, feed.kafka.partition_num, feed.time_zone) == (
        "shop",
        "canal-json",
        6,
        "Asia/Shanghai",
    )
    (tmp_path / "feed.toml").write_text(f"{names}\n[sink]\nprotocol = 'simple'\n")
    feed = load_changefeed(tmp_path / "feed.toml", sink_uri="kafka://127.0.0.1:9092/cdc")
    assert (feed.dispatchers[0].target_schema, feed.dispatchers[0].target_table) == ("archive", "{schema}_{table}")
    (tmp_path / "feed.toml").write_text(f"{snapshot}\n[sink]\nprotocol = 'simple'\n")
    feed = load_changefeed(tmp_path / "feed.toml", sink_uri="kafka://127.0.0.1:9092/cdc")
    assert (feed.snapshot.mode, feed.snapshot.parallelism) == ("initial", 4)
    assert feed.source == "mysql://cdc:another password@db1:3306" and "another password" not in repr(feed)
    assert feed.warnings == ()
    (tmp_path / "feed.toml").write_text(f"{backlog}\n[sink]\nprotocol = 'simple'\n")
    feed = load_changefeed(tmp_path / "feed.toml", sink_uri="kafka://127.0.0.1:9092/cdc")
    assert (feed.backlog, feed.snapshot.spark, feed.warnings) == (200_000, {"spark.master": "local[4]"}, ())
    forget()
