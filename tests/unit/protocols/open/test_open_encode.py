"""What the Open encoder writes, byte by byte, where the vectors have nothing alike."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Index, Row, RowChange, Table
from ticdc_spark.protocols.open.encode import OpenConfig, encoder
from ticdc_spark.protocols.open.frames import split_keys

T2 = parse_create("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(9))", "d")


def written(table: Table, *changes: RowChange, **config: Any) -> list[tuple[bytes, bytes]]:
    """Key and value of each event as the encoder writes them."""
    sent = encoder(OpenConfig(max_batch_size=1, **config)).rows(replace(change, table=table) for change in changes)
    return [(split_keys(message.key or b"")[0], (message.value or b"")[8:]) for message in sent]


def test_keys_hold_no_more_than_there_is() -> None:
    index = Index(name="primary", unique=True, primary=True, nullable=False, columns=("id",))
    table = replace(T2, schema="d<", name='"&', table_id=7, indexes=(index,))
    row = RowChange(op="delete", table=table, commit_ts=5, before={"id": "0", "v": None}, table_id=7)
    unnamed = replace(table, schema="", name="", indexes=())
    (plain,), (bare,) = written(table, row), written(unnamed, row)
    assert plain[0] == rb'{"ts":5,"scm":"d\u003c","tbl":"\"\u0026","t":1}'
    assert bare[0] == b'{"ts":5,"t":1}'
    large = replace(row, before={"id": str(2**64 - 2)}, table_id=8, partial=True)
    (partial,), (claimed,) = written(table, large), written(table, replace(large, claim_check="s3://<x>"))
    assert partial[0] == rb'{"ts":5,"scm":"d\u003c","tbl":"\"\u0026","rid":-2,"ptn":8,"t":1,"ohk":true}'
    assert claimed[0].endswith(rb'"rid":-2,"ptn":8,"t":1,"ccl":"s3://\u003cx\u003e"}')


def test_images_have_the_columns_of_their_rows_by_name() -> None:
    table = parse_create("CREATE TABLE d.t (v VARCHAR(9), id INT PRIMARY KEY, `%b` VARCHAR(9), t TEXT)", "d")
    whole: Row = {"v": "a\nb", "id": "1", "%b": b"<\xff", "t": b"\xff"}
    rows: list[Row] = [whole, {"t": "x", "id": None}, {"id": "1"}, {}, dict(reversed(whole.items())), {"v": "%b"}]
    changes = [RowChange(op="insert", table=table, commit_ts=5, after=row) for row in [*rows, *rows]]
    first = (
        rb'{"u":{"%b":{"t":15,"f":64,"v":"\u003c\ufffd"},"id":{"t":3,"h":true,"f":11,"v":1},'
        rb'"t":{"t":252,"f":64,"v":"/w=="},"v":{"t":15,"f":64,"v":"a\nb"}}}'
    )
    images = [
        first,
        b'{"u":{"id":{"t":3,"h":true,"f":11,"v":null},"t":{"t":252,"f":64,"v":"eA=="}}}',
        b'{"u":{"id":{"t":3,"h":true,"f":11,"v":1}}}',
        b'{"u":{}}',
        first,
        b'{"u":{"v":{"t":15,"f":64,"v":"%b"}}}',
    ]
    assert [value for _, value in written(table, *changes)] == [*images, *images]
