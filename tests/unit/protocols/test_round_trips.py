"""What is sent is read again: every protocol, every MySQL type, any table and row. ``strategies.WIRES`` is the list."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import EVERYTHING, TYPES, WIRES, Wire, changes_of, clean_table, tables
from ticdc_spark import mysql
from ticdc_spark.model import Change, Rejected, Row, RowChange, SchemaChange, Table
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.protocols.base import Encoded
from ticdc_spark.protocols.canal_json.types import CODECS as CANAL_JSON
from ticdc_spark.protocols.debezium.types import CODECS as DEBEZIUM
from ticdc_spark.protocols.open.frames import frame_key, frame_value, split_keys, split_values
from ticdc_spark.protocols.open.types import CODECS as OPEN
from ticdc_spark.protocols.rows import RowsDecoder
from ticdc_spark.streams.detect import detect
from ticdc_spark.wire.compression import unpack

every_wire = pytest.mark.parametrize("wire", WIRES, ids=str)
NULLS: Row = {column.name: "1" if column.name == "id" else None for column in EVERYTHING.columns}
every_json_wire = pytest.mark.parametrize("wire", [wire for wire in WIRES if "avro" not in wire.name], ids=str)


def round_trip(wire: Wire, table: Table, rows: list[Row], commit_ts: int) -> None:
    changes = changes_of(table, rows, commit_ts)
    sent, decoder = wire.send(changes)
    assert sum(one.rows for one in sent) == len(changes)
    expected = [wire.seen(change) for change in changes]
    assert [shown(wire, change) for change in wire.receive(sent, decoder, table)] == expected


def shown(wire: Wire, change: Change | Rejected) -> Change | Rejected:
    """A registry has a table of its own, of which only the names are compared."""
    if isinstance(change, RowChange) and not change.table.version:
        return RowChange(
            op=change.op,
            table=clean_table(change.table),
            commit_ts=change.commit_ts,
            before=change.before,
            after=change.after,
            partial=change.partial,
        )
    return change


@every_wire
@settings(max_examples=10)
@given(data=st.data(), commit_ts=st.integers(1 << 18, 2**63 - 1))
def test_every_type(wire: Wire, data: st.DataObject, commit_ts: int) -> None:
    round_trip(wire, EVERYTHING, data.draw(wire.rows(EVERYTHING, 3)), commit_ts)


@every_wire
@settings(max_examples=20)
@given(data=st.data(), table=tables(), commit_ts=st.integers(1 << 18, 2**63 - 1))
def test_any_table(wire: Wire, data: st.DataObject, table: Table, commit_ts: int) -> None:
    round_trip(wire, table, data.draw(wire.rows(table, 3)), commit_ts)


_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
SPACE = st.sampled_from([b"", b" ", b"\n", b"\t", b"\r\n", b"  ", b"\n    "])


def spaced(wire: Wire, one: Encoded, spaces: list[bytes]) -> Encoded:
    """A message with whitespace around each token of its JSON."""

    def widen(raw: bytes) -> bytes:
        tokens = _TOKENS.findall(unpack(raw))
        return b"".join(spaces[at % len(spaces)] + token for at, token in enumerate(tokens)) + spaces[-1]

    assert one.value is not None
    if wire.name.startswith("open"):
        assert one.key is not None
        keys, values = split_keys(one.key), split_values(one.value)
        return Encoded(frame_key(map(widen, keys)), frame_value(map(widen, values)))
    return Encoded(None if one.key is None else widen(one.key), widen(one.value))


@every_json_wire
@settings(max_examples=5)
@given(data=st.data(), spaces=st.lists(SPACE, min_size=1, max_size=5))
def test_whitespace_between_tokens_changes_nothing(wire: Wire, data: st.DataObject, spaces: list[bytes]) -> None:
    sent, decoder = wire.send(changes_of(EVERYTHING, data.draw(wire.rows(EVERYTHING, 3)), 9 << 18))
    wide = [spaced(wire, one, spaces) for one in sent]
    assert wire.receive(wide, decoder, EVERYTHING) == wire.receive(sent, decoder, EVERYTHING)
    for one in wide:
        assert detect([(one.key, one.value)]) == decoder.name


@every_json_wire
@pytest.mark.parametrize("spaces", [[b"\n  "], [b" "], [b"", b" ", b""], [b"", b"\n", b""]], ids=repr)
def test_whitespace_changes_nothing_in_other_messages(wire: Wire, spaces: list[bytes]) -> None:
    to, reads = wire.to()
    change = SchemaChange(
        commit_ts=9 << 18, query="DROP TABLE `t`", kind="DROP", schema="s", name="t", table=EVERYTHING
    )
    sent = [one for one in (to.ddl(change), to.watermark(9 << 18), to.bootstrap(EVERYTHING)) if one is not None]
    assert sent
    for one in sent:
        if not one.value:
            continue  # a resolved event of Open
        wide = spaced(wire, one, spaces)
        expected = reads().open_message(one.key, one.value)
        assert list(reads().open_message(wide.key, wide.value)) == list(expected)
        assert detect([(wide.key, wide.value)]) == reads().name


def test_whitespace_changes_nothing_where_many_are_opened_at_once() -> None:
    for wire in WIRES:
        sent, decoder = wire.send(changes_of(EVERYTHING, [NULLS] * 3, 9 << 18))
        if isinstance(decoder, RowsDecoder) and "avro" not in wire.name:
            wide = [spaced(wire, one, [b"", b"\n  ", b" ", b""]) for one in sent]
            assert len(decoder.open_rows([one.value for one in wide]).kind_of) == len(sent)


def test_every_type_is_tried() -> None:
    assert {mysql.parse_type(name).name for name in TYPES} == (OPEN.keys() | CANAL_JSON.keys() | DEBEZIUM.keys()) - {
        "var_string"
    }


def test_every_protocol_is_tried() -> None:
    assert {wire.to()[1]().name for wire in WIRES} == set(PROTOCOLS)
