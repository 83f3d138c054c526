"""Many Simple messages opened together are what they are one by one, whatever they hold and however they are joined."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.simple_examples import ENCODER, USER
from ticdc_spark.changes.opening import Messages, Opened, Opener, Opening
from ticdc_spark.model import Bootstrap, Envelope, Event, RowChange, Watermark
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.simple.decode import DECODER, SimpleDecoder
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.protocols.simple.many import open_rows
from ticdc_spark.streams.claim_check import whole_messages

TEXTS = st.text(max_size=8) | st.sampled_from(['"', "\\", "}", "{", '},"old":{', "\n", "\u2028", "}\n{"])
OPS = st.sampled_from(["insert", "update", "delete"])
READ = DECODER.row_reader(USER, ReadOptions())


@st.composite
def sent(draw: st.DrawFn) -> bytes:
    """A message as it is sent: mostly a row, with or without a checksum."""
    if draw(st.integers(0, 9)) == 0:
        other = draw(st.sampled_from([ENCODER.watermark(5), ENCODER.bootstrap(USER)]))
        assert other is not None and other.value is not None
        return other.value
    row = {"id": str(draw(st.integers(0, 9))), "name": draw(TEXTS | st.none()), "age": None, "score": "1.5"}
    op = draw(OPS)
    before, after = (None if op == "insert" else row), (None if op == "delete" else row)
    change = RowChange(op=op, table=USER, commit_ts=draw(st.integers(1, 2**63 - 1)), before=before, after=after)
    (one,) = ENCODER.rows([change])
    assert one.value is not None
    return one.value


PIECES = st.sampled_from(
    [
        *(
            b'{"version":1,',
            b'"x":[{}',
            b"{}]}",
            b'{"x":"',
            b'"}',
            b"\n",
            b" ",
            b",",
            b"{",
            b"}",
            b"null",
            b"\xff",
            b"",
        ),
        *(b'"handleKeyOnly":true,', b'"claimCheckLocation":"s3://a",', b'"data":null,', b'"old":5,', b'"table":"",'),
        *(b'"type":"QUERY",', b'"version":2,', b'"commitTs":-1,', b'"schemaVersion":0,', b'"tableID":0,', b'{"a":{}}'),
        *(
            b'"data":{"name":"\xff"},',
            b'"\\ud800"',
            b'"checksum":{"version":1,"corrupted":true,"current":1,"previous":2},',
        ),
    ]
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes | None:
    """A message as it is sent, or with pieces put in, taken out or put in place of others."""
    value = draw(sent())
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        first = draw(st.sampled_from([0, 1, len(value) - 1, len(value)]) | st.integers(0, len(value)))
        end = draw(st.sampled_from([first, first, first + 1, len(value)]))
        value = value[:first] + draw(PIECES | st.binary(max_size=3)) + value[end:]
    return draw(st.sampled_from([value] * 20 + [None, b""]))


def opened(values: list[bytes | None]) -> Opened:
    count = len(values)
    return Opener(Opening(protocol="simple")).open(
        Messages(["t"] * count, [0] * count, [*range(count)], [None] * count, values)
    )


def events_of(found: Opened, count: int) -> list[Event]:
    """One event a message, in their order."""
    assert found.seqs is None
    by_message: dict[int, Event] = dict(zip(found.origin, found.rows, strict=True))
    by_message |= {at: event for at, _, event in found.others}
    assert len(by_message) == len(found.rows) + len(found.others) == count
    return [by_message[at] for at in range(count)]


@given(st.lists(damaged(), max_size=12))
@example([b'{"x":1,', b'"y":2}', b"{}{}"])
@example([b'{"x":[{}', b"{}]}", b"{},{}"])
@example([b'{"x":"{}', b'{}"}', b"{}\n{}"])
def test_messages_opened_together_are_what_they_are_one_by_one(values: list[bytes | None]) -> None:
    one_by_one = whole_messages(DECODER, [DECODER.open_message(None, value) for value in values], None)
    assert events_of(opened(values), len(values)) == [event for (event,) in one_by_one]


@given(st.lists(damaged(), min_size=1, max_size=6))
def test_images_of_messages_opened_together_are_read_as_they_are_one_by_one(values: list[bytes | None]) -> None:
    envelopes = [
        event for value in values for event in DECODER.open_message(None, value) if isinstance(event, Envelope)
    ]
    columns = opened(values).rows.columns
    for raw, plain in (
        (columns.before, [one.before for one in envelopes]),
        (columns.after, [one.after for one in envelopes]),
    ):
        assert READ(raw) == READ(plain)


@pytest.mark.parametrize("count", [1, 255, 256, 257, 700])
@pytest.mark.parametrize("odd", [None, 0, 256, 300])
def test_a_message_that_is_no_row_leaves_the_order_as_it_is(count: int, odd: int | None) -> None:
    (one,) = ENCODER.rows([RowChange(op="delete", table=USER, commit_ts=7, before={"id": "1"})])
    watermark = ENCODER.watermark(9)
    assert one.value is not None and watermark is not None
    values: list[bytes | None] = [one.value] * count
    if odd is not None and odd < count:
        values[odd] = watermark.value
    found = opened(values)
    assert events_of(found, count) == [DECODER.open_message(None, value)[0] for value in values]
    assert [event for *_, event in found.others] == ([Watermark(9)] if odd is not None and odd < count else [])
    assert [*found.origin] == [at for at in range(count) if at != odd]


def test_usual_rows_are_opened_together_and_others_are_not() -> None:
    table = USER
    row = RowChange(op="insert", table=table, commit_ts=7, after={"id": "1"})
    plain, avro = (
        [one.value for one in encoder(SimpleConfig(encoding_format=form)).rows([row])] for form in ("json", "avro")
    )
    assert len(open_rows(plain * 3)) == 3
    bootstrap = ENCODER.bootstrap(table)
    assert bootstrap is not None and isinstance(DECODER.open_message(None, bootstrap.value)[0], Bootstrap)
    assert (
        len(open_rows([bootstrap.value])) == len(open_rows(avro)) == len(open_rows([None])) == len(open_rows([])) == 0
    )


def opened_alone(values: list[bytes | None], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many messages are opened one by one."""
    alone: list[bytes | None] = []
    monkeypatch.setattr(
        SimpleDecoder, "open_message", lambda self, key, value: alone.append(value) or (Watermark(9),), raising=True
    )
    opened(values)
    return len(alone)


def test_only_the_watermark_between_many_rows_is_opened_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = ENCODER.rows([RowChange(op="delete", table=USER, commit_ts=7, before={"id": "1"})])
    watermark = ENCODER.watermark(9)
    assert watermark is not None
    values = [row.value] * 300
    assert opened_alone([*values, watermark.value, *values, watermark.value, *values], monkeypatch) == 2


def test_messages_that_are_no_rows_are_not_tried_together_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []
    many = SimpleDecoder.open_rows
    monkeypatch.setattr(
        SimpleDecoder, "open_rows", lambda self, values: tries.append(len(values)) or many(self, values), raising=True
    )
    watermark = ENCODER.watermark(9)
    assert watermark is not None
    assert opened_alone([watermark.value] * 5000, monkeypatch) == 5000
    assert len(tries) < 6
