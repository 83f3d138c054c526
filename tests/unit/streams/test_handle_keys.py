"""Rows of which only the keys were sent, completed by a lookup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.simple_examples import ROW, USER, change
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.errors import EnvironmentFault, MessageError, SourceFault, UsageError
from ticdc_spark.model import Envelope, Rejected, Row, RowChange, Table
from ticdc_spark.protocols.base import Columns, ReadOptions
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.streams.handle_keys import complete, complete_columns

KEY = {"id": "1"}
OTHER = {**ROW, "id": "2"}


@dataclass
class History:
    """Rows by commit ts and id, and what was looked up."""

    rows: dict[tuple[int, str], Row]
    asked: list[tuple[int, list[Row]]] = field(default_factory=list)

    def lookup(self, table: Table, keys: Sequence[Row], commit_ts: int) -> list[Row | None]:
        assert table is USER
        self.asked.append((commit_ts, [*keys]))
        return [self.rows.get((commit_ts, str(key["id"]))) for key in keys]


def partial(op: Any, ts: int, before: Any = None, after: Any = None) -> RowChange:
    return replace(change(op, ts, before, after), partial=True, claim_check="elsewhere")


def test_new_rows_are_looked_up_together_as_of_their_commit() -> None:
    history = History({(9, "1"): ROW, (9, "2"): OTHER, (10, "1"): {**ROW, "age": "26"}})
    whole = change("insert", 9, None, ROW)
    changes = [
        partial("insert", 9, None, KEY),
        whole,
        partial("update", 10, KEY, KEY),
        partial("insert", 9, None, {"id": "2"}),
    ]
    done = complete(changes, history.lookup)
    assert done == [
        change("insert", 9, None, ROW),
        whole,
        change("update", 10, KEY, {**ROW, "age": "26"}),
        change("insert", 9, None, OTHER),
    ]
    assert history.asked == [(9, [KEY, {"id": "2"}]), (10, [KEY])]


def test_a_delete_needs_its_key_only() -> None:
    history = History({})
    (done,) = complete([partial("delete", 9, KEY)], history.lookup)
    assert done == replace(change("delete", 9, KEY), partial=True) and history.asked == []
    keys_only = replace(USER, columns=USER.columns[:1])
    (all_there,) = complete([replace(partial("delete", 9, KEY), table=keys_only)], history.lookup)
    assert isinstance(all_there, RowChange) and not all_there.partial


def test_a_row_that_cannot_be_had_is_rejected() -> None:
    history = History({(9, "2"): OTHER})
    lost, found = complete([partial("insert", 9, None, KEY), partial("insert", 9, None, {"id": "2"})], history.lookup)
    assert lost == Rejected("the upstream has no row id='1' in `simple`.`user` as of 9")
    assert isinstance(found, RowChange)
    (keyless,) = complete([replace(partial("insert", 9, None, KEY), table=replace(USER, indexes=()))], history.lookup)
    assert keyless == Rejected("`simple`.`user` has no handle key to look its row up by")
    (short,) = complete([partial("update", 9, None, {"age": "1"})], history.lookup)
    assert short == Rejected("a partial row of `simple`.`user` lacks columns of its key, id")


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_rows_in_columns_become_whole_in_place(encoding: Any) -> None:
    history = History({(9, "1"): ROW, (10, "2"): {**OTHER, "age": None}})
    to = encoder(SimpleConfig(encoding_format=encoding))
    keys = [partial("insert", 9, None, {"id": number}) for number in ("1", "2", "3")]
    sent = [*to.rows([keys[0], change("insert", 9, None, OTHER), *keys[1:]])]
    images: list[bytes | None] = []
    for one in sent:
        (event,) = DECODER.open_message(None, one.value)
        assert isinstance(event, Envelope)
        images.append(event.after)
    columns = DECODER.row_reader(USER, ReadOptions())([*images, b"{", None])
    assert columns.bad.keys() == {4} and [*columns.absent["name"]] == [0, 2, 3]
    bad = complete_columns(USER, columns, {0: 9, 2: 10, 3: 9, 4: 9, 5: 9}, history.lookup)
    assert bad == {
        3: "the upstream has no row id='3' in `simple`.`user` as of 9",
        5: "key of `simple`.`user` is null or missing",
    }
    rows = [dict(zip(ROW, cells, strict=True)) for cells in zip(*columns.values, strict=True)]
    assert rows[:3] == [ROW, OTHER, {**OTHER, "age": None}]
    assert [*columns.absent["name"]] == [3]
    nothing: list[Any] = [None]
    shared = Columns(values=[["1"], nothing, nothing, nothing], bad={}, absent={"name": range(1)})
    assert complete_columns(USER, shared, {0: 9}, history.lookup) == {}
    assert shared.values == [["1"], [ROW["name"]], [ROW["age"]], [ROW["score"]]]
    keyless = replace(USER, indexes=())
    assert "has no handle key" in complete_columns(keyless, columns, {0: 9}, history.lookup)[0]


def test_a_lookup_that_finds_rows_wrong_rejects_them_and_one_that_fails_stops() -> None:
    def gone(*_: object) -> list[Row | None]:
        raise MessageError("garbage-collected")

    def broken(*_: object) -> list[Row | None]:
        raise SourceFault("not reached")

    assert complete([partial("insert", 9, None, KEY)], gone) == [Rejected("garbage-collected")]
    with pytest.raises(EnvironmentFault):
        complete([partial("insert", 9, None, KEY)], broken)


@pytest.mark.parametrize(
    "uri",
    ["", "db:4000", "postgres://h", "mysql://", "mysql://h/shop", "mysql://h?ssl=1", "mysql://h:port", "mysql://["],
)
def test_an_upstream_that_is_none(uri: str) -> None:
    with pytest.raises(UsageError, match="is written mysql://"):
        Upstream(uri)


def test_a_password_that_is_not_encoded_is_not_shown() -> None:
    with pytest.raises(UsageError) as found:
        Upstream("mysql://root:se/cret@h:1")
    assert "cret" not in str(found.value) and "'se'" not in str(found.value) and found.value.__cause__ is None
