"""What ``inspect`` shows of every vector, against the truth: names of ENUM and SET, UTC, bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from tests.golden.exceptions import Difference, unexplained
from tests.support.vectors import Config, cases, named, needs_vectors
from ticdc_spark.model import Bootstrap, Row, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.mysql import tso, tso_physical_ms
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.streams.event_lines import Cell, EventLine, event_line
from ticdc_spark.streams.reader import EventReader, Found

pytestmark = needs_vectors

NAMES = {"open", "simple_json", "simple-json", "simple_avro", "simple-avro", "canal_json", "canal-json"}
NAMES |= {"canal_json_ext", "canal-json-tidbext"}
CONFIGS = [config for case in cases() for config in case.configs if config.name in NAMES]


def protocol(config: Config) -> str:
    return config.protocol.removesuffix("-protocol")


def events(config: Config) -> list[Found]:
    reader = EventReader(decoder(protocol(config)), ReadOptions(source_timezone=config.zone))
    found = [found for sent in config.messages for found in reader.read(sent.message)]
    return [*found, *reader.finish()]


def cell(value: str | bytes | None) -> Cell:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def compare_image(where: str, table: Table, image: dict[str, Cell] | None, row: Row | None) -> Iterator[Difference]:
    expected = named(table, row)
    if image is None or expected is None or image.keys() != expected.keys():
        if image is not expected:
            yield Difference("image", where, image, expected)
        return
    for name, value in expected.items():
        if image[name] != cell(value):
            yield Difference("value", f"{where}.{name}", image[name], value)


def compare(config: Config, found: Found, line: EventLine) -> Iterator[Difference]:
    sent = config.messages[found.message.offset]
    truth = config.truth[sent.seqs[found.seq]]
    assert line.topic == sent.message.topic and line.offset == sent.message.offset
    if isinstance(truth, Watermark):
        assert (line.kind, line.commit_ts) == ("watermark", truth.commit_ts)
        return
    if isinstance(truth, Bootstrap):
        assert (line.kind, line.schema, line.table) == ("bootstrap", truth.table.schema, truth.table.name)
        return
    exact = not config.name.startswith("canal") or config.options["enable_tidb_extension"]
    assert line.commit_ts == (truth.commit_ts if exact else tso(tso_physical_ms(truth.commit_ts)))
    if isinstance(truth, SchemaChange):
        assert (line.kind, line.query) == ("ddl", truth.query)
        return
    assert isinstance(truth, RowChange)
    where = f"{config}/{truth.table.schema}.{truth.table.name}"
    upsert = line.kind == "upsert" and truth.op == "insert" and protocol(config) == "open"
    if line.kind != truth.op and not upsert:
        yield Difference("row", where, (line.kind, line.reason), truth.op)
        return
    assert (line.schema, line.table, line.partial) == (truth.table.schema, truth.table.name, False)
    yield from compare_image(where, truth.table, line.before, truth.before)
    yield from compare_image(where, truth.table, line.after, truth.after)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_event_is_shown_as_it_happened(config: Config) -> None:
    found = events(config)
    assert sorted((one.message.offset, one.seq) for one in found) == sorted(
        (sent.message.offset, at) for sent in config.messages for at in range(len(sent.seqs))
    )
    differences = [difference for one in found for difference in compare(config, one, event_line(one))]
    assert unexplained(protocol(config), differences) == []


AVRO = [config for case in cases() for config in case.configs if config.name in ("avro", "avro_ext_string")]


@pytest.mark.parametrize("config", AVRO, ids=str)
def test_avro_is_shown_with_the_schemas_of_its_rows(config: Config) -> None:
    schemas = {entry["id"]: entry["schema"] for entry in config.schemas}
    reader = EventReader(decoder("avro", schemas), ReadOptions(source_timezone=config.zone), schemas=schemas)
    shown = [event_line(found) for sent in config.messages for found in reader.read(sent.message)]
    assert len(shown) == len(config.messages)
    rejected = [line.reason for line in shown if line.kind == "rejected"]
    # the new architecture's deletes without a primary key have nothing
    assert all("a delete without a key" in (reason or "") for reason in rejected)
    assert len(rejected) == 0 or config.case.producer == "ticdc"
    assert {line.kind for line in shown} <= {"insert", "update", "upsert", "delete", "rejected"}


DEBEZIUM_AVRO = [config for case in cases() for config in case.configs if config.protocol == "debezium-avro"]


@pytest.mark.parametrize("config", DEBEZIUM_AVRO, ids=str)
def test_debezium_in_avro_is_shown_with_the_schemas_of_its_rows(config: Config) -> None:
    schemas = {entry["id"]: entry["schema"] for entry in config.schemas}
    reader = EventReader(decoder("debezium-avro", schemas), schemas=schemas)
    shown = [event_line(found) for sent in config.messages for found in reader.read(sent.message)]
    assert len(shown) == len(config.messages)
    assert {line.kind for line in shown} == {"insert", "update", "delete"}


DEBEZIUM = [config for case in cases() for config in case.configs if config.name == "debezium_ext"]


@pytest.mark.parametrize("config", DEBEZIUM, ids=str)
def test_debezium_is_shown_with_the_schemas_of_its_ddl(config: Config) -> None:
    kinds = [event_line(found).kind for found in events(config)]
    sent = {"row": {"insert", "update", "delete", "rejected"}, "ddl": {"ddl"}, "watermark": {"watermark"}}
    assert all(kind in sent[one.kind] for kind, one in zip(kinds, config.messages, strict=True))
    # rows of tables whose DDL TiCDC does not send as Debezium
    assert kinds.count("rejected") <= len(kinds) // 20
