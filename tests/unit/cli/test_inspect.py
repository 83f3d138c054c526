"""``inspect``: from a recorded topic to lines, its filters, and what is wrong with a topic."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.support.recorded_topics import Line, write_json, write_parquet
from ticdc_spark.cli import main
from ticdc_spark.cli.inspect import report_waiting_once
from ticdc_spark.model import Column, Index, Message, RowChange, SchemaChange, Table
from ticdc_spark.mysql import parse_type, tso
from ticdc_spark.protocols.base import Encoded, Encoder
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json_encoder
from ticdc_spark.protocols.open.encode import OpenConfig
from ticdc_spark.protocols.open.encode import encoder as open_encoder
from ticdc_spark.protocols.simple import decode as simple
from ticdc_spark.protocols.simple.encode import SimpleConfig
from ticdc_spark.protocols.simple.encode import encoder as simple_encoder
from ticdc_spark.streams.event_lines import EventLine, Kind
from ticdc_spark.streams.reader import EventReader, Holding

MS = 1_700_000_000_000
TYPES = {"id": "int(11)", "e": "enum('a','b')", "s": "set('x','y')", "b": "varbinary(5)", "ts": "timestamp(3)"}
TABLE = Table(
    schema="shop",
    name="t",
    columns=tuple(Column(name=name, type=parse_type(text), nullable=name != "id") for name, text in TYPES.items()),
    indexes=(Index(name="primary", unique=True, primary=True, nullable=False, columns=("id",)),),
    table_id=7,
    version=99,
)
SQL = "CREATE TABLE `t` (" + ",".join(f"`{name}` {text}" for name, text in TYPES.items()) + ",PRIMARY KEY(`id`))"
CREATE = SchemaChange(commit_ts=tso(MS), query=SQL, kind="CREATE", schema="shop", name="t", table=TABLE)
OLD = {"id": "1", "e": "2", "s": "3", "b": b"\x00\xff", "ts": "2024-01-01 16:00:00.500"}
NEW = {**OLD, "e": "1", "b": None}
SHOWN = {"id": "1", "e": "b", "s": "x,y", "b": {"base64": "AP8="}, "ts": "2024-01-01 16:00:00.500"}


def change(op: str, ms: int) -> RowChange:
    before, after = (None if op == "insert" else OLD), (None if op == "delete" else OLD if op == "insert" else NEW)
    return RowChange(op=op, table=TABLE, commit_ts=tso(MS + ms), before=before, after=after)  # type: ignore[arg-type]


CHANGES = [change("insert", 1), change("update", 2), change("delete", 3)]


def topic(to: Encoder, *, late: bool = False) -> list[Encoded]:
    rows = list(to.rows(CHANGES))
    ddl = to.ddl(CREATE)
    assert ddl
    sent = [*rows, ddl] if late else [ddl, *rows]
    watermark = to.watermark(tso(MS + 4))
    return [*sent, *([watermark] if watermark else [])]


def lines(sent: list[Encoded], partition: int = 0) -> list[Line]:
    return [Line("orders", partition, at, MS + at, one.key, one.value) for at, one in enumerate(sent)]


def inspect(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["inspect", *map(str, arguments)])


def shown(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


ZONE = "Asia/Shanghai"
OPEN = open_encoder(OpenConfig(time_zone=ZONE))
SIMPLE = simple_encoder(SimpleConfig(time_zone=ZONE))
CANAL = canal_json_encoder(CanalJsonConfig(time_zone=ZONE, enable_tidb_extension=True))
ENCODERS = [OPEN, SIMPLE, CANAL]


@pytest.mark.parametrize("to", ENCODERS, ids=["open", "simple", "canal-json"])
@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "parquet"])
def test_one_json_object_an_event(to: Encoder, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"topic.{suffix}"
    (write_parquet if suffix == "parquet" else write_json)(path, lines(topic(to)))
    ddl, insert, update, delete, watermark = shown(inspect("--json", "--source-timezone", ZONE, path))
    nothing = dict.fromkeys(("schema", "table", "before", "after", "partial", "query", "reason"))
    place = {"topic": "orders", "partition": 0}
    batched = to is OPEN
    assert ddl == {
        **nothing,
        **place,
        "kind": "ddl",
        "offset": 0,
        "seq": 0,
        "commit_ts": tso(MS),
        "schema": "shop",
        "table": "t",
        "query": SQL,
    }
    row = {**nothing, **place, "schema": "shop", "table": "t", "partial": False}
    assert insert == {
        **row,
        "kind": "upsert" if batched else "insert",
        "offset": 1,
        "seq": 0,
        "commit_ts": tso(MS + 1),
        "after": SHOWN,
    }
    assert update == {
        **row,
        "kind": "update",
        "offset": 1 if batched else 2,
        "seq": int(batched),
        "commit_ts": tso(MS + 2),
        "before": SHOWN,
        "after": {**SHOWN, "e": "a", "b": None},
    }
    assert delete["kind"] == "delete" and delete["before"] == SHOWN and delete["after"] is None
    assert watermark == {
        **nothing,
        **place,
        "kind": "watermark",
        "offset": 2 if batched else 4,
        "seq": 0,
        "commit_ts": tso(MS + 4),
    }


def test_lines_for_people(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(CANAL)))
    result = inspect("--source-timezone", ZONE, path)
    assert result.exit_code == 0
    ddl, insert, update, delete, watermark = result.stdout.splitlines()
    assert ddl == f"orders/0@0  2023-11-14 22:13:20.000Z  ddl       shop.t  {SQL}"
    assert insert.endswith("insert    shop.t  id=1 e=b s=x,y b=0x00ff ts='2024-01-01 16:00:00.500'")
    assert " update    shop.t  id=1 e=b→a s=x,y b=0x00ff→NULL ts=" in update
    assert " delete    shop.t  id=1 " in delete
    assert watermark.endswith(f"watermark   {tso(MS + 4)}")


@pytest.mark.parametrize(
    ("arguments", "kinds"),
    [
        (["--kind", "delete", "--kind", "ddl"], ["ddl", "delete"]),
        (["--table", "shop.*"], ["ddl", "insert", "update", "delete"]),
        (["--table", "*.*", "--table", "!SHOP.t"], []),
        (["--from-ts", tso(MS + 2)], ["update", "delete", "watermark"]),
        (["--from-ts", tso(MS + 2), "--to-ts", tso(MS + 3)], ["update"]),
        (["--to-ts", "2023-11-14T22:13:20.001Z"], ["ddl"]),
        (["--partition", 1], []),
        (["--partition", 0, "--partition", 1, "--limit", 2], ["ddl", "insert"]),
    ],
)
def test_filters(arguments: list[object], kinds: list[str], tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(CANAL)))
    found = shown(inspect("--json", "--source-timezone", ZONE, *arguments, path))
    assert [line["kind"] for line in found] == kinds


def test_it_goes_on_after_bad_messages_and_counts_them(tmp_path: Path) -> None:
    sent = topic(SIMPLE)
    bad = Encoded(None, b"{")
    path = write_json(tmp_path / "topic.jsonl", lines([sent[0], bad, bad, *sent[1:], Encoded(None, None)]))
    result = inspect("--json", path)
    kinds = [line["kind"] for line in shown(result)]
    assert kinds == ["ddl", "rejected", "rejected", "insert", "update", "delete", "watermark", "rejected"]
    assert "3 events rejected" in result.stderr
    assert "2 × not valid JSON" in result.stderr and "1 × a Simple message has a value" in result.stderr


def test_a_timestamp_without_a_zone_is_rejected_with_the_option_to_give(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(OPEN)))
    result = inspect("--json", path)
    assert [line["kind"] for line in shown(result)] == ["ddl", *["rejected"] * 3, "watermark"]
    assert "source-timezone must name the changefeed's" in result.stderr


def test_without_ddl_a_row_shows_its_columns(tmp_path: Path) -> None:
    for to in (OPEN, CANAL):
        path = write_json(tmp_path / f"{to.__class__.__name__}.jsonl", lines(topic(to)[1:]))
        insert = shown(inspect("--json", "--source-timezone", ZONE, path))[0]
        assert insert["after"] == {**SHOWN, "e": "2", "s": "3"}


def test_a_row_whose_schema_nothing_shows_comes_with_its_values_as_sent(tmp_path: Path) -> None:
    source = {"ts_ms": MS, "db": "shop", "table": "t"}
    row = {"source": source, "op": "u", "before": {"id": 1, "n": None}, "after": {"id": 1, "n": "a b", "j": [1.50]}}
    path = write_json(tmp_path / "topic.jsonl", lines([Encoded(None, json.dumps(row).encode())]))
    (line,) = shown(inspect("--json", path))
    assert (line["kind"], line["schema"], line["table"]) == ("rejected", "shop", "t")
    assert (line["before"], line["after"]) == ({"id": "1", "n": None}, {"id": "1", "n": "a b", "j": "[1.5]"})
    text = inspect(path).stdout
    assert "no schema block; as sent, before: id=1 n=NULL; as sent, after: id=1 n='a b' j=[1.5]" in text


def test_a_message_of_another_program_is_rejected_with_its_name(tmp_path: Path) -> None:
    maxwell = Encoded(None, b'{"database":"shop","table":"t","type":"insert","ts":1,"data":{"id":1}}')
    for sent in (maxwell, Encoded(None, b'{"id":1}')):
        path = write_json(tmp_path / "topic.jsonl", lines([sent]))
        result = inspect("--protocol", "canal-json", path)
        assert result.exit_code == 0
        assert f"this looks like {'Maxwell' if sent is maxwell else 'plain JSON'}" in result.stderr


def test_rows_of_simple_wait_for_their_schema(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(SIMPLE, late=True)))
    assert [line["kind"] for line in shown(inspect("--json", path))] == [
        "ddl",
        "insert",
        "update",
        "delete",
        "watermark",
    ]
    path = write_json(tmp_path / "rows.jsonl", lines(topic(SIMPLE)[1:]))
    result = inspect("--json", path)
    assert [line["kind"] for line in shown(result)] == ["watermark", *["rejected"] * 3]
    assert "3 × no schema for `shop`.`t`, version 99, in what was read" in result.stderr


def test_only_so_many_rows_wait() -> None:
    for holding in (Holding(rows=2), Holding(bytes=2 * len(topic(SIMPLE)[1].value or b"") + 200)):
        reader = EventReader(simple.DECODER, holding=holding)
        sent = [
            Message(topic="t", partition=0, offset=at, key=one.key, value=one.value)
            for at, one in enumerate(topic(SIMPLE, late=True))
        ]
        found = [[(one.message.offset, type(one.event).__name__) for one in reader.read(message)] for message in sent]
        assert found[:2] == [[], []]
        assert (0, "Rejected") in found[2]
        assert found[3][-1] == (2, "RowChange")
        assert list(reader.finish()) == []


def test_a_row_of_a_version_that_never_comes_does_not_keep_the_others() -> None:
    reader = EventReader(simple.DECODER)
    other = RowChange(op="insert", table=Table(**{**_fields(), "version": 98}), commit_ts=5, after=OLD)
    (first,) = SIMPLE.rows([other])
    sent = [first, *topic(SIMPLE)]
    found = []
    for at, one in enumerate(sent):
        found += reader.read(Message(topic="t", partition=0, offset=at, key=None, value=one.value))
    assert [one.message.offset for one in found] == [1, 5]
    assert [(one.message.offset, type(one.event).__name__) for one in reader.finish()] == [
        (0, "Rejected"),
        (2, "RowChange"),
        (3, "RowChange"),
        (4, "RowChange"),
    ]


def _fields() -> dict[str, object]:
    return {name: getattr(TABLE, name) for name in TABLE.__struct_fields__}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "read either PATH"),
        (["--bootstrap-servers", "localhost:1"], "belong together"),
        (["x", "--topic", "t"], "belong together"),
        (["kafka://localhost:1/t"], "read with --bootstrap-servers"),
        (["x", "--source-timezone", "Mars/Base"], "Mars/Base"),
        (["x", "--table", "nodot"], "schema.table"),
        (["x", "--from-ts", "yesterday"], "neither a TSO nor a time"),
        (["x", "--protocol", "morse"], "morse"),
        (
            ["--bootstrap-servers", "localhost", "--topic", "t"],
            "--bootstrap-servers: found 'localhost'; allowed: \"host",
        ),
        (["x", "--schema-registry", "registry:8081"], "--schema-registry: found 'registry:8081'; allowed: a URL"),
        (["x", "--upstream", "db:3306"], "--upstream: found 'db:3306'; allowed: a URL such as"),
    ],
)
def test_usage_errors(arguments: list[str], words: str) -> None:
    result = inspect(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize("text", ['{"id":0,"isDdl":false}\n', '{\n  "id": 0\n}\n'])
def test_a_message_that_is_no_line_of_a_topic_is_answered_with_the_form(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pasted.jsonl"
    path.write_text(text, encoding="utf-8")
    result = inspect(path)
    assert result.exit_code == 1
    assert 'a line is one message: {"topic": name, "partition": number' in result.stderr


def test_a_path_that_is_not_there_and_a_protocol_that_is_none(tmp_path: Path) -> None:
    assert inspect(tmp_path / "nothing").exit_code == 1
    path = write_json(tmp_path / "topic.jsonl", lines([Encoded(None, b"?")]))
    result = inspect(path)
    assert result.exit_code == 2
    assert "cannot be detected" in result.stderr


def test_partitions_of_several_files_are_merged_by_time(tmp_path: Path) -> None:
    rows = topic(CANAL)
    for partition in (0, 1):
        written = [line._replace(timestamp=MS + 2 * at + partition) for at, line in enumerate(lines(rows, partition))]
        write_json(tmp_path / f"b{partition}.jsonl", written[2:])
        write_json(tmp_path / f"c{partition}.jsonl", written[:2])
    found = shown(inspect("--json", "--source-timezone", ZONE, tmp_path))
    assert [(line["offset"], line["partition"]) for line in found] == [(at, p) for at in range(5) for p in (0, 1)]


def test_it_starts_no_spark(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(SIMPLE)))
    code = f"""
import atexit, sys
from ticdc_spark.cli import main
atexit.register(lambda: sys.stderr.write(" ".join({{"pyspark", "py4j"}} & set(sys.modules))))
main(["inspect", {str(path)!r}])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 5
    assert done.stderr == ""


def test_the_json_form_is_documented() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "inspect.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert documented == [field.name for field in msgspec.structs.fields(EventLine)]
    described = next(line for line in text.splitlines() if line.startswith("| `kind`"))
    assert set(re.findall(r"`(\w+)`", described)) == {"kind", *get_args(Kind)}


def test_schemas_of_earlier_messages_are_taken_and_nothing_else() -> None:
    ddl, insert, update, delete, _ = topic(SIMPLE)
    messages = [
        Message(topic="t", partition=0, offset=at, key=one.key, value=one.value)
        for at, one in enumerate((ddl, insert, update, delete))
    ]
    reader = EventReader(simple.DECODER)
    assert [found.event for found in reader.read(messages[1])] == []
    assert list(reader.waiting) == [("shop", "t")]
    learned = EventReader(simple.DECODER)
    for message in (*messages[:2], Message(topic="t", partition=0, offset=9, key=None, value=b"no message")):
        learned.learn(message)
    assert not learned.waiting
    assert [type(found.event) for message in messages[2:] for found in learned.read(message)] == [RowChange, RowChange]
    assert list(learned.finish()) == []


def test_rows_that_wait_are_reported_once_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    expected_text: set[tuple[str, str]] = set()
    for waiting in ([], [("s", "a")], [("s", "a"), ("s", "b")], [], [("s", "b")]):
        report_waiting_once(waiting, expected_text)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" wait")[0] for line in lines] == ["rows of s.a", "rows of s.b"]


def test_schemas_from_needs_kafka(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(SIMPLE)))
    done = inspect(path, "--schemas-from", "beginning")
    assert done.exit_code == 2
    assert "--schemas-from belongs to --bootstrap-servers" in done.stderr
