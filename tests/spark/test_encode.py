"""TiCDC's own messages, opened and encoded again from their raw images, are the same bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.golden import test_avro, test_canal_json, test_debezium_encode, test_open, test_simple
from tests.golden.exceptions import Difference, unexplained
from tests.golden.test_open import equal
from tests.golden.test_reference import final_tables
from tests.support.avro_examples import Registry
from tests.support.vectors import Config, case, needs_vectors
from ticdc_spark.changes.opening import Opener, Opening, of_batch, raw_rows
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Column, RowChange, Table
from ticdc_spark.mysql import parse_type
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import Encoded, ReadOptions, Tables, decode
from ticdc_spark.protocols.simple.avro.decode import MARK, read_message, write_message
from ticdc_spark.spark.encode.messages import RawImages, TypedImages
from ticdc_spark.spark.encode.plan import encoded, inserts, plan_encoding
from ticdc_spark.spark.tasks import ArrowTask
from ticdc_spark.spark.types import LakeOptions, lake_columns, to_arrow

pytestmark = needs_vectors

UTC = ReadOptions(source_timezone="UTC")
RULES_OF = {"debezium": "debezium encode"}
"""Protocols whose exceptions for encoding stand apart."""


def simple(value: bytes | None) -> Any:
    """Without its clock; in Avro, also with the entries of its maps sorted."""
    assert value
    if value[:1] == MARK:
        return test_simple.ordered(write_message(msgspec.structs.replace(read_message(value), build_ts=0)))
    return re.sub(rb'"buildTs":\d+', b'"buildTs":0', value, count=1)


COMPARABLE: Mapping[str, Callable[[bytes | None], Any]] = {
    "simple": simple,
    "avro": lambda value: value,
    "canal-json": test_canal_json.comparable,
    "debezium": test_debezium_encode.comparable,
}
OPTIONS: Mapping[str, Any] = {
    "open-protocol": lambda config: test_open.open_config(config, rows(config)),
    "simple": lambda config: test_simple.simple_config(config, rows(config)[0].message.value, None, []),
    "avro": test_avro.avro_config,
    "canal-json": lambda config: test_canal_json.canal_config(config, "row"),
    "debezium": test_debezium_encode.debezium_config,
}


def rows(config: Config) -> list[Any]:
    return [sent for sent in config.messages if sent.kind == "row"]


def options(config: Config) -> dict[str, str]:
    """The options of the changefeed, as text."""
    given = OPTIONS[config.protocol](config)
    fields = {name.replace("_", "-"): getattr(given, name) for name in given.__struct_fields__}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in fields.items()
        if value is not None and not callable(value)
    }


def opened(spark: SparkSession, config: Config) -> DataFrame:
    """The change log's rows of a configuration's messages, all of one topic."""
    messages = [sent.message for sent in config.messages]
    table = pa.table(
        {
            "topic": ["one"] * len(messages),
            "partition": pa.array([message.partition for message in messages], pa.int32()),
            "offset": [message.offset for message in messages],
            "timestamp": pa.array([None] * len(messages), pa.int64()),
            "key": pa.array([message.key for message in messages], pa.binary()),
            "value": pa.array([message.value for message in messages], pa.binary()),
        }
    )
    opening = Opening(protocol=config.protocol, schemas=registered(config))
    return spark.createDataFrame(table).mapInArrow(raw(opening), RAW_DDL)


RAW_DDL = (
    "topic string, partition int, offset bigint, seq int, op string, schema_key string, commit_ts bigint, "
    "partial boolean, before binary, after binary, checksum bigint, corrupted boolean, "
    "table_id bigint, `schema` string, `table` string, key binary"
)


def raw(opening: Opening) -> ArrowTask:
    """Messages to their row changes with raw images."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opener = Opener(opening)
        for batch in batches:
            messages = of_batch(batch)
            opened = opener.open(messages)
            images = raw_rows(messages, opened, range(len(opened.rows)), verify=False, ids=True)
            more: dict[str, Any] = {
                "schema": pa.array([row.schema for row in opened.rows], pa.string()),
                "table": pa.array([row.table for row in opened.rows], pa.string()),
                "key": pa.array([row.key for row in opened.rows], pa.binary()),
            }
            yield pa.RecordBatch.from_arrays([*images.columns, *more.values()], names=[*images.schema.names, *more])

    return run


def registered(config: Config) -> dict[int, str] | None:
    return dict(test_avro.schemas(config)) if config.protocol == "avro" else None


def changes(spark: SparkSession, source: Config, config: Config) -> tuple[DataFrame, Tables]:
    """The row changes of ``source`` that ``config`` sent; the version of each one's table is its schema key.

    Rows between two other messages are one partition: Open's messages end there.
    """
    wanted = {seq for one in rows(config) for seq in one.seqs}
    whole = test_debezium_encode.tables(source.case)
    tables: dict[tuple[str, str, str], Table] = {}
    places: list[tuple[int, int, int, str]] = []
    for run, (kind, sent) in enumerate(groupby(source.messages, key=lambda sent: sent.kind)):
        events = [(one, seq, number) for one in sent for seq, number in enumerate(one.seqs) if number in wanted]
        for one, seq, number in events if kind == "row" else ():
            given = source.truth[number]
            assert isinstance(given, RowChange)
            schema, name, version = given.table.schema, given.table.name, given.table.version
            tables[schema, name, str(version)] = whole[schema, name, version]
            places.append((one.message.offset, seq, run, str(version)))
    known = spark.createDataFrame(places, "offset bigint, seq int, run int, version string")
    found = opened(spark, source).join(known, ["offset", "seq"]).drop("partition", "schema_key")
    named = found.withColumnsRenamed({"run": "partition", "version": "schema_key"})
    return named.coalesce(1).sortWithinPartitions("partition", "offset", "seq"), tables


def again(spark: SparkSession, source: Config, config: Config) -> list[Encoded]:
    """The row changes of ``source``, opened in Spark and encoded there with the options of ``config``."""
    frame, tables = changes(spark, source, config)
    zone = ReadOptions(source_timezone=source.zone)
    images = RawImages(protocol=source.protocol, options=zone, schemas=registered(source))
    registry = test_avro.Recorded(config) if config.protocol == "avro" else None
    plan = plan_encoding(config.protocol, options(config), tables, images, registry)
    return [
        Encoded(*(None if part is None else bytes(part) for part in (row.key, row.value)), row.rows)
        for row in encoded(frame, plan).collect()
    ]


def differences(config: Config, ours: list[Encoded]) -> Iterator[Difference]:
    sent = rows(config)
    assert [one.rows for one in ours] == [len(one.seqs) for one in sent]
    if config.protocol == "open-protocol":
        yield from test_open.event_differences(config, sent, ours)
        return
    compare = COMPARABLE[config.protocol]
    for actual, one in zip(ours, sent, strict=True):
        event = config.case.events[one.seqs[0]]
        where = f"{config}/{event['schema']}.{event['table']}"
        yield from equal("key", where, actual.key, one.message.key)
        yield from equal("bytes", where, compare(actual.value), compare(one.message.value))


SOURCES = {"debezium_ext": "simple_json"}
"""What a configuration is read from, if not from itself: Debezium does not bring back all that it was made from."""
CONFIGS = ("open", "simple_json", "simple_avro", "canal_json_ext", "debezium_ext", "avro_ext_string")
CASES = ("smoke", "types_all", *(pytest.param(name, marks=pytest.mark.slow) for name in ("keys", "shop")))


@pytest.mark.parametrize("config_name", CONFIGS)
@pytest.mark.parametrize("name", CASES)
def test_encoded_messages_equal_the_bytes_sent(spark: SparkSession, name: str, config_name: str) -> None:
    source, config = (case("tiflow", name).config(one) for one in (SOURCES.get(config_name, config_name), config_name))
    found = list(differences(config, again(spark, source, config)))
    assert unexplained(RULES_OF.get(config.protocol, config.protocol.removesuffix("-protocol")), found) == []


def test_debezium_avro_decodes_to_the_changes_that_it_was_made_from(spark: SparkSession) -> None:
    """No vector has its bytes for these rows."""
    source = case("tiflow", "smoke").config("simple_json")
    frame, tables = changes(spark, source, source)
    registry = Registry()
    given = {"avro-bigint-unsigned-handling-mode": "string"}
    plan = plan_encoding("debezium-avro", given, tables, RawImages(protocol="simple"), registry)
    reader = decoder("debezium-avro", registry.schemas)
    sent = [seq for one in rows(source) for seq in one.seqs]
    for number, row in zip(sent, encoded(frame, plan).collect(), strict=True):
        truth = source.truth[number]
        assert isinstance(truth, RowChange)
        table = tables[truth.table.schema, truth.table.name, str(truth.table.version)]
        known = {(table.schema, table.name, str(key)): table for key in registry.schemas}
        (change,) = decode(reader, bytes(row.key), bytes(row.value), known, UTC)
        assert isinstance(change, RowChange), change
        assert (change.op, change.commit_ts) == (truth.op, truth.commit_ts)
        assert (change.before, change.after) == (truth.before, truth.after)


def test_tables_of_the_lake_become_inserts(spark: SparkSession) -> None:
    config = case("tiflow", "smoke").config("simple_json")
    for table, truth in final_tables(config).values():
        columns = [column for column in lake_columns(table, (), LakeOptions()) if not column.column.virtual]
        arrays = [to_arrow(column, LakeOptions())([row[column.source] for row in truth])[0] for column in columns]
        frame = spark.createDataFrame(pa.table(arrays, names=[column.name for column in columns]))
        key = (table.schema, table.name, "")
        plan = plan_encoding("open", {}, {key: table}, TypedImages(columns=tuple(columns)))
        messages = encoded(inserts(frame.coalesce(1), table, columns, 99, "t"), plan).collect()
        found = [
            change
            for row in messages
            for change in decode(decoder("open"), bytes(row.key), bytes(row.value), {key: table}, UTC)
        ]
        assert [(row.topic, row.partition, row.commit_ts) for row in messages] == [("t", 0, 99)] * len(messages)
        assert all(isinstance(change, RowChange) and change.commit_ts == 99 for change in found)
        assert [change.after for change in found if isinstance(change, RowChange)] == truth


def test_a_column_of_another_type_is_refused(spark: SparkSession) -> None:
    table = Table(schema="s", name="t", columns=(Column(name="n", type=parse_type("bigint")),))
    with pytest.raises(UsageError, match=r"column `n` of `s`\.`t` is int; expected: bigint"):
        inserts(spark.sql("SELECT 1 AS n"), table, lake_columns(table, (), LakeOptions()), 1, "t")
