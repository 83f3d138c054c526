"""Streams: offsets, bounded batches, and a restart from what a checkpoint has. Spark's part is in ``tests/spark``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.datasource import rows_of, stream
from tests.support.recorded_topics import Line, write_json
from tests.unit.cli.test_inspect import CANAL, CHANGES, CREATE, MS, OPEN, ZONE, topic
from ticdc_spark.datasource.source import TicdcDataSource
from ticdc_spark.datasource.stream import StreamReader
from ticdc_spark.ddl import apply_ddl, fold, parse_create
from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.model import RowChange, SchemaChange
from ticdc_spark.mysql import tso
from ticdc_spark.protocols.base import Encoded


def add(folder: Path, name: str, sent: list[Encoded], first: int = 0, partition: int = 0) -> dict[str, str]:
    lines = [Line("orders", partition, first + at, MS, one.key, one.value) for at, one in enumerate(sent)]
    write_json(folder / f"topic/{name}.jsonl", lines)
    return {"path": str(folder / "topic"), "source-timezone": ZONE}


def as_spark(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset as it comes back from a checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def offsets(offset: dict[str, Any]) -> dict[str, int]:
    return {f"{topic}/{partition}": at for topic, of in offset["offsets"].items() for partition, at in of.items()}


def rows(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    parts = reader.partitions(as_spark(start), as_spark(end))
    found: list[dict[str, Any]] = rows_of(parts, reader._columns).to_pylist() if parts else []
    return found


def test_batches_are_bounded_and_follow_each_other(tmp_path: Path) -> None:
    options = add(tmp_path, "0", topic(OPEN))
    reader = stream({**options, "maxOffsetsPerTrigger": 2})
    at, seen, ends = reader.initialOffset(), [], []
    assert offsets(at) == {"orders/0": 0}
    while (end := reader.latestOffset()) != at:
        seen += [row["_change_type"] for row in rows(reader, at, end)]
        ends.append(offsets(end)["orders/0"])
        at = end
    # DDL, the rows as one message, a watermark
    assert ends == [2, 3]
    assert seen == ["upsert", "update_postimage", "delete"]
    assert as_spark(reader.latestOffset()) == as_spark(at)


def test_a_restart_goes_on_from_the_checkpoint_with_the_schemas_that_it_has(tmp_path: Path) -> None:
    """The DDL is gone from the topic by then, as where Kafka has removed it."""
    before = add(tmp_path / "a", "0", topic(OPEN)[:1])
    first = stream({**before, "table": "shop.t"})
    checkpoint = as_spark(first.latestOffset())
    options = add(tmp_path / "b", "1", list(OPEN.rows(CHANGES)), first=1)
    reader = StreamReader(stream({**options, "table": "shop.t", "ddl": CREATE.query})._options, first._columns)
    # as Spark does it after a restart
    assert reader.partitions(checkpoint, checkpoint) == []
    end = reader.latestOffset()
    # an ENUM's name follows from its DDL only
    assert [row["e"] for row in rows(reader, checkpoint, end)] == ["b", "b", "a", "b"]


def test_a_batch_that_was_planned_is_read_again_after_a_restart_as_it_was(tmp_path: Path) -> None:
    options = add(tmp_path, "0", topic(OPEN))
    reader = stream(options)
    start = reader.initialOffset()
    end = reader.latestOffset()
    once = rows(reader, start, end)
    ddl = OPEN.ddl(SchemaChange(commit_ts=tso(MS + 20), query="DROP TABLE t", kind="", schema="shop", name="t"))
    assert ddl
    add(tmp_path, "1", [ddl], first=len(topic(OPEN)))
    again = stream(options)
    assert again.partitions(as_spark(end), as_spark(end)) == []
    assert rows(again, start, end) == once
    assert offsets(again.latestOffset())["orders/0"] == offsets(end)["orders/0"] + 1


def test_a_partition_that_comes_later_is_read_from_its_beginning(tmp_path: Path) -> None:
    options = add(tmp_path, "0", topic(OPEN)[:1])
    reader = stream(options)
    at = reader.latestOffset()
    add(tmp_path, "1", list(OPEN.rows(CHANGES)), partition=1)
    end = reader.latestOffset()
    assert offsets(end) == {"orders/0": 1, "orders/1": 1}
    assert [row["_change_type"] for row in rows(reader, at, end)] == ["upsert", "update_postimage", "delete"]


def test_a_topic_that_is_shorter_than_what_was_read_stops_the_query(tmp_path: Path) -> None:
    options = add(tmp_path, "0", topic(OPEN))
    at = as_spark(stream(options).latestOffset())
    add(tmp_path, "0", topic(OPEN)[:1])
    reader = stream(options)
    reader.partitions(at, at)
    with pytest.raises(SourceFault, match=r"partition 0: offsets .* are to be read, but it ends at 1.* new checkpoint"):
        reader.latestOffset()


def test_a_stream_has_no_end_and_a_batch_no_trigger(tmp_path: Path) -> None:
    options = add(tmp_path, "0", topic(OPEN))
    with pytest.raises(UsageError, match="option endingOffsets: is for batches"):
        TicdcDataSource({**options, "endingOffsets": "latest"}).streamReader(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="option maxOffsetsPerTrigger: is for streams"):
        TicdcDataSource({**options, "maxOffsetsPerTrigger": "1"}).reader(None)  # type: ignore[arg-type]


def test_a_checkpoint_of_another_source_is_refused(tmp_path: Path) -> None:
    reader = stream(add(tmp_path, "0", topic(OPEN)))
    with pytest.raises(SourceFault, match="the checkpoint has no offset of this source"):
        reader.partitions({"logOffset": 3}, {"logOffset": 4})


@pytest.mark.parametrize("form", [{}, {"table": "shop.t"}], ids=["generic", "typed"])
def test_rows_are_read_by_a_ddl_that_a_later_batch_has(tmp_path: Path, form: dict[str, str]) -> None:
    """canal-json sends DDL to partition 0 only, and that one is read more slowly than the other."""
    ddl = msgspec.structs.replace(CREATE, query="CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b'))")
    query = "ALTER TABLE t MODIFY e ENUM('b','a'), ADD COLUMN n INT"
    later = msgspec.structs.replace(ddl, query=query, kind="ALTER", commit_ts=tso(MS + 50))
    old = parse_create(ddl.query, "shop")
    new = fold({("shop", "t"): old}, apply_ddl({("shop", "t"): old}, "shop", query))["shop", "t"]
    first = [
        RowChange(op="insert", table=old, commit_ts=tso(MS + at), after={"id": str(at), "e": "1"})
        for at in range(1, 10)
    ]
    change = RowChange(op="insert", table=new, commit_ts=tso(MS + 60), after={"id": "99", "e": "2", "n": "7"})
    create, alter = CANAL.ddl(ddl), CANAL.ddl(later)
    assert create and alter
    add(tmp_path, "0", [create, *CANAL.rows(first), alter])
    options = add(tmp_path, "1", list(CANAL.rows([change])), partition=1)
    reader = stream({**options, **form, "maxOffsetsPerTrigger": 3})
    at, seen = reader.initialOffset(), []
    while (end := reader.latestOffset()) != at:
        # what a checkpoint has is enough to plan a batch again
        found = rows(reader, at, end)
        assert rows(stream({**options, **form}), at, end) == found
        seen += [json.loads(row["after"]) if not form else row for row in found]
        at = end
    assert [row["e"] for row in seen if int(row["id"]) < 99] == ["a"] * 9
    assert [(row["e"], str(row["n"])) for row in seen if int(row["id"]) == 99] == [("a", "7")]
