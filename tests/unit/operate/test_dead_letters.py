"""Dead letters of a job, decoded for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.changefeed_tables import change, table
from ticdc_spark.cli.output.event_lines import plain
from ticdc_spark.config.job import FilesSource, IcebergConfig, Job
from ticdc_spark.errors import UsageError
from ticdc_spark.operate.dead_letters import at_place, export, opened
from ticdc_spark.protocols.encoder_options import target_encoder

T = table("t (id int primary key, v int)", schema="s")


def letter(offset: int = 5, key: bytes | None = None, value: bytes | None = b"", **more: Any) -> dict[str, Any]:
    known = {"topic": "cdc", "partition": 0, "offset": offset, "seq": 0, "stage": "s.t", "reason": "'?' is no int"}
    return {**known, "key": key, "value": value, **more}


@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
def test_a_row_that_cannot_be_read_is_shown_with_its_values_as_they_were_sent(protocol: str) -> None:
    options = {"enable-tidb-extension": "true"} if protocol in ("canal-json", "debezium") else {}
    (message,) = target_encoder(protocol, options).rows([change(T, after={"id": "7", "v": "8"}, commit_ts=9)])
    (line,) = opened(letter(key=message.key, value=message.value), protocol)
    assert (line.kind, line.schema, line.table, line.commit_ts) == ("rejected", "s", "t", 9)
    assert "'?' is no int" in plain(line)
    assert "7" in plain(line) and "8" in plain(line)


@pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium", "avro"])
def test_bytes_that_are_no_message_are_shown_with_what_is_wrong_with_them(protocol: str) -> None:
    (line,) = opened(letter(key=b"\xff", value=b"\xffno message"), protocol)
    assert line.kind == "rejected"
    assert line.reason


def test_a_message_that_is_no_dead_letter_is_refused() -> None:
    assert at_place([letter(), letter(6)], "cdc", 0, 6) == [letter(6)]
    with pytest.raises(UsageError, match="cdc/1/6 is not a dead letter"):
        at_place([letter(6)], "cdc", 1, 6)


def test_letters_of_a_recorded_topic_have_no_kafka_to_go_to(tmp_path: Path) -> None:
    job = Job(
        name="j",
        file=tmp_path / "job.toml",
        source=FilesSource(path=str(tmp_path)),
        sink=IcebergConfig(warehouse=str(tmp_path)),
    )
    with pytest.raises(UsageError, match=r"job\.toml: dead letters are exported to the Kafka of \[source\]"):
        export(job, [letter()], "dlq")
