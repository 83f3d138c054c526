"""How Debezium's own connector is configured: on the command line, in a job file, and in the tasks of a scan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.support.debezium_connect import change
from tests.support.recorded_topics import Line, write_json
from tests.unit.config.test_job_file import FILES, KAFKA, load, refused
from ticdc_spark.changes.opening import Messages, Opener
from ticdc_spark.cli import main
from ticdc_spark.config.job import NATIVE, native_of
from ticdc_spark.errors import UsageError
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.debezium.decode import DECODER
from ticdc_spark.protocols.debezium.native import NativeModes, read_modes
from ticdc_spark.replicate.scanning import opening_of

PRECISE = {"decimal-handling-mode": "precise", "binary-handling-mode": "hex"}
DDL = {
    "source": {"db": "inventory", "table": "items", "ts_ms": 1_700_000_000_000},
    "databaseName": "inventory",
    "ddl": "CREATE TABLE items (id INT PRIMARY KEY, n DECIMAL(10,0), b BINARY(2))",
    "tableChanges": [],
    "ts_ms": 1,
}


def topic(folder: Path) -> Path:
    """A row whose decimal may be digits or base64, without a schema block, behind its table's DDL."""
    row = change("c", None, {"id": 1, "n": "1234", "b": "00ff"}, [])
    values = [json.dumps(DDL).encode(), row]
    return write_json(
        folder / "topic.jsonl", [Line("shop", 0, at, None, None, value) for at, value in enumerate(values)]
    )


def inspect(path: Path, *arguments: str, command: str = "inspect") -> Result:
    return CliRunner().invoke(main, [command, str(path), *arguments])


def rows(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [line for line in map(json.loads, result.stdout.splitlines()) if line["kind"] != "ddl"]


def test_it_is_set_on_the_command_line(tmp_path: Path) -> None:
    path = topic(tmp_path)
    (bad,) = rows(inspect(path, "--json"))
    assert bad["kind"] == "rejected"
    given = ["--debezium", "decimal.handling.mode=string", "--debezium", "binary-handling-mode=hex"]
    (row,) = rows(inspect(path, "--json", *given))
    assert (row["after"]["n"], row["after"]["b"]) == ("1234", {"base64": "AP8="})
    (other,) = rows(inspect(path, "--json", "--debezium", "decimal.handling.mode=precise", *given[2:]))
    assert other["after"]["n"] == str(int.from_bytes(b"\xd7\x6d\xf8", "big", signed=True))
    converted = inspect(path, *given, "--to", "canal-json", "--out", str(tmp_path / "out"), command="convert")
    assert converted.exit_code == 0, converted.output
    (again,) = rows(inspect(tmp_path / "out", "--json"))
    assert again["after"]["n"] == "1234"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--debezium", "decimal.handling.mode=exact"],
            "--debezium decimal.handling.mode: found 'exact'; allowed: \"pr",
        ),
        (["--debezium", "snapshot.mode=never"], "--debezium: found `snapshot.mode`; allowed: decimal.handling.mode, "),
        (["--debezium", "decimal.handling.mode"], "write key=value"),
        (["--protocol", "simple", "--debezium", "time.precision.mode=connect"], "the protocol is simple"),
        (["--protocol", "avro", "--debezium", "time.precision.mode=connect"], "the protocol is avro"),
    ],
)
def test_what_the_command_line_refuses(tmp_path: Path, arguments: list[str], words: str) -> None:
    result = inspect(topic(tmp_path), *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


@pytest.mark.parametrize("source", [FILES, KAFKA])
def test_it_is_set_in_a_job_file(tmp_path: Path, source: dict[str, str]) -> None:
    (tmp_path / "recorded").mkdir()
    keys = {key: f'"{value}"' for key, value in PRECISE.items()}
    for protocol in ({"protocol": '"debezium"'}, {}):
        plain = {key: value for key, value in source.items() if key != "protocol"}
        job = load(tmp_path, source=plain | protocol | keys)
        assert native_of(job.source) == PRECISE
        assert opening_of(job, "debezium", None, None).native == PRECISE
    assert native_of(load(tmp_path, source=source).source) == {}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"decimal-handling-mode": '"exact"'}, "[source] decimal-handling-mode: found 'exact'; allowed"),
        ({"time-precision-mode": "3"}, "[source] time-precision-mode: found 3"),
        ({"binary-handling-mod": '"hex"'}, "did you mean `binary-handling-mode`?"),
        (
            {"binary-handling-mode": '"hex"'},
            '[source] binary-handling-mode: is for protocol "debezium"; found "simple"',
        ),
    ],
)
def test_what_a_job_file_may_not_contain(tmp_path: Path, keys: dict[str, str], words: str) -> None:
    (tmp_path / "recorded").mkdir()
    assert words in refused(tmp_path, source=FILES | keys)


def test_a_scan_reads_by_it(tmp_path: Path) -> None:
    (tmp_path / "recorded").mkdir()
    keys = {key: f'"{value}"' for key, value in PRECISE.items()}
    job = load(tmp_path, source=FILES | {"protocol": '"debezium"'} | keys)
    messages = Messages(["t"], [0], [0], [None], [change("c", None, {"id": 1, "n": "BNI="}, [])])
    (row,) = Opener(opening_of(job, "debezium", None, None)).open(messages).rows
    assert row.after is not None and row.after.startswith(b'!{"modes":') and b'"precise"' in row.after


def test_the_keys_are_those_of_the_modes() -> None:
    assert {*NATIVE} == {field.name for field in msgspec.structs.fields(NativeModes)}
    assert read_modes({}) == NativeModes()
    assert decoder("debezium", native={}) is DECODER
    with pytest.raises(UsageError, match="the protocol is open"):
        decoder("open-protocol", native=PRECISE)
