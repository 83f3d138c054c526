"""The data source on every vector: the generic form has what ``inspect`` shows, the typed one what the database had."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.golden.equality import unequal_in_lake
from tests.golden.exceptions import Difference
from tests.golden.test_reference import final_tables
from tests.spark.test_protocols import text
from tests.spark.test_vectors import expected_rows
from tests.support.datasource import read
from tests.support.recorded_topics import Line, write_json
from tests.support.vectors import Config, case, cases, needs_vectors
from ticdc_spark.datasource.generic import CHANGE_TYPES
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.streams.decoders import decoder_of
from ticdc_spark.streams.event_lines import EventLine, event_line
from ticdc_spark.streams.reader import EventReader

pytestmark = needs_vectors

QUICK = {
    *(("ddl_all", name) for name in ("open", "simple_avro", "canal_json", "debezium")),
    *(("keys", name) for name in ("avro", "canal_json_ext_updated_only", "open_delete_handle_only")),
    ("types_all", "simple_json"),
}
"""What is run each time; all with the slow ones."""
CONFIGS = [
    pytest.param(config, id=str(config), marks=() if (found.name, config.name) in QUICK else pytest.mark.slow)
    for found in cases()
    for config in found.configs
    if "claim_check" not in config.name
]
TYPED = ("open", "simple_avro", "canal_json_ext", "debezium_ext", "avro_ext_string")


def options_of(config: Config, folder: Path) -> dict[str, str]:
    lines = [Line(m.topic, m.partition, m.offset, None, m.key, m.value) for m in (s.message for s in config.messages)]
    write_json(folder / "topic" / "messages.jsonl", lines)
    found = {"path": str(folder / "topic"), "protocol": config.protocol, "source-timezone": config.zone}
    schemas = config.case.path / f"{config.name}.schemas.json"
    return found | ({"schema-registry": f"file:{schemas}"} if schemas.exists() else {})


def lines_of(config: Config, options: dict[str, str]) -> Iterator[EventLine]:
    name = config.protocol.removesuffix("-protocol")
    with decoder_of(name, options.get("schema-registry"), {}, {}) as (of, schemas):
        reader = EventReader(of, ReadOptions(source_timezone=config.zone), schemas=schemas)
        for sent in config.messages:
            yield from map(event_line, reader.read(sent.message))
        yield from map(event_line, reader.finish())


@pytest.mark.parametrize("config", CONFIGS)
def test_the_generic_form_has_what_inspect_shows_also_where_a_task_begins_in_the_middle(
    config: Config, tmp_path: Path
) -> None:
    options = options_of(config, tmp_path)
    expected = {
        (one.partition, one.offset, one.seq): (CHANGE_TYPES[one.kind], one.commit_ts, one.before, one.after, one.query)
        for one in lines_of(config, options)
    }
    size = str(max(3, len(config.messages) // 4))
    rows = read(
        {**options, "include": "ddl,watermark,bootstrap", "max-records-per-partition": size, "on-reject": "row"}
    )
    found = {
        (row["partition"], row["offset"], row["seq"]): (
            row["_change_type"],
            row["_commit_version"],
            *(None if row[side] is None else json.loads(row[side]) for side in ("before", "after")),
            row["query"],
        )
        for row in rows.to_pylist()
    }
    assert found.keys() == expected.keys()
    for place, (kind, ts, before, after, query) in found.items():
        named = expected[place]
        assert (kind, ts, query) == (named[0], named[1], named[4])
        assert (as_named(before, named[2]), as_named(after, named[3])) == (named[2], named[3])


def as_named(image: dict[str, Any] | None, named: dict[str, Any] | None) -> dict[str, Any] | None:
    """An image, with ``''`` for the numbers that stand for it where that is a member of the ENUM or SET."""
    if image is None or named is None:
        return image
    return {k: "" if named.get(k) == "" and isinstance(v, str) and v.isdigit() else v for k, v in image.items()}


@pytest.mark.parametrize("name", TYPED)
def test_the_last_image_of_each_key_in_the_typed_form_is_the_row_of_the_database(name: str, tmp_path: Path) -> None:
    config = case("tiflow", "types_all").config(name)
    options = {**options_of(config, tmp_path), "source-timezone": "UTC", "on-reject": "row"}
    different: list[Difference] = []
    for (schema, table), (truth, rows) in final_tables(config).items():
        found = read({**options, "table": f"`{schema}`.`{table}`"})
        different += compared(f"{config}/{schema}.{table}", found, *expected_rows(truth, rows))
    assert not unequal_in_lake(config.protocol.removesuffix("-protocol"), different)


def compared(place: str, found: pa.Table, kinds: dict[str, str], wanted: list[dict[str, Any]]) -> Iterator[Difference]:
    """What differs of the rows that are there at the end, by their first column, which is the key of all these."""
    (key, *_) = kinds
    state: dict[str, dict[str, Any]] = {}
    for row in found.to_pylist():
        if row["_change_type"] in ("delete", "update_preimage"):
            state.pop(str(row[key]), None)
        else:
            state[str(row[key])] = row
    for row in wanted:
        there = state.pop(str(row[key]), None)
        if there is None:
            yield Difference("row", place, None, row)
            continue
        for column in kinds:
            if text(there[column]) != text(row[column]):
                yield Difference("value", f"{place}.{column}", text(there[column]), text(row[column]))
    for row in state.values():
        yield Difference("row", place, row, None)
