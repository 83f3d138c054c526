"""Writing: rows to messages, to a recorded topic, and what is no row that can be written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from tests.support.datasource import read
from tests.support.recorded_topics import Line, read_back, write_json
from tests.support.strategies import EVERYTHING, WIRES, changes_of
from tests.unit.cli.test_inspect import CREATE, SIMPLE, lines, topic
from ticdc_spark.datasource.changes import NEEDED
from ticdc_spark.datasource.source import TicdcDataSource
from ticdc_spark.datasource.writer import BatchWriter, messages_of, write_plan
from ticdc_spark.errors import UnsendableChange, UsageError
from ticdc_spark.model import Row
from ticdc_spark.protocols.simple.encode import encoder as simple_encoder

ALL = {"include": "ddl,watermark,bootstrap", "with-schemas": "true"}
KAFKA = {"bootstrap-servers": "none:1"}


def frame(folder: Path) -> pa.Table:
    write_json(folder / "from/0.jsonl", lines(topic(SIMPLE)))
    return read({"path": folder / "from", **ALL})


def writer(options: dict[str, str], names: Sequence[str], *, overwrite: bool = False) -> BatchWriter:
    integers = dict.fromkeys(("_commit_version", "partition", "offset", "seq", "table_id"), LongType())
    kinds = {**integers, "partial": BooleanType()}
    schema = StructType([StructField(name, kinds.get(name, StringType())) for name in names])
    made = TicdcDataSource(options).writer(schema, overwrite)
    assert isinstance(made, BatchWriter)
    return made


SENT = next(wire for wire in WIRES if wire.name == "canal-json")
KOLKATA = "Asia/Kolkata"  # no local time of it happens twice
NAMED = {column.name for column in EVERYTHING.columns if column.type.elements}


def comparable(found: pa.Table, target: str) -> list[tuple[object, ...]]:
    """The changes of a frame; without ENUM and SET, which are numbers where no DDL shows their members."""
    rows = []
    for row in found.to_pylist():
        kind = "upsert" if target == "open" and row["_change_type"] == "insert" else row["_change_type"]
        images = [json.loads(row[side]) if row[side] else {} for side in ("before", "after")]
        shown = [{k: v for k, v in one.items() if k not in NAMED or target == "simple"} for one in images]
        rows.append((kind, row["_commit_version"], row["schema"], row["table"], *shown))
    return rows


@pytest.mark.parametrize("target", ["simple", "canal-json", "open"])
@settings(max_examples=10, deadline=None)
@given(rows=SENT.rows(EVERYTHING, 3), commit_ts=st.integers(1 << 18, 2**63 - 1))
def test_what_is_read_written_and_read_again_is_the_same(target: str, rows: list[Row], commit_ts: int) -> None:
    made = simple_encoder()
    bootstrap = made.bootstrap(EVERYTHING)
    assert bootstrap
    with TemporaryDirectory() as folder:
        sent = [bootstrap, *made.rows(changes_of(EVERYTHING, rows, commit_ts))]
        write_json(Path(folder, "a/0.jsonl"), lines(sent))
        first = read({"path": f"{folder}/a", "with-schemas": "true"})
        zone = {} if target == "simple" else {"time-zone": KOLKATA}
        plan = write_plan({**KAFKA, "protocol": target, **zone}, first.column_names)
        written = list(messages_of(plan, first.to_pylist()))
        write_json(Path(folder, "b/0.jsonl"), [Line(m.topic, 0, m.offset, None, m.key, m.value) for m in written])
        again = read({"path": f"{folder}/b", "source-timezone": KOLKATA, "protocol": target})
    assert comparable(again, target) == comparable(first, target)


def test_a_recorded_topic_gets_the_messages_of_all_tasks_behind_those_that_it_has(tmp_path: Path) -> None:
    rows = frame(tmp_path)
    options = {"path": str(tmp_path / "to"), "protocol": "open", "time-zone": "Asia/Shanghai", "file-format": "jsonl"}
    for round_ in range(2):
        made = writer(options, rows.column_names)
        parts = [made.write(iter(part.to_batches())) for part in (rows.slice(0, 2), rows.slice(2), rows.slice(0, 0))]
        assert not [*(tmp_path / "to").glob("*.jsonl")][round_:]
        made.commit(parts)
    found = read_back(tmp_path / "to")
    assert [line.offset for line in found] == list(range(len(found)))
    assert [line.topic for line in found] == ["orders"] * len(found)
    again = read({"path": tmp_path / "to", "source-timezone": "Asia/Shanghai"})
    assert again.column("_change_type").to_pylist() == ["upsert", "update_postimage", "delete"] * 2
    assert {path.suffix for path in (tmp_path / "to").iterdir()} == {".jsonl"}


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    rows = frame(tmp_path)
    made = writer({"path": str(tmp_path / "to"), "protocol": "simple"}, rows.column_names)
    made.abort([made.write(iter(rows.to_batches()))])
    assert [*(tmp_path / "to").iterdir()] == []


def test_rows_without_schemas_are_written_by_the_option(tmp_path: Path) -> None:
    write_json(tmp_path / "from/0.jsonl", lines(topic(SIMPLE)))
    rows = read({"path": tmp_path / "from"})
    ddl = CREATE.query.replace("`t`", "`shop`.`t`")
    plan = write_plan({**KAFKA, "protocol": "open", "topic": "other", "ddl": ddl, "time-zone": "Asia/Shanghai"}, NEEDED)
    (sent,) = messages_of(plan, rows.select([*NEEDED]).to_pylist())
    write_json(tmp_path / "to/0.jsonl", [Line(sent.topic, sent.partition, 0, None, sent.key, sent.value)])
    found = read({"path": tmp_path / "to", "source-timezone": "Asia/Shanghai", "ddl": ddl})
    assert found.column("topic").to_pylist() == ["other"] * 3
    assert found.select(["before", "after"]).to_pylist() == rows.select(["before", "after"]).to_pylist()


ROW: dict[str, Any] = {
    "_change_type": "insert",
    "_commit_version": 5,
    "schema": "shop",
    "table": "t",
    "topic": "orders",
    "before": None,
    "after": '{"id": "1"}',
}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            {"_change_type": "unreadable"},
            r"orders/0/0, shop\.t.*column _change_type: found 'unreadable'; allowed: insert",
        ),
        ({"_change_type": "update_preimage"}, r"column _change_type: found 'update_preimage'; allowed"),
        ({"_change_type": "ddl"}, r"a row of kind ddl needs the column table_schema: read it with with-schemas = true"),
        ({"table": "u"}, r"its schema is not known; read it with with-schemas = true, or set the option ddl"),
        ({"after": None}, r"a row of kind insert needs the column after"),
        ({"after": "{"}, r"a row cannot be written .*JSON|truncated"),
        ({"after": '{"zzz": "1"}'}, r"column after: the table has no column `zzz`"),
        ({"after": '{"id": {"base64": "?"}}'}, r"column `id`: found .*allowed: text, null or"),
        ({"after": '{"id": "1", "e": "c"}'}, r"'c' is no member of ENUM"),
        ({"topic": None}, r"column topic: a row has none; set the option topic"),
        ({"partition": -1}, r"column partition: found -1; allowed: 0 or more"),
    ],
)
def test_a_row_that_is_no_change_is_named_with_what_is_allowed(row: dict[str, Any], says: str) -> None:
    ddl = CREATE.query.replace("`t`", "`shop`.`t`")
    plan = write_plan({**KAFKA, "protocol": "canal-json", "ddl": ddl, "time-zone": "UTC"}, [*NEEDED, "topic"])
    with pytest.raises(UsageError, match=says):
        list(messages_of(plan, [{**ROW, **row}]))


def test_a_change_that_the_protocol_cannot_carry_stops_the_write(tmp_path: Path) -> None:
    rows = frame(tmp_path)
    small = {**KAFKA, "protocol": "canal-json", "max-message-bytes": "10", "time-zone": "UTC"}
    with pytest.raises(UnsendableChange, match=r"cannot be written: .*remove it from the frame, or write another"):
        list(messages_of(write_plan(small, rows.column_names), rows.to_pylist()))


@pytest.mark.parametrize(
    ("options", "names", "says"),
    [
        ({**KAFKA}, NEEDED, r"option protocol: missing; allowed: avro, canal-json"),
        ({**KAFKA, "protocol": "open", "zone": "UTC"}, [*NEEDED, "topic"], r"open has no option 'zone'; allowed: "),
        ({**KAFKA, "protocol": "open"}, NEEDED, r"no column topic; set the option topic"),
        ({**KAFKA, "protocol": "open"}, NEEDED[1:], r"the frame has no column _change_type; needed: _change_type, "),
        (
            {**KAFKA, "protocol": "avro", "topic": "t"},
            NEEDED,
            r"schema-registry",
        ),
        (
            {**KAFKA, "protocol": "avro", "topic": "t", "schema-registry": "file:a.json"},
            NEEDED,
            r"option schema-registry: several tasks cannot write one file of schemas",
        ),
        ({"path": "a", "protocol": "open", "file-format": "csv"}, NEEDED, r"option file-format: .*allowed: jsonl"),
    ],
)
def test_options_of_writing_are_checked(options: dict[str, str], names: Sequence[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        write_plan(options, names)


def test_only_batches_are_appended_to_recorded_topics(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "protocol": "simple", "topic": "t"}
    with pytest.raises(UsageError, match=r'mode "overwrite": .* use mode\("append"\)'):
        writer(options, NEEDED, overwrite=True)
    schema = StructType([StructField(name, StringType()) for name in NEEDED if name != "_commit_version"])
    schema.add("_commit_version", LongType())
    with pytest.raises(UsageError, match="option path: a stream cannot write a recorded topic"):
        TicdcDataSource(options).streamWriter(schema, overwrite=False)


@pytest.mark.parametrize("column", ["_commit_version", "partition", "partial", "before"])
def test_a_column_of_another_type_is_refused(tmp_path: Path, column: str) -> None:
    wrong = IntegerType() if column in ("before", "partial") else StringType()
    kinds = {"_commit_version": LongType(), column: wrong}
    schema = StructType(
        [StructField(name, kinds.get(name, StringType())) for name in {**dict.fromkeys(NEEDED), **kinds}]
    )
    options = {"path": str(tmp_path / "to"), "protocol": "simple", "topic": "t"}
    with pytest.raises(UsageError, match=f"column {column}: found type {wrong.simpleString()}; allowed: "):
        TicdcDataSource(options).writer(schema, False)
