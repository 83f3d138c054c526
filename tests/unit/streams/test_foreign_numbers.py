"""A number's text that another protocol's message held, and no reader looked at: it never gets out of its column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.recorded_topics import write_json
from tests.support.simple_examples import one_column
from tests.unit.cli.test_convert import ENCODERS, run
from tests.unit.cli.test_inspect import CHANGES, SIMPLE, lines, topic
from ticdc_spark import mysql
from ticdc_spark.model import RowChange
from ticdc_spark.protocols.shared.go_text import go_float, integer
from ticdc_spark.streams.write_changes import UNWRITABLE

NO_NUMBERS = ['1},"id":{"t":3,"v":9', '1,"id":2', '1"', "abc", "", "nan", "1 2", "٣}"]
KINDS = ["int", "bigint unsigned", "year", "bit(8)", "float", "double"]


@pytest.mark.parametrize("protocol", ENCODERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_number_is_refused_or_stays_text(protocol: str, kind: str, text: str) -> None:
    table = one_column(mysql.parse_type(kind))
    change = RowChange(op="insert", table=table, commit_ts=1 << 30, after={"c": text})
    try:
        (sent,) = ENCODERS[protocol].rows([change])
    except UNWRITABLE:
        assert protocol != "simple"
        return
    value = (sent.value or b"")[8:] if protocol == "open" else sent.value or b""
    assert protocol in ("simple", "canal-json"), "these write numbers as strings"
    assert '"id"' not in json.loads(value), "what was sent is JSON, with the text inside a string"
    assert json.dumps(text, ensure_ascii=False)[1:-1] in value.decode()


@pytest.mark.parametrize(("text", "sent"), [("7", "7"), ("-0", "0"), ("007", "7"), (" 7", "7"), ("٣", "3")])
def test_an_integer_is_written_as_json_has_it(text: str, sent: str) -> None:
    assert integer(text) == sent


@pytest.mark.parametrize(("text", "sent"), [("007.5", "7.5"), (".5", "0.5"), ("5.", "5"), ("1E2", "100"), ("-0", "-0")])
def test_a_float_is_written_as_json_has_it(text: str, sent: str) -> None:
    assert go_float(text) == sent


@pytest.mark.parametrize(("protocol", "rejected"), [("open", True), ("debezium", True), ("canal-json", False)])
def test_convert_counts_such_a_row_and_goes_on(protocol: str, rejected: bool, tmp_path: Path) -> None:
    assert CHANGES[0].after is not None
    wrong = replace(CHANGES[0], after=CHANGES[0].after | {"id": "seven"})
    sent = [*topic(SIMPLE), *SIMPLE.rows([wrong, CHANGES[0]])]
    path = write_json(tmp_path / "topic.jsonl", lines(sent))
    result = run("convert", path, "--to", protocol, "--out", tmp_path / protocol)
    assert result.exit_code == rejected, result.output
    assert ("1 × cannot be written: " in result.stderr) == rejected
