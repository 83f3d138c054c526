"""``inspect`` and ``convert`` of rows that lie elsewhere, and of rows with checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from msgspec.structs import replace

from tests.support.recorded_topics import Line, write_json
from tests.support.simple_examples import ROW, USER, change
from tests.unit.cli.test_inspect import inspect, shown
from ticdc_spark.cli import main
from ticdc_spark.model import Checksum, Envelope, RowChange
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.topics.messages import recorded_messages

LARGE = change("insert", 9 << 18, None, {**ROW, "name": "x" * 900})
PLAIN = SimpleConfig()


def recorded(folder: Path, rows: list[RowChange], config: SimpleConfig) -> Path:
    to = encoder(config)
    boot = to.bootstrap(USER)
    assert boot
    sent = [boot, *to.rows(rows)]
    folder.mkdir()
    write_json(folder / "0.jsonl", [Line("users", 0, at, at, one.key, one.value) for at, one in enumerate(sent)])
    return folder


def convert(source: Path, *arguments: object) -> Result:
    return CliRunner().invoke(main, ["convert", str(source), "--to", *map(str, arguments), "--format", "jsonl"])


def only_row(result: Result) -> dict[str, Any]:
    (row,) = (line for line in shown(result) if line["kind"] != "bootstrap")
    return row


def test_large_rows_are_shown_whole_with_their_storage(tmp_path: Path) -> None:
    whole = recorded(tmp_path / "whole", [LARGE], PLAIN)
    kept, small = tmp_path / "kept", tmp_path / "small"
    options = ["large-message-handle-option=claim-check", f"claim-check-storage-uri={kept}", "max-message-bytes=800"]
    made = convert(whole, "simple", "--out", small, *(part for option in options for part in ("-O", option)))
    assert made.exit_code == 0, made.stderr
    (file,) = kept.iterdir()

    keys = only_row(inspect(small, "--json"))
    assert (keys["after"], keys["partial"]) == ({"id": "1"}, True)
    row = only_row(inspect(small, "--json", "--claim-check-storage", kept))
    assert (row["after"], row["partial"]) == (LARGE.after, False)
    # and written whole again
    again = tmp_path / "again"
    assert convert(small, "open", "--out", again, "--claim-check-storage", kept).exit_code == 0
    assert only_row(inspect(again, "--json"))["after"] == LARGE.after

    file.write_text("{}")
    rejected = inspect(small, "--json", "--claim-check-storage", kept.as_uri())
    assert only_row(rejected)["kind"] == "rejected" and "1 event rejected" in rejected.stderr
    file.unlink()
    gone = inspect(small, "--claim-check-storage", kept)
    assert gone.exit_code == 1
    assert "is not in the claim check storage" in " ".join(gone.stderr.split())


def test_rows_that_are_not_as_their_checksum_are_rejected_if_set(tmp_path: Path) -> None:
    config = SimpleConfig(enable_row_checksum=True, compute_row_checksum=True)
    wrong = replace(LARGE, checksum=Checksum(version=2, corrupted=True, current=5, previous=0))
    topic = recorded(tmp_path / "topic", [LARGE, wrong], config)
    kinds = [(line["kind"], line["reason"]) for line in shown(inspect(topic, "--json", "--verify-checksum"))]
    assert kinds[:2] == [("bootstrap", None), ("insert", None)]
    kind, reason = kinds[2]
    assert kind == "rejected" and "its message has 5; TiCDC marked the row as corrupted" in str(reason)
    assert [line["kind"] for line in shown(inspect(topic, "--json"))] == ["bootstrap", "insert", "insert"]


def test_what_is_converted_can_get_checksums(tmp_path: Path) -> None:
    plain = recorded(tmp_path / "plain", [LARGE], PLAIN)
    made = convert(plain, "simple", "--out", tmp_path / "out", "-O", "enable-row-checksum=true")
    assert made.exit_code == 0, made.stderr
    assert only_row(inspect(tmp_path / "out", "--json", "--verify-checksum"))["after"] == LARGE.after
    sent = [DECODER.open_message(None, line.value) for line in recorded_messages(tmp_path / "out")]
    (row,) = sent[-1]
    assert isinstance(row, Envelope) and row.checksum and row.checksum.current
