"""Batches: what rows the messages of a recorded topic become, in both forms."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.datasource import read, rows_of
from tests.support.recorded_topics import Line, write_json
from tests.unit.cli.test_inspect import CHANGES, CREATE, MS, NEW, OPEN, SIMPLE, ZONE, lines, topic
from ticdc_spark.datasource.options import read_options
from ticdc_spark.datasource.source import BatchReader, query_columns
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import RejectedMessage, SourceFault, UsageError
from ticdc_spark.model import RowChange, SchemaChange
from ticdc_spark.mysql import tso
from ticdc_spark.protocols.base import Encoded, Encoder
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json_encoder
from ticdc_spark.protocols.open.encode import OpenConfig
from ticdc_spark.protocols.open.encode import encoder as open_encoder

CANAL = canal_json_encoder(CanalJsonConfig(enable_tidb_extension=True, time_zone=ZONE))


def record(folder: Path, *partitions: list[Encoded]) -> dict[str, str]:
    for number, sent in enumerate(partitions):
        write_json(folder / f"topic/{number}.jsonl", lines(sent, number))
    return {"path": str(folder / "topic"), "source-timezone": ZONE}


def kinds(found: Any, column: str = "_change_type") -> list[str]:
    return list(found.column(column).to_pylist())


@pytest.mark.parametrize("to", [SIMPLE, OPEN, CANAL], ids=["simple", "open", "canal-json"])
def test_a_change_is_a_row_with_its_values_as_json(to: Encoder, tmp_path: Path) -> None:
    options = record(tmp_path, topic(to))
    insert, update, delete = read(options).to_pylist()
    assert insert["_change_type"] == ("upsert" if to is OPEN else "insert")
    assert (update["_change_type"], delete["_change_type"]) == ("update_postimage", "delete")
    assert json.loads(update["before"])["s"] == "x,y" and json.loads(update["after"])["e"] == "a"
    assert json.loads(insert["after"])["b"] == {"base64": "AP8="} and insert["before"] is None
    assert insert["_commit_version"] == tso(MS + 1)
    assert insert["_commit_timestamp"] == datetime.fromtimestamp((MS + 1) / 1000, UTC)
    assert (insert["schema"], insert["table"], insert["topic"], insert["partition"]) == ("shop", "t", "orders", 0)
    assert insert["query"] is None and insert["reason"] is None


def test_other_messages_are_rows_where_they_are_asked_for(tmp_path: Path) -> None:
    options = record(tmp_path, topic(SIMPLE))
    assert kinds(read({**options, "include": "ddl, watermark"})) == [
        "ddl",
        "insert",
        "update_postimage",
        "delete",
        "watermark",
    ]
    assert read({**options, "include": "ddl"}).column("query")[0].as_py() == CREATE.query
    assert kinds(read({**options, "tables": "*.*, !shop.t"})) == []


@pytest.mark.parametrize("to", [SIMPLE, OPEN, CANAL], ids=["simple", "open", "canal-json"])
def test_each_image_is_a_row_of_typed_columns(to: Encoder, tmp_path: Path) -> None:
    found = read({**record(tmp_path, topic(to)), "table": "shop.t"})
    assert found.column_names[:5] == ["id", "e", "s", "b", "ts"]
    first, old, new, gone = found.to_pylist()
    assert first["_change_type"] == ("upsert" if to is OPEN else "insert")
    assert [row["_change_type"] for row in (old, new, gone)] == ["update_preimage", "update_postimage", "delete"]
    assert (first["id"], first["e"], first["s"], first["b"]) == (1, "b", "x,y", b"\x00\xff")
    assert first["ts"] == datetime(2024, 1, 1, 16, 0, 0, 500_000, UTC)
    assert (old["e"], new["e"], gone["e"]) == ("b", "a", "b")
    assert (new["_commit_version"], new["_offset"], new["_reason"]) == (tso(MS + 2), old["_offset"], None)


def test_old_images_that_were_sent_with_their_key_only_have_the_key(tmp_path: Path) -> None:
    keys_only = open_encoder(OpenConfig(time_zone=ZONE, delete_only_output_handle_key_columns=True))
    (ddl,) = [keys_only.ddl(CREATE)]
    assert ddl
    options = record(tmp_path, [ddl, *keys_only.rows([CHANGES[2]])])
    (row,) = read({**options, "table": "shop.t"}).to_pylist()
    assert (row["_change_type"], row["id"], row["e"], row["b"]) == ("delete", 1, None, None)


def alter(ms: int, query: str) -> SchemaChange:
    return SchemaChange(commit_ts=tso(MS + ms), query=query, kind="ALTER", schema="shop", name="t")


def test_rows_of_all_partitions_are_read_by_the_ddl_of_one(tmp_path: Path) -> None:
    """canal-json sends DDL to partition 0 only; a member of ENUM is shown by nothing else."""
    ddl, more = CANAL.ddl(CREATE), CANAL.ddl(alter(2, "ALTER TABLE t ADD COLUMN n DECIMAL(5,2) DEFAULT 1.5"))
    assert ddl and more
    options = record(tmp_path, [ddl, more], list(CANAL.rows(CHANGES)))
    found = read({**options, "max-records-per-partition": 1})
    assert [json.loads(row["after"])["e"] for row in found.to_pylist() if row["after"]] == ["b", "a"]
    typed = read({**options, "table": "shop.t", "max-records-per-partition": 1}).to_pylist()
    # a row of before the column has its default, as in a job
    assert [row["n"] for row in typed] == [Decimal("1.50")] * 3 + [None]


def test_the_default_of_a_timestamp_is_of_the_time_zone_of_its_ddl(tmp_path: Path) -> None:
    ddl, more = (
        CANAL.ddl(CREATE),
        CANAL.ddl(alter(9, "ALTER TABLE t ADD COLUMN at TIMESTAMP DEFAULT '2020-01-01 08:00'")),
    )
    assert ddl and more
    options = {**record(tmp_path, [ddl, *CANAL.rows(CHANGES), more]), "table": "shop.t"}
    assert set(read(options).column("at").to_pylist()) == {datetime(2020, 1, 1, tzinfo=UTC)}
    assert set(read({**options, "ddl-timezone": "UTC"}).column("at").to_pylist()) == {
        datetime(2020, 1, 1, 8, tzinfo=UTC)
    }


def test_offsets_bound_a_batch_and_schemas_come_from_before_it(tmp_path: Path) -> None:
    options = record(tmp_path, topic(SIMPLE))
    part = {**options, "startingOffsets": '{"orders": {"0": 2}}', "endingOffsets": '{"orders": {"0": 3}}'}
    assert kinds(read(part)) == ["update_postimage"]
    assert kinds(read({**part, "table": "shop.t"})) == ["update_preimage", "update_postimage"]
    with pytest.raises(RejectedMessage, match=r"no schema of `shop`\.`t`, version 99, in what was read"):
        read({**part, "schemas-from": "starting-offsets"})
    with pytest.raises(SourceFault, match="reading begins at offset 4, which is after its end at 3"):
        read({**part, "startingOffsets": '{"orders": {"0": 4}}'})
    with pytest.raises(SourceFault, match="offsets up to 9 are to be read, but it ends at 5"):
        read({**options, "endingOffsets": '{"orders": {"0": 9}}'})


def test_a_table_that_no_message_shows_is_described_by_the_option(tmp_path: Path) -> None:
    rows_only = list(CANAL.rows(CHANGES))
    options = record(tmp_path, rows_only)
    with pytest.raises(
        UsageError, match=r"option table: no message shows the schema of shop.u; known: none. Set the option ddl"
    ):
        read({**options, "table": "shop.u"})
    create = CREATE.query.replace("'a'", "'a2'")
    found = read({**options, "table": "shop.t", "ddl": create})
    assert found.column("e").to_pylist() == ["b", "b", "a2", "b"]


def test_what_cannot_be_read_stops_the_query_or_is_a_row_with_its_reason(tmp_path: Path) -> None:
    bad = RowChange(op="insert", table=CHANGES[0].table, commit_ts=tso(MS + 9), after={**NEW, "e": "7"})
    sent = [*topic(SIMPLE), *SIMPLE.rows([bad]), Encoded(key=None, value=b"{")]
    options = record(tmp_path, sent)
    with pytest.raises(
        RejectedMessage, match=r"topic 'orders', partition 0, offset 6 cannot be read: .*on-reject = \"row\""
    ):
        read(options)
    typed = {**options, "table": "shop.t", "endingOffsets": '{"orders": {"0": 6}}'}
    with pytest.raises(RejectedMessage, match=r"offset 5 \(`shop`.`t`\) cannot be read: column `e`: '7'"):
        read(typed)
    found = [row for row in read({**options, "table": "shop.t", "on-reject": "row"}).to_pylist() if row["_reason"]]
    assert [(row["_change_type"], row["_offset"], row["id"]) for row in found] == [
        ("unreadable", 6, None),
        ("unreadable", 5, 1),
    ]
    assert kinds(read({**options, "on-reject": "row"}))[-1] == "unreadable"


def test_the_columns_are_those_that_the_query_was_planned_with(tmp_path: Path) -> None:
    """The table may change between planning and reading, and a user may name fewer columns."""
    options = read_options({**record(tmp_path, topic(OPEN)), "table": "shop.t"})
    planned = query_columns(options)
    ddl = OPEN.ddl(alter(20, "ALTER TABLE t DROP COLUMN b"))
    modify = OPEN.ddl(alter(21, "ALTER TABLE t MODIFY COLUMN id BIGINT"))
    assert ddl and modify
    more = [Line("orders", 0, 10 + at, MS, one.key, one.value) for at, one in enumerate((ddl, modify))]
    write_json(tmp_path / "topic/1.jsonl", more)
    assert query_columns(options)["id"] == "bigint"
    found = rows_of(BatchReader(options, planned).partitions(), planned)
    assert found.column("b").to_pylist() == [b"\x00\xff", b"\x00\xff", None, b"\x00\xff"]
    few = {"_change_type": "string", "id": "int"}
    assert rows_of(BatchReader(options, few).partitions(), few).column_names == [*few]
    with pytest.raises(UsageError, match=r"column id \(string\) of shop.t: no known version of the table has a column"):
        BatchReader(options, {"id": "string"}).partitions()


def test_a_column_with_a_name_of_the_sources_own_is_refused(tmp_path: Path) -> None:
    options = record(tmp_path, topic(SIMPLE))
    with pytest.raises(UsageError, match=r"column `_OFFSET` of shop\.u has the name of a column of the source"):
        read({**options, "table": "shop.u", "ddl": "CREATE TABLE u (_OFFSET INT)"})


@pytest.mark.parametrize(
    ("before", "now", "sent", "shown"),
    [
        ("ENUM('a','b')", "ENUM('b','a')", "1", "a"),
        ("ENUM('a','b')", "VARCHAR(9)", "1", "a"),
        ("SET('a','b')", "SET('b','a')", "1", "a"),
        ("INT", "VARCHAR(9)", "1", "1"),
        ("DATETIME", "TIMESTAMP", "2026-01-31 10:00:00", "`v` was datetime and is timestamp now"),
        ("TIMESTAMP", "VARCHAR(30)", "2026-01-31 10:00:00", "`v` was timestamp and is varchar now"),
    ],
)
def test_a_value_of_an_older_type_is_what_it_was(tmp_path: Path, before: str, now: str, sent: str, shown: str) -> None:
    create = msgspec.structs.replace(CREATE, query=f"CREATE TABLE t (id INT PRIMARY KEY, v {before})")
    row = RowChange(
        op="insert", table=parse_create(create.query, "shop"), commit_ts=tso(MS + 1), after={"id": "1", "v": sent}
    )
    later = CANAL.ddl(alter(2, f"ALTER TABLE t MODIFY v {now}"))
    first = CANAL.ddl(create)
    assert first and later
    options = record(tmp_path, [first, *CANAL.rows([row]), later])
    (found,) = read({**options, "table": "shop.t", "on-reject": "row"}).to_pylist()
    assert shown == found["v"] or shown in found["_reason"]


def test_a_batch_is_read_by_a_ddl_behind_its_end_in_another_partition(tmp_path: Path) -> None:
    create = msgspec.structs.replace(CREATE, query="CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b'))")
    old = parse_create(create.query, "shop")
    new = parse_create("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('b','a'))", "shop")
    rows = [
        RowChange(op="insert", table=table, commit_ts=tso(MS + at), after={"id": str(at), "e": "1"})
        for table, at in ((old, 1), (new, 3))
    ]
    first, later = CANAL.ddl(create), CANAL.ddl(alter(2, "ALTER TABLE t MODIFY e ENUM('b','a')"))
    assert first and later
    options = record(tmp_path, [first, later], list(CANAL.rows(rows)))
    found = read({**options, "endingOffsets": '{"orders": {"0": 1}}'}).to_pylist()
    assert [json.loads(row["after"])["e"] for row in found] == ["a", "b"]
    typed = read({**options, "endingOffsets": '{"orders": {"0": 1}}', "table": "shop.t"}).to_pylist()
    assert [row["e"] for row in typed] == ["a", "b"]
