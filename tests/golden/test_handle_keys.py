"""Rows of which TiCDC sent only the keys, completed from the truth as an upstream would, against the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.golden.exceptions import Difference, unexplained
from tests.support.vectors import Config, cases, named, needs_vectors
from ticdc_spark.model import Row, RowChange, Table, Value
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.streams.handle_keys import Lookup
from ticdc_spark.streams.reader import EventReader, Found

pytestmark = needs_vectors

CONFIGS = [config for case in cases() for config in case.configs if config.name.endswith("_handle_key")]


def protocol(config: Config) -> str:
    return config.protocol.removesuffix("-protocol")


def upstream(config: Config) -> Lookup:
    """What the case's tables held as of each commit, as far as it changed something."""
    changes = [truth for truth in config.truth.values() if isinstance(truth, RowChange) and truth.after is not None]

    def lookup(table: Table, keys: Sequence[Row], commit_ts: int) -> list[Row | None]:
        names = handle_key(table)
        rows: dict[tuple[Value, ...], Row] = {}
        for truth in changes:
            same = (truth.table.schema, truth.table.name) == (table.schema, table.name)
            if same and truth.commit_ts == commit_ts and truth.after:
                shown = named(truth.table, truth.after) or {}
                rows[tuple(shown[name] for name in names)] = truth.after
        return [rows.get(tuple((named(table, key) or {})[name] for name in names)) for key in keys]

    return lookup


def differences(config: Config, found: list[Found]) -> Iterator[Difference]:
    for one in found:
        sent = config.messages[one.message.offset]
        truth = config.truth[sent.seqs[one.seq]]
        if not isinstance(truth, RowChange):
            continue
        where = f"{config}/{truth.table.schema}.{truth.table.name}"
        if not isinstance(one.event, RowChange):
            yield Difference("row", where, one.event, truth)
            continue
        assert one.event.partial <= (truth.op == "delete")
        expected, actual = named(truth.table, truth.after), named(one.event.table, one.event.after)
        if actual is None or expected is None or actual.keys() != expected.keys():
            if actual is not expected:
                yield Difference("image", where, actual, expected)
            continue
        for name, value in expected.items():
            if actual[name] != value:
                yield Difference("value", f"{where}.{name}", actual[name], value)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_keys_become_the_rows_of_their_commit(config: Config) -> None:
    options = ReadOptions(source_timezone=config.zone)
    looked_up = EventReader(decoder(protocol(config)), options, lookup=upstream(config))
    found = [one for sent in config.messages for one in looked_up.read(sent.message)]
    found += looked_up.finish()
    assert unexplained(protocol(config), differences(config, found)) == []


def test_many_rows_have_only_their_keys() -> None:
    partial = 0
    for config in CONFIGS:
        reader = EventReader(decoder(protocol(config)), ReadOptions(source_timezone=config.zone))
        found = [one for sent in config.messages for one in reader.read(sent.message)]
        partial += sum(isinstance(one.event, RowChange) and one.event.partial for one in found)
    assert partial > 100
