"""A row of Simple that is put together from pieces is the message that is written whole."""

from __future__ import annotations

import gc
import pickle

import pytest

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Index, Op, Row, RowChange, Table
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

PIECES = SimpleConfig(build_ts=lambda: 17)
WHOLE = SimpleConfig(build_ts=lambda: 17, enable_row_checksum=True)
"""With this, and changes without a checksum, the same messages are written another way."""
NAMES = ('0,"buildTs":0', "<a>&b\u2028", 'q"\\', "", "é中😀")
ROWS: tuple[Row, ...] = (
    {"z": "1", "a": "x", 'n<"': b"\x00\xff"},
    {"a": None, 'n<"': None, "z": "-5"},
    {"z": "7"},
    {"z": "8", "a": "<&>\u2029\\", 'n<"': b""},
)


def table(name: str, version: int | None = None, table_id: int | None = None) -> Table:
    columns = (
        Column(name="z", type=ColumnType(name="int")),
        Column(name="a", type=ColumnType(name="varchar", length=9, charset="utf8mb4")),
        Column(name='n<"', type=ColumnType(name="varbinary", length=9, charset="binary")),
    )
    key = Index(name="primary", unique=True, primary=True, nullable=False, columns=("z",))
    return Table(schema=name, name=name, columns=columns, indexes=(key,), version=version, table_id=table_id)


def images(op: Op, row: Row, other: Row) -> dict[str, Row | None]:
    return {"before": None if op == "insert" else other, "after": None if op == "delete" else row}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("numbers", [(None, None, None), (3, 5, None), (2**62, 2**62, 9), (0, 0, 0)])
def test_pieces_make_the_same_bytes(name: str, numbers: tuple[int | None, int | None, int | None]) -> None:
    version, table_id, of_row = numbers
    made = table(name, version, table_id)
    changes = [
        RowChange(
            op=op,
            table=made,
            commit_ts=at * 2**40,
            table_id=of_row,
            partial=partial,
            claim_check=claim,
            **images(op, row, ROWS[at - 1]),
        )
        for op in ("insert", "update", "delete")
        for at, row in enumerate(ROWS)
        for partial, claim in ((False, None), (True, None), (False, "there"))
    ]
    assert [*encoder(PIECES).rows(changes)] == [*encoder(WHOLE).rows(changes)]


def test_what_cannot_be_written_is_refused_as_before() -> None:
    made = table("t")
    for change, what in (
        (RowChange(op="upsert", table=made, commit_ts=1, after=ROWS[0]), "no message for 'upsert'"),
        (RowChange(op="update", table=made, commit_ts=1, after=ROWS[0]), "without its before image"),
        (RowChange(op="insert", table=made, commit_ts=1, after={"z": "1", "b": "2", "a": "3"}), "no column"),
    ):
        with pytest.raises(MessageError, match=what):
            list(encoder(PIECES).rows([change]))


def test_what_is_kept_of_a_table_is_never_anothers() -> None:
    """Tables come and go, so that ids of objects come again; and an encoder that has written can go to a task."""
    kept = encoder(SimpleConfig())
    for at in range(3000):
        made = table(f"t{at}")
        (sent,) = kept.rows([RowChange(op="insert", table=made, commit_ts=1, after=ROWS[0])])
        assert sent.value is not None and f'"table":"t{at}"'.encode() in sent.value
        del made, sent
        if at % 1000 == 0:
            gc.collect()
    travelled = pickle.loads(pickle.dumps(kept))
    assert len([*travelled.rows([RowChange(op="delete", table=table("t"), commit_ts=1, before=ROWS[0])])]) == 1
