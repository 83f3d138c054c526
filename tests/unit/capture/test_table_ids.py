"""Ids that a binlog's tables get, for states that have some already, or none."""

from __future__ import annotations

from msgspec.structs import replace

from ticdc_spark.capture.base import CapturedDdl, CaptureState, follow
from ticdc_spark.capture.table_ids import first_ids, follow_ids, version_of_rows
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import SchemaChange, Table

A, B = (parse_create(f"CREATE TABLE {name} (id INT PRIMARY KEY)", "d") for name in "ab")


def change(kind: str, before: Table | None, after: Table | None) -> SchemaChange:
    return SchemaChange(commit_ts=0, query="", kind=kind, schema="d", pre_table=before, table=after)


def test_no_version_of_a_new_changefeed_is_above_its_begin() -> None:
    one, two = first_ids([A, B], 100)
    assert (one.table_id, two.table_id) == (1, 2)
    versions = {table.version for table in (one, two)} | {version_of_rows(table) for table in (one, two)}
    assert all(version is not None and version < 100 for version in versions)
    assert version_of_rows(A) is None


def test_an_id_is_not_given_again_when_its_table_is_gone() -> None:
    state = CaptureState(position="", commit_ts=100, tables=first_ids([A], 100), last_table_id=1)
    for ts, name in ((110, "b"), (120, "c")):
        made, tables, last = follow_ids(
            [change("create table", None, replace(B, name=name))], {}, ts, state.last_table_id
        )
        assert made[0].table == tables["d", name] and made[0].commit_ts == ts
        state = follow(state, CapturedDdl(commit_ts=ts, changes=made, position=""))
        assert state.last_table_id == last
        dropped, _, last = follow_ids([change("drop table", made[0].table, None)], {}, ts + 1, last)
        state = follow(state, CapturedDdl(commit_ts=ts + 1, changes=dropped, position=""))
        assert state.last_table_id == last
    assert state.last_table_id == 3 and [table.table_id for table in state.tables] == [1]


def test_a_table_of_a_state_without_ids_gets_one_when_it_is_truncated() -> None:
    renamed, _, last = follow_ids([change("rename table", A, replace(A, name="x"))], {}, 110, 0)
    assert renamed[0].table == replace(A, name="x") and last == 0
    cleared, tables, last = follow_ids([change("truncate table", A, A)], {("d", "a"): A}, 120, 0)
    assert tables["d", "a"] == cleared[0].table == replace(A, table_id=1, version=120) and last == 1
