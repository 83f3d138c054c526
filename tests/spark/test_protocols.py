"""Every protocol through Spark to the tables that the database had at the end, with watermarks and without.

What a protocol cannot bring back stands in ``tests/golden/equality.py``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.golden.equality import unequal, unequal_in_lake
from tests.golden.exceptions import Difference
from tests.golden.test_reference import final_tables, mode, of
from tests.reference.faults import replayed, split
from tests.spark.lake import lake, names, read_table, replicate, write_job
from tests.spark.test_vectors import expected_rows
from tests.support.recorded_topics import Line, write_json
from tests.support.vectors import Config, case, needs_vectors
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Message, Row, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.names import escape
from ticdc_spark.replicate.state.progress import Progress

pytestmark = needs_vectors


class Kind(NamedTuple):
    """What a configuration of TiCDC is read as."""

    protocol: str | None
    """``None``: detected from its messages."""
    mode: str
    more: str = ""


def write_topic(folder: Path, messages: Iterable[Message]) -> Path:
    lines = [Line(m.topic, m.partition, m.offset, None, m.key, m.value) for m in messages]
    return write_json(folder / "topic/messages.jsonl", lines)


CONTINUE = 'on-reject = "continue"'
CONFIGS: Mapping[str, Kind] = {
    "open": Kind("open-protocol", "watermark"),
    "simple_avro": Kind(None, "watermark"),
    "canal_json_ext": Kind("canal-json", "watermark"),
    "debezium_ext": Kind("debezium", "watermark", CONTINUE),
    "avro": Kind(None, "arrival"),
    "avro_ext_string": Kind("avro", "arrival"),
    "debezium": Kind(None, "arrival", CONTINUE),
    "canal_json": Kind(None, "arrival"),
}
CASES = ("smoke", "keys", "types_all")
QUICK = {
    *(("smoke", config) for config in ("avro", "avro_ext_string", "canal_json", "debezium", "simple_avro")),
    *(("keys", config) for config in ("canal_json_ext", "open")),
    ("types_all", "debezium_ext"),
}
"""What Spark runs each time: every configuration once. The golden tests have all of them without Spark."""


def registry(config: Config) -> str:
    """The line of [source] that names the schemas of a configuration, if it has any."""
    schemas = config.case.path / f"{config.name}.schemas.json"
    return f'schema-registry = "file:{schemas}"' if schemas.exists() else ""


def text(value: Any) -> Any:
    """A value of the lake as the rules know values: text, bytes or None."""
    if value is None or isinstance(value, bytes):
        return value
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def differences(session: SparkSession, config: Config, progress: Progress) -> Iterator[Difference]:
    """What is not as in the database: tables, types, rows by handle key, cells."""
    where = f"{config}:{mode(config)}"
    known = {(table.schema, table.name): table.table for table in progress.tables if not table.is_gone}
    expected = final_tables(config)
    shown = names(session)
    assert {(escape(schema), escape(name)) for schema, name in known} == shown
    for name in known.keys() | expected.keys():
        place = f"{where}/{name[0]}.{name[1]}"
        table = known.get(name)
        if name not in expected or table is None:
            yield Difference("table", place, table is not None, name in expected)
        else:
            yield from _table(session, place, table, *expected[name])


def _table(session: SparkSession, place: str, table: Table, truth: Table, rows: list[Row]) -> Iterator[Difference]:
    kinds, wanted = expected_rows(truth, rows)
    live = session.table(f"lake.`{escape(table.schema)}`.`{escape(table.name).replace('`', '``')}`").schema
    found = {field.name: field.dataType.simpleString() for field in live.fields}
    for column, kind in kinds.items():
        if found.get(column) != kind:
            yield Difference("type", f"{place}.{column}", found.get(column), kind)
    key = [escape(name) for name in handle_key(table)]
    actual = {tuple(text(row[name]) for name in key): row for row in read_table(session, table.schema, table.name)}
    for row, canonical in zip(wanted, rows, strict=True):
        there = actual.pop(tuple(text(row[name]) for name in key), None)
        if there is None:
            yield Difference("row", place, None, canonical)
            continue
        sent = {escape(name): value for name, value in canonical.items()}
        for column in kinds.keys() & found.keys():
            if text(there[column]) != text(row[column]):
                truly = text(row[column]) if row[column] is not None else sent[column]
                yield Difference("value", f"{place}.{column}", text(there[column]), truly)
    for row in actual.values():
        yield Difference("row", place, row, None)


@pytest.mark.parametrize(
    ("name", "config_name"),
    [
        pytest.param(name, config, marks=() if (name, config) in QUICK else pytest.mark.slow)
        for name in CASES
        for config in CONFIGS
    ],
)
def test_a_case_ends_in_its_final_state(spark: SparkSession, folder: Path, name: str, config_name: str) -> None:
    config, kind = case("tiflow", name).config(config_name), CONFIGS[config_name]
    more = f'source-timezone = "UTC"\n{kind.more}'
    summary = replicate(write_job(folder, config.path, more, kind.protocol, registry(config)))
    assert summary.finished
    assert summary.progress.mode == kind.mode
    assert not summary.progress.pending
    found = list(differences(lake(spark, folder), config, summary.progress))
    assert not unequal_in_lake(config.protocol.removesuffix("-protocol"), found)


@pytest.mark.parametrize(
    ("producer", "name", "given", "kept"),
    [
        ("ticdc", "avro-watermark", "", "watermark"),
        ("tiflow", "avro_ext_watermark", 'mode = "arrival"', "arrival"),
        ("tiflow", "avro_ext_watermark", "", ""),
    ],
)
def test_avro_with_ddl_and_watermarks_ends_in_its_final_state(
    spark: SparkSession, folder: Path, producer: str, name: str, given: str, kept: str
) -> None:
    """The classic architecture's deletes hide their commit_ts, which only arrival mode allows, without DDL."""
    config = case(producer, "smoke").config(name)
    more = f'source-timezone = "{config.zone}"\nbatch-rows = 4\n{given}'
    job = write_job(folder, config.path, more, None, registry(config))
    if not kept:
        with pytest.raises(DecisionNeeded, match='mode = "arrival"'):
            replicate(job)
        return
    summary = replicate(job)
    assert summary.finished and summary.progress.mode == kept == mode(config)
    assert bool(summary.progress.counters.ddls) == (kept == "watermark")
    found = list(differences(lake(spark, folder), config, summary.progress))
    if kept == "watermark":
        assert not unequal("avro", found)
    else:  # as without DDL
        assert not unequal_in_lake(
            "avro", [replace(one, where=one.where.replace(":arrival/", ":registry/")) for one in found]
        )


SOME = 'tables = ["nokey.pk_mixed", "nokey.set_pk", "nokey.two_uk"]'


@pytest.mark.parametrize(
    ("name", "protocol", "more"), [("smoke", None, ""), ("nokey", "debezium-avro", f"{SOME}\nbatch-rows = 1500")]
)
def test_debezium_in_avro_ends_in_its_final_state(
    spark: SparkSession, folder: Path, name: str, protocol: str | None, more: str
) -> None:
    config = case("ticdc", name).config("debezium-avro")
    # not by key: the commit_ts alone has to give the order, of deletes too
    partitions = split([sent.message for sent in config.messages], of(config), 3, by_key=False)
    messages = [message for part in replayed(partitions, seed=2) for message in part]
    topic = write_topic(folder, messages)
    summary = replicate(write_job(folder, topic, more, protocol, registry(config)))
    assert summary.finished and summary.progress.mode == "arrival"
    found = list(differences(lake(spark, folder), config, summary.progress))
    if more:
        names = {(table.schema, table.name) for table in summary.progress.tables if table.table is not None}
        assert {f"{schema}.{name}" for schema, name in names} == {*re.findall(r"\w+\.\w+", SOME)}
        found = [one for one in found if one.what != "table" or one.actual]
    assert not unequal_in_lake("debezium-avro", found)
