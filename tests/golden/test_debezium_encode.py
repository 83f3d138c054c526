"""Debezium against TiCDC's own messages: the bytes that the encoder writes."""

from __future__ import annotations

import re
from functools import cache

import pytest
from msgspec.structs import replace

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.golden.test_open import equal, exact
from tests.golden.test_open import events as open_events
from tests.golden.test_open import read as open_read
from tests.golden.test_open import tables as simple_tables
from tests.support.vectors import Case, Config, configs, needs_vectors
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Bootstrap, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.protocols.base import Encoded, Encoder
from ticdc_spark.protocols.debezium.encode import DebeziumConfig, encoder

pytestmark = needs_vectors

CONFIGS = [config for config in configs("debezium") if config.case.producer == "tiflow"]


def debezium_config(config: Config) -> DebeziumConfig:
    options = config.options
    return DebeziumConfig(
        cluster_id=options["debezium_cluster_id"],
        enable_tidb_extension=options["enable_tidb_extension"],
        debezium_disable_schema=options["debezium_disable_schema"],
        debezium_output_old_value=options["debezium_output_old_value"],
    )


@cache
def tables(case: Case) -> dict[tuple[str, str, int | None], Table]:
    """Whole tables: columns in their order, virtual ones too, from the truth; indexes from Simple, if there."""
    found: dict[tuple[str, str, int | None], Table] = {}
    indexes = {key: table.indexes for key, table in simple_tables(case).items()}
    for event in case.config("debezium").truth.values():
        table = event.table if isinstance(event, SchemaChange | Bootstrap) else None
        if table is not None:
            key = (table.schema, table.name, table.version)
            found[key] = replace(table, indexes=indexes.get(key, table.indexes))
    return found


def row(config: Config, seq: int) -> RowChange:
    """What was to be sent: the truth, with ENUM and SET as sent; index 0 and a member ``''`` are one there."""
    truth = config.truth[seq]
    assert isinstance(truth, RowChange)
    table = tables(config.case)[truth.table.schema, truth.table.name, truth.table.version]
    sent = open_read(open_events(config.case.config("open"))[seq], truth.table, config.zone)
    assert isinstance(sent, RowChange)
    return replace(
        truth,
        table=table,
        before=exact(table, truth.before, sent.before),
        after=exact(table, truth.after, sent.after),
    )


def ddl(config: Config, seq: int, change: SchemaChange) -> SchemaChange:
    """A DDL with the whole table, and the table before it."""
    table = change.table
    if table is None:
        return change
    earlier = [event for at, event in config.truth.items() if at < seq and isinstance(event, SchemaChange)]
    known = [event.table for event in earlier if event.table and event.table.table_id == table.table_id]
    return replace(
        change,
        table=tables(config.case)[table.schema, table.name, table.version],
        pre_table=known[-1] if known else None,
    )


def send(to: Encoder, config: Config, seq: int) -> Encoded | None:
    truth = config.truth[seq]
    if isinstance(truth, Watermark):
        return to.watermark(truth.commit_ts)
    if isinstance(truth, SchemaChange):
        return to.ddl(ddl(config, seq, truth))
    (encoded,) = to.rows([row(config, seq)])
    return encoded


def comparable(value: bytes | None) -> bytes:
    """A message without its clock: the payload's ``ts_ms`` is the second, the first is the source's."""
    assert value
    return re.sub(rb'("cluster_id":"[^"]*"\},"ts_ms":)\d+', rb"\g<1>0", value, count=1)


@cache
def encode_differences(config: Config) -> list[Difference]:
    found: list[Difference] = []
    to = encoder(debezium_config(config))
    for sent in config.messages:
        (seq,) = sent.seqs
        event = config.case.events[seq]
        where = f"{config}/{event.get('schema')}.{event.get('table')}"
        encoded = send(to, config, seq)
        if encoded is None:
            found.append(Difference("bytes", where, None, sent.message.value))
            continue
        found += equal("rows", where, encoded.rows, int(sent.kind == "row"))
        found += equal("key", where, encoded.key, sent.message.key)
        what = "ddl" if sent.kind == "ddl" else "bytes"
        found += equal(what, where, comparable(encoded.value), comparable(sent.message.value))
    return found


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_encoded_messages_equal_the_bytes_sent(config: Config) -> None:
    assert unexplained("debezium encode", encode_differences(config)) == []


REFUSED = [
    (config, refused["seq"])
    for config in CONFIGS
    for refused in config.options.get("encode_errors", ())
    if "Incorrect datetime value" in refused["error"]
]
"""A DATETIME without a day: TiCDC's own encoder stops the changefeed, so that there is no message of it to read."""


@pytest.mark.parametrize(("config", "seq"), REFUSED, ids=str)
def test_a_datetime_without_a_day_is_refused_as_by_ticdc(config: Config, seq: int) -> None:
    assert not [sent for sent in config.messages if seq in sent.seqs]
    with pytest.raises(MessageError, match="'2024-01-00 00:00:00' is no date"):
        send(encoder(debezium_config(config)), config, seq)


def test_every_case_with_a_datetime_without_a_day_is_looked_at() -> None:
    assert {str(config.case) for config, _ in REFUSED} == {"tiflow-types_all", "tiflow-types_shanghai"}
    assert {seq for _, seq in REFUSED} == {91, 95}


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_what_ticdc_does_not_send_has_no_message(config: Config) -> None:
    to = encoder(debezium_config(config))
    sent = {seq for message in config.messages for seq in message.seqs}
    for seq, truth in config.truth.items():
        if isinstance(truth, SchemaChange):
            assert (to.ddl(ddl(config, seq, truth)) is None) == (seq not in sent), truth.query
        elif isinstance(truth, Watermark):
            assert (to.watermark(truth.commit_ts) is None) != config.options["enable_tidb_extension"]


def test_every_exception_is_still_needed() -> None:
    found = [found for config in CONFIGS for found in encode_differences(config)]
    assert unneeded("debezium encode", found) == []
