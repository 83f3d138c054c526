"""Which tables are read in full, and when."""

from __future__ import annotations

import msgspec

from ticdc_spark.model import SchemaChange
from ticdc_spark.replicate.plan.ddl_actions import Drop, action
from ticdc_spark.replicate.snapshot.wanted import joined, with_joined
from ticdc_spark.replicate.state.conditions import Quarantined
from ticdc_spark.replicate.state.progress import PendingRows, Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState

Q, T = ("s", "q"), ("s", "t")


def waiting(*queries: str) -> Progress:
    """DDLs of commit_ts 5, 6, … wait, and table ``q`` is quarantined."""
    changes = [
        SchemaChange(commit_ts=5 + at, query=query, kind="", schema="s", name="t") for at, query in enumerate(queries)
    ]
    ddls = tuple(QueuedDdl(change=change, topic="cdc", partition=0, offset=0) for change in changes)
    bad = TableState(schema="s", name="q", condition=Quarantined(why="a row cannot be read"), applied=4)
    return Progress(job="j", ddls=ddls, tables=(bad, TableState(schema="s", name="t")))


def test_waiting_renames_up_to_the_base_join_tables() -> None:
    """The DDLs behind a RENAME would be taken for those of the table that is read."""
    progress = waiting("RENAME TABLE q TO t", "DROP TABLE t", "RENAME TABLE t TO u")
    assert joined(progress, T, 5) == {T, Q}
    assert joined(progress, T, 4) == {T}
    assert joined(progress, ("s", "u"), 7) == {T, Q, ("s", "u")}
    assert joined(progress, Q, 7) == {T, Q, ("s", "u")}
    assert joined(progress, ("s", "u"), 6) == {("s", "u")}
    assert joined(progress, ("s", "other"), 9) == {("s", "other")}


def test_a_chain_of_renames_joins_all_its_tables() -> None:
    progress = waiting("RENAME TABLE c TO d", "RENAME TABLE q TO c", "RENAME TABLE d TO e")
    assert joined(progress, Q, 9) == {("s", name) for name in "qcde"}


def rows(name: str, *, min_ts: int, max_ts: int) -> PendingRows:
    return PendingRows(
        schema="s",
        name=name,
        schema_key="",
        rows=1,
        min_ts=min_ts,
        max_ts=max_ts,
        topic="cdc",
        partition=0,
        first=min_ts,
        end=max_ts + 1,
    )


def test_a_table_that_the_source_renamed_is_dropped_with_its_waiting_rows() -> None:
    progress = waiting("ALTER TABLE q ADD COLUMN c INT", "RENAME TABLE q TO t", "CREATE TABLE q (id INT PRIMARY KEY)")
    old, new, other = rows("q", min_ts=4, max_ts=5), rows("q", min_ts=8, max_ts=9), rows("t", min_ts=4, max_ts=5)
    progress = msgspec.structs.replace(progress, pending=(old, new, other))

    after = with_joined(progress, 6, {T: "read", Q: "gone"})

    assert after.pending == (new, other)
    assert [ddl.change.commit_ts for ddl in after.ddls] == [7, 6]
    assert action(after.ddls[-1].change) == Drop((Q,))
    state = after.states()[Q]
    assert not state.is_quarantined
    assert state.diverged_why == "a row cannot be read"


def test_a_table_without_a_waiting_ddl_is_not_dropped() -> None:
    progress = waiting("RENAME TABLE q TO t")
    assert with_joined(progress, 4, {Q: "gone"}) == progress
    assert with_joined(progress, 9, {("s", "new"): "gone"}) == progress


def test_a_rename_to_a_table_that_is_not_read_is_still_needed() -> None:
    progress = waiting("ALTER TABLE q ADD COLUMN c INT", "RENAME TABLE q TO t")
    assert with_joined(progress, 9, {Q: "gone"}) == progress


def test_a_chain_of_renames_away_from_the_source_drops_its_first_table() -> None:
    progress = waiting("RENAME TABLE q TO a", "RENAME TABLE a TO t", "DROP TABLE t")
    after = with_joined(progress, 7, dict.fromkeys([("s", "a"), T, Q], "gone"))
    assert {action(ddl.change) for ddl in after.ddls} == {Drop((Q,)), Drop((("s", "a"),)), Drop((T,))}
