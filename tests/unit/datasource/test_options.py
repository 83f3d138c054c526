"""Options of the source: each mistake is named with what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_spark.config.secrets import redact
from ticdc_spark.datasource.options import Place, by_topic, from_topics, read_options
from ticdc_spark.errors import UsageError

KAFKA = {"bootstrap-servers": "broker:9092", "topics": "shop, other"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, r"option path: set either `path` .* or `bootstrap-servers`"),
        ({"path": "a", "bootstrap-servers": "b:1"}, r"option path: set either `path`"),
        ({"bootstrap-servers": "b:1"}, r"option topics: .* exactly one of `topics` and `topic-pattern`"),
        ({**KAFKA, "topic-pattern": "a.*"}, r"option topics: .* exactly one"),
        ({"path": "a", "topics": "shop"}, r"option topics is for Kafka: a recorded topic \(path\) is read whole"),
        ({"path": "a", "tabel": "a.b"}, r"option tabel: unknown; did you mean `table`\?"),
        ({"path": "a", "zzz": "1"}, r"option zzz: unknown; allowed: .*source-timezone.*, kafka\.…, schema-registry\.…"),
        ({"path": "a", "table": "orders"}, r"option table: found 'orders'; allowed: one table as schema\.table"),
        ({"path": "a", "protocol": "simpel"}, r"option protocol: found \'simpel\'; allowed: .*did you mean `simple`"),
        ({"path": "a", "on-reject": "skip"}, r"option on-reject: found 'skip'; allowed: .*stop.*row"),
        ({"path": "a", "include": "ddl, rows"}, r"option include: .* allowed: words of bootstrap, ddl, watermark"),
        ({"path": "a", "startingOffsets": "first"}, r"option starting-offsets: found 'first'; allowed: \"earliest\""),
        ({"path": "a", "startingOffsets": '{"t": {"0": -3}}'}, r"option starting-offsets"),
        ({"path": "a", "maxOffsetsPerTrigger": "0"}, r"option max-offsets-per-trigger: found 0"),
        ({"path": "a", "verify-checksum": "yes"}, r"option verify-checksum: found 'yes'"),
        ({"path": "a", "table": "a.b", "tables": "a.*"}, r"option tables is for the generic form"),
        ({"path": "a", "table": "a.b", "include": "ddl"}, r"option include is for the generic form"),
        ({"path": "a", "protocol": "avro"}, r"option schema-registry: missing"),
        ({"path": "a", "source-timezone": "Mars"}, r"option source-timezone: .* allowed: an IANA time zone"),
        ({"path": "${env:NO_SUCH_NAME}"}, r"option path: .*NO_SUCH_NAME"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_options(options)


def test_names_are_those_of_the_job_file_and_those_of_spark_in_any_case() -> None:
    for given in (
        {"starting-offsets": "latest", "max-records-per-partition": "7"},
        {"startingOffsets": "latest", "maxRecordsPerPartition": "7"},
        {"startingoffsets": "latest", "maxrecordsperpartition": "7"},
    ):
        found = read_options({**KAFKA, **given})
        assert found.topics == ("shop", "other")
        assert found.starting_offsets == Place("latest") and found.max_records_per_partition == 7


def test_options_of_clients_keep_their_names_and_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_LOGIN", "hunter-2-hunter")
    found = read_options(
        {
            "kafka.bootstrap.servers": "broker:9092",
            "topics": "shop",
            "kafka.sasl.password": "${env:KAFKA_LOGIN}",
            "schema-registry": "http://r:1",
            "schema-registry.max.retries": "1",
        }
    )
    assert found.bootstrap_servers == "broker:9092"
    assert found.kafka == {"kafka.sasl.password": "hunter-2-hunter"}
    assert found.schema_registry_options == {"max.retries": "1"}
    assert "hunter" not in redact(repr(found))


def test_a_path_is_absolute_as_tasks_run_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_options({"path": "topic"}).path == str(tmp_path / "topic")


def test_places_are_those_of_sparks_kafka_source() -> None:
    beginning, ends = {("t", 0): 5, ("t", 1): 0}, {("t", 0): 9, ("t", 1): 3}
    named = read_options({"path": "a", "startingOffsets": '{"t": {"0": 7, "1": -1}}'}).starting_offsets
    assert named is not None and named.of(beginning, ends, "startingOffsets") == {("t", 0): 7, ("t", 1): 3}
    end = read_options({"path": "a", "endingOffsets": '{"t": {"0": 8}}'}).ending_offsets
    assert end is not None and end.of(beginning, ends, "endingOffsets") == {("t", 0): 8, ("t", 1): 3}
    with pytest.raises(UsageError, match=r"option startingOffsets: topic 't' has no partition 4; allowed: t/0, t/1"):
        Place("earliest", {"t": {4: 0}}).of(beginning, ends, "startingOffsets")
    assert from_topics(by_topic(ends).items()) == ends
