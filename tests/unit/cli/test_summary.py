"""``inspect --summary``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.recorded_topics import write_json
from tests.unit.cli.test_inspect import CANAL, MS, OPEN, SIMPLE, ZONE, inspect, lines, topic
from ticdc_spark.cli.output.summary import Summarizer
from ticdc_spark.model import Envelope, Message, Rejected
from ticdc_spark.mysql import tso
from ticdc_spark.protocols.base import Encoded
from ticdc_spark.streams.event_lines import EventLine
from ticdc_spark.streams.reader import Found


def summary(path: Path, *options: object) -> dict[str, object]:
    done = inspect(path, "--summary", "--json", *options)
    assert done.exit_code == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_events_are_counted_by_table_kind_partition_time_and_schema(tmp_path: Path) -> None:
    sent = topic(SIMPLE)
    path = write_json(tmp_path / "topic.jsonl", [*lines(sent), *lines([*sent[:2], Encoded(None, b"{")], partition=1)])
    kinds = {"insert": 2, "ddl": 2, "update": 1, "delete": 1, "watermark": 1, "rejected": 1}
    found = summary(path, "--protocol", "simple")
    assert (found["events"], found["kinds"]) == (8, kinds)
    assert (found["first_commit_ts"], found["last_commit_ts"]) == (tso(MS), tso(MS + 4))
    (table,) = found["tables"]  # type: ignore[misc]
    assert (table["schema"], table["table"], table["schema_versions"]) == ("shop", "t", ["99"])
    assert table["kinds"] == {"ddl": 2, "insert": 2, "update": 1, "delete": 1}
    assert table["last_commit_ts"] == tso(MS + 3)
    first, second = found["partitions"]  # type: ignore[misc]
    assert (first["partition"], first["events"], first["first_offset"], first["last_offset"]) == (0, 5, 0, 4)
    assert (second["partition"], second["kinds"]) == (1, {"ddl": 1, "insert": 1, "rejected": 1})


def test_filters_and_limit_hold(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(CANAL)))
    zone = ("--source-timezone", ZONE)
    assert summary(path, *zone, "--kind", "delete")["kinds"] == {"delete": 1}
    assert summary(path, *zone, "--limit", 2)["kinds"] == {"ddl": 1, "insert": 1}
    nothing = summary(path, *zone, "--table", "other.*")
    assert (nothing["events"], nothing["first_commit_ts"], nothing["tables"]) == (0, None, [])


def test_lines_for_people(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines([*topic(OPEN), Encoded(b"?", b"?")]))
    done = inspect(path, "--summary", "--source-timezone", ZONE)
    assert done.exit_code == 0
    first, head, table, *_ = done.stdout.splitlines()
    assert first.startswith("6 events, 2023-11-14 22:13:20.000Z to 2023-11-14 22:13:20.004Z: 1 ddl, 1 upsert, ")
    assert head.split() == ["table", "events", "kinds", "first", "last", "schemas"]
    assert table.startswith("shop.t       4  1 ddl, 1 upsert, 1 update, 1 delete  2023")
    assert table.rstrip().endswith(" -"), "Open names no schemas"
    assert "orders/0" in done.stdout and "0-3" in done.stdout
    assert "1 event rejected" in done.stderr


@pytest.mark.parametrize("kinds", [1, 5000])
def test_schemas_without_end_take_no_memory(kinds: int) -> None:
    summed = Summarizer()
    message = Message(topic="t", partition=0, offset=7, key=None, value=None)
    for at in range(kinds):
        line = EventLine(kind="rejected", topic="t", partition=0, offset=7, seq=0, schema="s", table="t")
        envelope = Envelope("insert", "s", "t", 0, schema_key=str(at))
        summed.add(line, Found(message, 0, Rejected("x"), envelope))
    (table,) = summed.summary().tables
    assert len(table.schema_versions) == min(kinds, 1000)
    assert table.events == kinds
