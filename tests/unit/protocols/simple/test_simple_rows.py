"""Row images of Simple JSON: every type both ways, bad images, missing columns."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.support.simple_examples import (
    BUILD_TS,
    ENCODER,
    ROW,
    USER,
    one_column,
    read,
    text_type,
)
from ticdc_spark import mysql
from ticdc_spark.errors import MessageError
from ticdc_spark.model import (
    Column,
    ColumnType,
    RowChange,
    Value,
)
from ticdc_spark.protocols.base import ReadOptions, decode
from ticdc_spark.protocols.simple.decode import DECODER


def test_a_bad_image_leaves_the_others_alone() -> None:
    columns = read(
        [
            b'{"id":"1","name":"a","age":null,"score":"1"}',
            b'{"id":2,"name":"b","age":null,"score":"1"}',
            None,
            b'{"id":"3","name":"c","age":null,"score":"x"}',
            b'{"id":"4","name":"d","age":"4","score":"1.50","extra":"1"}',
            b'{"id":"5","name":"e"',
            b'{"id":"6","name":"f","age":"6","score":"1.50"}',
        ]
    )
    assert columns.values == [
        ["1", None, None, None, None, None, "6"],
        ["a", None, None, None, None, None, "f"],
        [None, None, None, None, None, None, "6"],
        ["1", None, None, None, None, None, "1.5"],
    ]
    assert columns.absent == {}
    assert {at: text.split(": ", 1)[1] for at, text in columns.bad.items()} == {
        1: "Expected `str | null`, got `int` - at `$.id`",
        3: "'x' is no number",
        4: "Object contains unknown field `extra`",
        5: "Input data was truncated",
    }
    assert all("`simple`.`user`" in columns.bad[at] for at in (1, 4, 5))


def test_a_bad_image_among_many() -> None:
    images: list[bytes | None] = [json.dumps({**ROW, "id": str(at)}).encode() for at in range(3000)]
    images[1500], images[2500], images[2600] = b"{}", b"{", None
    columns = read(images)
    expected = [None if at in (1500, 2500, 2600) else str(at) for at in range(3000)]
    assert columns.values[0] == expected
    assert columns.bad.keys() == {2500}
    assert columns.absent == {name: [1500] for name in ROW}


def test_columns_that_images_do_not_carry_are_absent() -> None:
    columns = read([b'{"id":"1","name":null}', b'{"id":"2","age":"2"}'])
    assert columns.values == [["1", "2"], [None, None], [None, "2"], [None, None]]
    assert {name: list(rows) for name, rows in columns.absent.items()} == {"name": [1], "age": [0], "score": [0, 1]}
    assert columns.absent["score"] == range(2)
    assert list(read([None, b'{"id":"1"}', None]).absent["score"]) == [1]


@pytest.mark.parametrize("name", ["name", 'na"me'])
def test_only_some_columns_are_read(name: str) -> None:
    key = Column(name="id", type=mysql.parse_type("int"))
    table = msgspec.structs.replace(
        USER, columns=(key, Column(name=name, type=text_type("text", 9)), *USER.columns[2:])
    )
    images = [
        json.dumps({"id": "1", name: "a", "age": 5, "unknown": []}).encode(),
        json.dumps({"id": 2, name: "b"}).encode(),
        json.dumps({"id": "3"}).encode(),
    ]
    columns = DECODER.row_reader(table, ReadOptions(), frozenset({"id", name}))(images)
    assert columns.values == [["1", None, "3"], ["a", None, None], [None] * 3, [None] * 3]
    assert columns.bad.keys() == {1}
    assert columns.absent == {name: [2]}


def test_no_images() -> None:
    assert read([]).values == [[], [], [], []]
    assert read([None]).values == [[None]] * 4


@pytest.mark.parametrize(
    ("text", "wire", "value"),
    [
        ("bigint unsigned", '"18446744073709551615"', "18446744073709551615"),
        ("float", '"340282000000000000000000000000000000000"', "3.40282e38"),
        ("double", '"0.000025"', "2.5e-5"),
        ("double", '"-0"', "-0"),
        ("decimal(10,2)", '"1.50"', "1.50"),
        ("varbinary(4)", '"AP8="', b"\x00\xff"),
        ("blob", '""', b""),
        ("varchar(9)", '"\\u003ca\\u0026\\u2028\\u003e"', "<a&\u2028>"),
        ("varchar(9)", '"\\b\\f\\n\\r\\t\\u0000\\u000b\\u001f\x7f"', "\b\f\n\r\t\x00\x0b\x1f\x7f"),
        ("json", '"{\\"a\\": 1}"', '{"a": 1}'),
        ("timestamp(3)", '{"location":"UTC","value":"2024-01-02 03:04:05.678"}', "2024-01-02 03:04:05.678"),
        ("timestamp", '{"location":"UTC","value":"0000-00-00 00:00:00"}', "0000-00-00 00:00:00"),
        ("time(2)", '"-838:59:59.00"', "-838:59:59.00"),
        ("year", '"0"', "0"),
        ("bit(10)", '"257"', "257"),
        ("enum('a','b')", '"2"', "2"),
        ("set('a','b')", '"3"', "3"),
        ("vector(2)", '"[1,2.5]"', "[1,2.5]"),
        ("int", "null", None),
    ],
)
def test_a_value_of_each_type_both_ways(text: str, wire: str, value: Value) -> None:
    table = one_column(mysql.parse_type(text))
    message = (
        '{"version":1,"database":"s","table":"t","tableID":1,"type":"INSERT","commitTs":7,'
        f'"buildTs":{BUILD_TS},"schemaVersion":1,"data":{{"c":{wire}}}}}'
    ).encode()
    row = RowChange(op="insert", table=table, commit_ts=7, after={"c": value}, table_id=1)
    assert decode(DECODER, None, message, {("s", "t", "1"): table}) == [row]
    (encoded,) = ENCODER.rows([row])
    assert encoded.value == message


def test_raw_html_characters_of_the_new_architecture_are_read() -> None:
    assert read([b'{"c":"<a>&"}'], one_column(text_type("varchar", 9))).values == [["<a>&"]]


def test_bytes_that_are_not_utf8_are_written_as_go_writes_them() -> None:
    table = one_column(text_type("varchar", 9))
    row = RowChange(op="insert", table=table, commit_ts=7, after={"c": b"a\xff<\xe4\xb8"})
    (encoded,) = ENCODER.rows([row])
    assert encoded.value is not None
    assert rb'"data":{"c":"a\ufffd\u003c\ufffd\ufffd"}' in encoded.value


def test_timestamps_are_read_in_the_zone_that_they_name() -> None:
    table = one_column(mysql.parse_type("timestamp"))
    twice = b'{"c":{"location":"America/New_York","value":"2024-11-03 01:30:00"}}'
    shanghai = b'{"c":{"location":"Asia/Shanghai","value":"2024-01-01 00:00:00"}}'
    assert read([twice, shanghai], table).values == [["2024-11-03 05:30:00", "2023-12-31 16:00:00"]]
    assert read([twice], table, ambiguous_timestamp="later").values == [["2024-11-03 06:30:00"]]
    rejected = read([twice, shanghai], table, ambiguous_timestamp="reject")
    assert rejected.values == [[None, "2023-12-31 16:00:00"]]
    assert "column `c`" in rejected.bad[0]
    nowhere = read([shanghai.replace(b"Asia", b"Mars"), b'{"c":"2024-01-01 00:00:00"}'], table)
    assert "time zone 'Mars/Shanghai'" in nowhere.bad[0]
    assert "Expected `object | null`, got `str` - at `$.c`" in nowhere.bad[1]


@pytest.mark.parametrize("name", ['e"f', "k\\l", "a\nb", "c0", "世界", "a b", "$.c0"])
def test_any_column_name(name: str) -> None:
    table = one_column(mysql.parse_type("blob"), name)
    good, bad = (json.dumps({name: value}).encode() for value in ("AP8=", "?"))
    columns = read([good, bad, b'{"other":"AP8="}', good], table)
    assert columns.values == [[b"\x00\xff", None, None, b"\x00\xff"]]
    assert columns.bad[1].endswith(f"Invalid base64 encoded string - at `$.{name}`")
    assert columns.bad[2].endswith("unknown field `other`")


def test_a_type_that_no_row_carries() -> None:
    with pytest.raises(MessageError, match="'unspecified'"):
        DECODER.row_reader(one_column(ColumnType(name="unspecified")), ReadOptions())
