"""Debezium's rows without their DDL, through the reference applier: the schema blocks describe the tables."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.golden.equality import unequal
from tests.golden.exceptions import unexplained
from tests.golden.test_reference import differences, rows_of
from tests.reference.applier import Applier, run
from tests.reference.blocks import BlockApplier, BlockDecoder
from tests.reference.faults import interleaved, replayed, split
from tests.support.vectors import Config, case, needs_vectors
from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import Message
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.replicate.schemas.inferred import Policy

pytestmark = needs_vectors

TYPED = [("tiflow", "smoke"), ("tiflow", "keys"), ("tiflow", "types_all"), ("ticdc", "smoke")]
"""Cases whose DDL only makes tables and adds columns; with TiDB's extension blocks have the types."""
UNTYPED = [("tiflow", "smoke"), ("tiflow", "types_all")]
SHUFFLED = [("tiflow", "smoke"), ("tiflow", "keys")]


def rows_only(config: Config) -> list[Message]:
    return [sent.message for sent in config.messages if sent.kind == "row"]


def apply(messages: Sequence[Message], policy: Policy = "keep", batch_size: int | None = None) -> Applier:
    applier = type("Follower", (BlockApplier,), {"policy": policy})
    return run(messages, BlockDecoder(), ReadOptions(), applier=applier, keep_rejects=True, batch_size=batch_size)


def config_of(producer: str, name: str) -> Config:
    return case(producer, name).config("debezium_ext" if producer == "tiflow" else "debezium-tidbext")


@pytest.mark.parametrize(("producer", "name"), TYPED)
def test_rows_alone_lead_to_the_final_tables(producer: str, name: str) -> None:
    config = config_of(producer, name)
    assert not unequal("debezium", differences(config, apply(rows_only(config)), "blocks"))


@pytest.mark.parametrize(("producer", "name"), UNTYPED)
def test_without_types_only_what_the_blocks_lack_differs(producer: str, name: str) -> None:
    config = case(producer, name).config("debezium")
    found = unequal("debezium", differences(config, apply(rows_only(config)), "blocks"))
    assert unexplained("debezium tables", found) == []


@pytest.mark.parametrize(("producer", "name"), SHUFFLED)
@pytest.mark.parametrize("seed", range(2))
def test_partitions_replays_and_batches_change_nothing(producer: str, name: str, seed: int) -> None:
    messages = rows_only(config_of(producer, name))
    partitions = split(messages, BlockDecoder(), 3, by_key=False)
    again = apply(interleaved(replayed(partitions, seed), seed), batch_size=max(len(messages) // (5 + seed), 1))
    assert rows_of(again) == rows_of(apply(messages))


def test_a_block_that_is_more_than_new_columns_stops() -> None:
    with pytest.raises(UnsupportedDdl, match="column `phone` is gone"):
        apply(rows_only(config_of("tiflow", "shop")), policy="stop")
