"""``convert``: recorded topics in another protocol."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner, Result

from tests.support.recorded_topics import read_back, write_json
from tests.unit.cli.test_inspect import CANAL, CHANGES, NEW, OLD, OPEN, SHOWN, SIMPLE, TABLE, ZONE, lines, shown, topic
from ticdc_spark.cli import main
from ticdc_spark.model import Message, RowChange, SchemaChange, Table
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import Encoded, Encoder
from ticdc_spark.protocols.debezium import encode as debezium
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.streams.converter import Converter
from ticdc_spark.streams.detect import detect
from ticdc_spark.streams.reader import EventReader

DEBEZIUM = debezium.encoder(debezium.DebeziumConfig(enable_tidb_extension=True))
ENCODERS = {"open": OPEN, "simple": SIMPLE, "canal-json": CANAL, "debezium": DEBEZIUM}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "parquet"])
@pytest.mark.parametrize("source", ENCODERS)
@pytest.mark.parametrize("target", ENCODERS)
def test_events_stay_what_they_are(source: str, target: str, form: str, tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(ENCODERS[source])))
    arguments = [path, "--source-timezone", ZONE, "--to", target, "--format", form, "--out", tmp_path / "out"]
    # Debezium's TIMESTAMP is in UTC
    zone = [] if target == "debezium" else ["-O", "time-zone=+05:30"]
    result = run("convert", *arguments, *zone)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"converted {source} to {target}: ")
    messages = read_back(tmp_path / "out")
    assert detect([(line.key, line.value) for line in messages]) == target
    assert [line.offset for line in messages] == list(range(len(messages)))
    found = shown(run("inspect", "--json", "--source-timezone", "+05:30", tmp_path / "out"))
    before = shown(run("inspect", "--json", "--source-timezone", ZONE, path))

    def contents(events: list[dict[str, object]]) -> list[tuple[object, ...]]:
        names = ("commit_ts", "schema", "table", "before", "after", "query")
        return [tuple(event[name] for name in names) for event in events if event["kind"] != "bootstrap"]

    assert contents(found) == contents(before)


def test_what_cannot_be_read_or_written_is_counted_and_fails(tmp_path: Path) -> None:
    large = RowChange(op="insert", table=TABLE, commit_ts=1 << 40, after={**OLD, "id": "9" * 900})
    sent = [*topic(SIMPLE), *SIMPLE.rows([large, CHANGES[0]]), Encoded(None, b"{")]
    path = write_json(tmp_path / "topic.jsonl", lines(sent))
    result = run("convert", path, "--to", "canal-json", "--out", tmp_path / "out", "-O", "max-message-bytes=900")
    assert result.exit_code == 1
    assert "2 events rejected" in result.stderr
    assert "1 × cannot be written: a row of `shop`.`t` takes" in result.stderr
    assert "1 × not valid JSON" in result.stderr
    assert len(read_back(tmp_path / "out")) == len(sent) - 2


def test_options_of_the_target(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(SIMPLE)))
    arguments = ["convert", path, "--to", "canal-json", "--format", "jsonl", "--out", tmp_path / "out"]
    result = run(*arguments, "-O", "enable-tidb-extension=false", "-O", "content-compatible=true")
    assert result.exit_code == 0, result.stderr
    update = [json.loads(line.value or b"") for line in read_back(tmp_path / "out")][2]
    assert "_tidb" not in update
    changed = [name for name in OLD if OLD[name] != NEW[name]]  # type: ignore[literal-required]
    assert list(update["old"][0]) == changed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-O", "colour=red"], "has no option 'colour'; allowed: build-ts"),
        (["-O", "max-message-bytes=many"], "option max-message-bytes"),
        (["-O", "compression"], "write key=value"),
        (["--to", "morse"], "morse"),
    ],
)
def test_usage_errors(arguments: list[str], words: str, tmp_path: Path) -> None:
    result = run("convert", tmp_path, "--to", "open", "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert words.replace("build-ts", "compression") in result.stderr


@pytest.mark.parametrize("source", ["open", "canal-json"])
def test_a_missing_time_zone_leaves_nothing_that_looks_whole(source: str, tmp_path: Path) -> None:
    other = Table(schema="shop", name="o", columns=TABLE.columns[:1], indexes=TABLE.indexes)
    row = RowChange(op="insert", table=other, commit_ts=1 << 40, after={"id": "1"})
    sent = [*ENCODERS[source].rows([row]), *topic(ENCODERS[source])]
    path = write_json(tmp_path / "topic.jsonl", lines(sent))
    arguments = ["convert", path, "--to", "simple", "--segment-rows", 1, "--out", tmp_path / "out"]
    result = run(*arguments)
    assert result.exit_code == 2
    assert "nothing was written, give --source-timezone" in result.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]
    assert run(*arguments, "--source-timezone", ZONE).exit_code == 0, "and the folder can be used"
    assert len(read_back(tmp_path / "out")) > len(sent)


def test_a_missing_time_zone_of_avro_stops_too(registry: str, tmp_path: Path) -> None:
    path, known = write_json(tmp_path / "topic.jsonl", lines(topic(SIMPLE))), ["--schema-registry", registry]
    assert run("convert", path, "--to", "avro", "--out", tmp_path / "avro", *known).exit_code == 0
    result = run("convert", tmp_path / "avro", "--to", "simple", "--out", tmp_path / "out", *known)
    assert result.exit_code == 2
    assert "nothing was written, give --source-timezone" in result.stderr


def test_a_conversion_that_stops_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    large = RowChange(op="insert", table=TABLE, commit_ts=1 << 40, after={**OLD, "b": b"x" * 2000})
    path, out = write_json(tmp_path / "topic.jsonl", lines([*topic(SIMPLE), *SIMPLE.rows([large])])), tmp_path / "out"
    (out / ".unfinished").mkdir(parents=True)
    (out / ".unfinished" / "messages-of-one-that-was-killed.parquet").write_text("")
    options = ["max-message-bytes=2000", "large-message-handle-option=claim-check", "claim-check-storage-uri="]
    arguments = ["convert", path, "--to", "canal-json", "--segment-rows", 1, "--out", out]
    arguments += [*(part for option in options[:2] for part in ("-O", option))]
    broken = run(*arguments, "-O", f"{options[2]}{path}")  # a file where a folder must be
    assert broken.exit_code == 1
    assert [left.name for left in out.iterdir()] == [".lock"]
    done = run(*arguments, "-O", f"{options[2]}{tmp_path / 'large'}")
    assert done.exit_code == 0, done.stderr
    assert not (out / ".unfinished").exists()
    assert len(read_back(out)) == 6


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(SIMPLE)))
    result = run("convert", path, "--to", "open", "--out", tmp_path)
    assert result.exit_code == 2
    assert "a conversion goes to a new folder" in result.stderr


@pytest.mark.parametrize("to", [OPEN, CANAL], ids=["open", "canal-json"])
def test_rows_without_a_schema_become_simple_with_one(to: Encoder, tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(to)[1:]))
    arguments = ["--source-timezone", ZONE, "--to", "simple", "--out", tmp_path / "out"]
    assert run("convert", path, *arguments).exit_code == 0
    found = shown(run("inspect", "--json", tmp_path / "out"))
    assert [event["kind"] for event in found] == ["bootstrap", "insert", "update", "delete", "watermark"]


@pytest.mark.parametrize(
    ("target", "partitions"), [("canal-json", [0]), ("open", [0, 1]), ("simple", [0, 1]), ("debezium", [0, 1])]
)
def test_ddl_goes_where_the_target_has_it(target: str, partitions: list[int]) -> None:
    """From each partition to the same; canal-json has its DDL in partition 0 only."""
    query = "CREATE TABLE `u` (`id` INT PRIMARY KEY)"
    sent = SIMPLE.ddl(SchemaChange(commit_ts=1 << 40, query=query, kind="CREATE", schema="shop", name="u"))
    assert sent is not None
    reader = EventReader(decoder("simple"))
    converter = Converter(reader.tables_of, target, target_encoder(target, {}))
    messages = [Message(topic="t", partition=at, offset=0, key=sent.key, value=sent.value) for at in (0, 1)]
    written = [one for message in messages for found in reader.read(message) for one in converter.convert(found)]
    assert all(isinstance(one, Message) for one in written)
    assert [one.partition for one in written if isinstance(one, Message)] == partitions


class RegistryHandler(BaseHTTPRequestHandler):
    """A schema registry that takes everything: a schema's id is its place."""

    schemas: ClassVar[list[str]] = []
    subjects: ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        self.answer({"schema": self.schemas[int(self.path.split("/")[3].partition("?")[0]) - 1]})

    def do_POST(self) -> None:
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        self.subjects.add(self.path.split("/")[2])
        if schema not in self.schemas:
            self.schemas.append(schema)
        self.answer({"id": self.schemas.index(schema) + 1})

    def answer(self, body: dict[str, object]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    RegistryHandler.schemas.clear()
    RegistryHandler.subjects.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), RegistryHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("source", ENCODERS)
def test_avro_registers_its_schemas(source: str, registry: str, tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(ENCODERS[source])))
    out, known = tmp_path / "out", ["--schema-registry", registry]
    result = run("convert", path, "--source-timezone", ZONE, "--to", "avro", "--out", out, *known)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("; no message for 1 DDL and 1 watermark\n"), "Avro has neither"
    assert RegistryHandler.subjects == {"shop_t-key", "shop_t-value"}
    found = shown(run("inspect", "--json", "--protocol", "avro", "--source-timezone", "UTC", out, *known))
    events = [(event["kind"], event["table"], event["before"] or event["after"]) for event in found]
    # an update has no old values, a delete nothing but its key; DDL and watermarks are not sent
    shown_new = {**SHOWN, "e": "a", "b": None}
    assert events == [("insert", "t", SHOWN), ("update", "t", shown_new), ("delete", "t", {"id": "1"})]


def test_avro_needs_a_registry(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(SIMPLE)))
    result = run("convert", path, "--to", "avro", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "avro is written with --schema-registry" in result.stderr
