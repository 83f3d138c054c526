"""What is sent is read again: every protocol, every MySQL type, any table and row. ``strategies.WIRES`` is the list."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import EVERYTHING, TYPES, WIRES, Wire, changes_of, clean_table, tables
from ticdc_spark import mysql
from ticdc_spark.model import Change, Rejected, Row, RowChange, Table
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.protocols.canal_json.types import CODECS as CANAL_JSON
from ticdc_spark.protocols.debezium.types import CODECS as DEBEZIUM
from ticdc_spark.protocols.open.types import CODECS as OPEN

every_wire = pytest.mark.parametrize("wire", WIRES, ids=str)


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


def test_every_type_is_tried() -> None:
    assert {mysql.parse_type(name).name for name in TYPES} == (OPEN.keys() | CANAL_JSON.keys() | DEBEZIUM.keys()) - {
        "var_string"
    }


def test_every_protocol_is_tried() -> None:
    assert {wire.to()[1]().name for wire in WIRES} == set(PROTOCOLS)
