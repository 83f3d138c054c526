"""Detection of a protocol where there is little to see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.errors import UsageError
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json
from ticdc_spark.protocols.open.encode import encoder as open_protocol
from ticdc_spark.protocols.simple.encode import SimpleConfig
from ticdc_spark.protocols.simple.encode import encoder as simple
from ticdc_spark.streams.detect import describe_other, detect, looks_like
from ticdc_spark.topics.storage.other_files import unreadable
from ticdc_spark.wire.compression import compress


@pytest.mark.parametrize(
    ("name", "encoder"),
    [
        ("open", open_protocol()),
        ("simple", simple()),
        ("simple", simple(SimpleConfig(encoding_format="avro"))),
        ("simple", simple(SimpleConfig(compression="snappy"))),
        ("canal-json", canal_json(CanalJsonConfig(enable_tidb_extension=True))),
        ("canal-json", canal_json(CanalJsonConfig(enable_tidb_extension=True, compression="lz4"))),
    ],
)
def test_one_watermark_is_enough(name: str, encoder: object) -> None:
    sent = encoder.watermark(1 << 50)  # type: ignore[attr-defined]
    assert detect([(None, None), (sent.key, sent.value)]) == name


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        (b"\x00\x00\x00\x00\x01\x02", None, "avro"),
        (None, b'\x01{"query":""}', "avro"),
        (None, b"\x02" + bytes(8), "avro"),
        ((1).to_bytes(8), b"", "open"),
        ((1).to_bytes(8), None, "open"),
        (b"{}", b'{"before":null,"after":{},"source":{},"op":"c"}', "debezium"),
        (b"{}", b'{"source":{},"databaseName":"d","ddl":"DROP TABLE t","tableChanges":[]}', "debezium"),
        (b"{}", b'{"payload":{"after":{"a":"\xff"}}}', "debezium"),
        (None, compress(b'{"version":1,"type":"WATERMARK"}', "snappy"), "simple"),
    ],
)
def test_what_each_protocol_is_known_by(key: bytes | None, value: bytes | None, name: str) -> None:
    assert detect([(key, value)]) == name


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "no messages"),
        ([(None, None)], "none of 1 messages"),
        ([(b'{"id":1}', None)], "none of 1 messages"),
        ([(None, b"<xml/>")], "begins with b'<xml/>'"),
        ([(None, b"[1]"), (b"k", b"v")], "none of 2"),
        ([(None, b'{"isDdl":true}'), (None, b"\x16\x02")], r"canal-json \(message 0\), simple \(message 1\)"),
    ],
)
def test_what_is_not_decidable_has_a_reason_and_what_to_do(
    messages: list[tuple[bytes | None, bytes | None]], words: str
) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        detect(messages)
    assert "name it here" in str(raised.value)


MAXWELL = b'{"database":"shop","table":"t","type":"insert","ts":1477053217,"xid":1,"commit":true,"data":{"id":1}}'
MAXWELL_DDL = b'{"type":"table-create","database":"shop","table":"t","def":{},"ts":1477053217000,"sql":"CREATE"}'
GOLDENGATE = b'{"table":"S.T","op_type":"I","op_ts":"2020-01-01 00:00:00.000000","current_ts":"","pos":"1","after":{}}'
DMS = b'{"data":{"id":1},"metadata":{"timestamp":"2020-01-01T00:00:00Z","record-type":"data","operation":"insert"}}'
DMS_CONTROL = b'{"metadata":{"timestamp":"2020-01-01T00:00:00Z","record-type":"control","operation":"create-table"}}'
DTS_AVRO = b"\x02\x8c\x02\x00\x04\x28readerThroughoutTime\x141605765984\x14pk_uk_info"
SHAREPLEX = b'{"meta":{"time":"2020-01-01T00:00:00Z","op":"ins","scn":"1","table":"s.t"},"data":{"id":"1"}}'
UNWRAPPED = b'{"id":1,"__op":"c","__deleted":"false"}'
OTHERS = [
    (MAXWELL, "Maxwell"),
    (MAXWELL_DDL, "Maxwell"),
    (GOLDENGATE, "OGG"),
    (DMS, "AWS DMS"),
    (DMS_CONTROL, "AWS DMS"),
    (DTS_AVRO, "DTS"),
    (SHAREPLEX, "DTS"),
    (UNWRAPPED, "flattened"),
]


def test_a_record_of_csv_that_cannot_be_read_looks_like_nothing_else() -> None:
    value = unreadable("the file ends without an end", b"I,t,shop,1")
    assert looks_like(b"shop/t/1/CDC000001.csv:1", value, "canal-json") is None
    assert describe_other([(b"shop/t/1/CDC000001.csv:1", value)] * 20, "canal-json") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'{"ts":1,"scm":"a","tbl":"b","t":1}', b'{"u":{"id":{"t":3,"f":11,"v":1}}}'),
        (b'{"ts":1,"t":3}', None),
        (None, b'{\n  "ts": 1, "scm": "a", "tbl": "b", "t": 2\n}'),
    ],
)
def test_a_key_that_was_copied_without_its_frame_is_named(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(UsageError, match="look like open without its binary frame"):
        detect([(key, value)])


@pytest.mark.parametrize(("value", "name"), [*OTHERS, (b'{"id":1}', "plain JSON")])
def test_messages_of_other_programs_are_refused_by_name(value: bytes, name: str) -> None:
    with pytest.raises(UsageError, match="look like") as raised:
        detect([(None, value)])
    assert name in str(raised.value) and "allowed: messages of" in str(raised.value)


@pytest.mark.parametrize(("value", "name"), OTHERS)
def test_a_wrong_name_of_the_protocol_is_answered_with_the_program(value: bytes, name: str) -> None:
    for expected in ("simple", "canal-json", "open", "debezium", "avro"):
        described = describe_other([(None, value)], expected)
        assert described is not None and name in described


def test_plain_json_is_described_where_there_is_nothing_else() -> None:
    plain: tuple[bytes | None, bytes | None] = (None, b'{"id":1}')
    assert describe_other([plain], "simple") is None, "one may be a bad message"
    described = describe_other([plain] * 16, "simple")
    assert described is not None and "plain JSON" in described


SIMPLE = (None, b'{"version":1,"type":"INSERT"}')
OPEN = ((1).to_bytes(8) + (2).to_bytes(8) + b"{}", None)
REGISTERED = (b"\x00\x00\x00\x00\x01\x02", None)


@pytest.mark.parametrize(
    ("messages", "expected", "message"),
    [
        ([SIMPLE, (None, None), SIMPLE], "open", "these look like simple"),
        ([SIMPLE, OPEN], "canal-json", "these look like simple and open"),
        ([(None, b"<xml/>"), SIMPLE], "debezium", "these look like simple"),
        ([REGISTERED], "simple", "these look like avro"),
        ([(b"", REGISTERED[0] + b".Final\x0aTiCDC")], "avro", "these look like debezium-avro"),
        ([SIMPLE, OPEN], "open", None),  # one that is right: the other is a bad message
        ([REGISTERED], "debezium-avro", None),  # a delete
        ([(None, b"<xml/>"), (None, None), (b"k", b"")], "open", None),
        ([], "open", None),
    ],
)
def test_messages_of_another_protocol_are_described(
    messages: list[tuple[bytes | None, bytes | None]], expected: str, message: str | None
) -> None:
    assert describe_other(messages, expected) == message


@given(st.lists(st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40)), max_size=4))
def test_any_bytes_are_described_or_not(messages: list[tuple[bytes | None, bytes | None]]) -> None:
    for expected in ("open", "avro", "debezium-avro"):
        message = describe_other(messages, expected)
        assert message is None or (message.startswith("these look like ") and expected not in message.split()[3:])


@given(st.lists(st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40)), max_size=4))
def test_any_bytes_give_a_name_or_a_usage_error(messages: list[tuple[bytes | None, bytes | None]]) -> None:
    try:
        name = detect(messages)
    except UsageError:
        return
    assert name in {"open", "avro", "debezium-avro", "simple", "debezium", "canal-json"}
