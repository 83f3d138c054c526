"""Row checksums against every vector that carries them: what TiCDC sent is what is computed here, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import msgspec
import pytest

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.support.vectors import ROOT, Config, configs, needs_vectors
from ticdc_spark.model import Checksum, Rejected, RowChange
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.checksums import Summer, verifier
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.streams.reader import EventReader, Found

pytestmark = needs_vectors

CONFIGS = [config for config in configs("simple") + configs("avro") if config.options.get("enable_row_checksum")]
every_config = pytest.mark.parametrize("config", CONFIGS, ids=str)


@cache
def rows(config: Config, *, verified: bool) -> list[Found]:
    options = ReadOptions(source_timezone=config.zone, verify_checksum=verified)
    schemas = {entry["id"]: entry["schema"] for entry in config.schemas} if config.protocol == "avro" else None
    reader = EventReader(DECODER if schemas is None else decoder("avro", schemas), options, schemas=schemas)
    found = [found for sent in config.messages for found in reader.read(sent.message)]
    return [one for one in [*found, *reader.finish()] if one.envelope is not None]


@cache
def mismatches(config: Config) -> list[Difference]:
    return [
        Difference("checksum", f"{config}/{one.envelope.schema}.{one.envelope.table}", one.event.reason, one.envelope)
        for one in rows(config, verified=True)
        if isinstance(one.event, Rejected) and one.envelope is not None
    ]


@every_config
def test_the_checksums_sent_are_those_of_the_values(config: Config) -> None:
    assert rows(config, verified=True)
    assert unexplained("checksum", mismatches(config)) == []


@cache
def computed(config: Config) -> list[Difference]:
    """Checksums of rows that carry none, where TiCDC's differ; those of updates that it split are 0."""
    return list(_computed(config))


def _computed(config: Config) -> Iterator[Difference]:
    fill = Summer()
    for one in rows(config, verified=False):
        change = one.event
        assert isinstance(change, RowChange)
        sent = change.checksum
        if sent is None or not (sent.current or sent.previous):
            continue
        mine = fill(msgspec.structs.replace(change, checksum=None)).checksum
        where = f"{config}/{change.table.schema}.{change.table.name}"
        if mine != Checksum(version=0, corrupted=False, current=sent.current, previous=sent.previous):
            yield Difference("checksum", where, f"the row's checksum is {mine}", one.envelope)


@every_config
def test_the_checksums_computed_are_those_sent(config: Config) -> None:
    assert unexplained("checksum", computed(config)) == []


@every_config
def test_another_value_is_found(config: Config) -> None:
    """Every row of another checksum is bad, whatever order of columns is tried."""
    for one in rows(config, verified=False):
        assert one.envelope is not None and isinstance(one.event, RowChange)
        sent, table = one.envelope.checksum, one.event.table
        if one.event.after is None or sent is None or not sent.current or one.message.offset % 7:
            continue
        values = [[one.event.after.get(column.name)] for column in table.columns]
        assert verifier(table)(values, [sent.current ^ 0x5A5A5A5A], [False])


def test_every_exception_is_still_needed() -> None:
    found = [difference for config in CONFIGS for difference in mismatches(config) + computed(config)]
    assert unneeded("checksum", found) == []


def test_every_vector_with_checksums_is_read() -> None:
    files = {path for path in ROOT.glob("*/*/*_checksum.jsonl*") if "errors" not in path.name}
    assert files == {config.path for config in CONFIGS if config.name.endswith("_checksum")}
    assert len(files) >= 20
