"""What the data source writes is byte for byte what ``convert`` writes of the same messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.test_datasource import options_of
from tests.support.datasource import read
from tests.support.vectors import case, needs_vectors
from ticdc_spark.datasource.writer import messages_of, write_plan
from ticdc_spark.model import Message
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.streams.converter import Converter
from ticdc_spark.streams.reader import EventReader

pytestmark = needs_vectors

CASES = [
    ("types_all", "open", "open"),
    ("types_all", "simple_avro", "simple"),
    ("types_all", "open", "canal-json"),
    ("ddl_all", "canal_json_ext", "simple"),
    ("ddl_all", "simple_json", "open"),
    ("odd", "open", "debezium"),
]


@pytest.mark.parametrize(("name", "config_name", "target"), CASES)
def test_the_same_changes_give_the_same_bytes(
    name: str, config_name: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)  # messages have the time of their making
    config = case("tiflow", name).config(config_name)
    zone = {} if target in ("simple", "debezium") else {"time-zone": "Asia/Kolkata"}
    options = options_of(config, tmp_path)
    expected = []
    reader = EventReader(decoder(config.protocol.removesuffix("-protocol")), ReadOptions(source_timezone=config.zone))
    converter = Converter(reader.tables_of, target, target_encoder(target, zone))
    for sent in config.messages:
        for found in reader.read(sent.message):
            expected += converter.convert(found)
    expected += converter.flush()
    frame = read({**options, "include": "ddl,watermark,bootstrap", "with-schemas": "true"})
    plan = write_plan({"bootstrap-servers": "none:1", "protocol": target, **zone}, frame.column_names)
    written = list(messages_of(plan, frame.to_pylist()))
    assert len(written) == len(expected)
    for mine, theirs in zip(written, expected, strict=True):
        assert isinstance(theirs, Message)
        assert (mine.topic, mine.partition, mine.offset) == (theirs.topic, theirs.partition, theirs.offset)
        assert (mine.key, mine.value) == (theirs.key, theirs.value)
