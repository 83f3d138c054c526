"""Which tables are read in full, and when."""

from __future__ import annotations

from ticdc_spark.model import SchemaChange
from ticdc_spark.replicate.snapshot.wanted import waits_for_quarantined
from ticdc_spark.replicate.state.conditions import Quarantined
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState


def waiting(*queries: str) -> Progress:
    """DDLs of commit_ts 5, 6, … wait, and table ``q`` is quarantined."""
    changes = [
        SchemaChange(commit_ts=5 + at, query=query, kind="", schema="s", name="t") for at, query in enumerate(queries)
    ]
    ddls = tuple(QueuedDdl(change=change, topic="cdc", partition=0, offset=0) for change in changes)
    bad = TableState(schema="s", name="q", condition=Quarantined(why="a row cannot be read"))
    return Progress(job="j", ddls=ddls, tables=(bad, TableState(schema="s", name="t")))


def test_a_read_waits_for_an_older_rename_of_a_quarantined_table_to_its_name() -> None:
    """The DDLs behind that RENAME would be taken for those of the table that is read."""
    progress = waiting("RENAME TABLE q TO t", "DROP TABLE t", "RENAME TABLE t TO u")
    assert waits_for_quarantined(progress, ("s", "t"), base=5)
    assert not waits_for_quarantined(progress, ("s", "t"), base=4)
    assert waits_for_quarantined(progress, ("s", "u"), base=7)
    assert not waits_for_quarantined(progress, ("s", "u"), base=6)
    assert not waits_for_quarantined(progress, ("s", "other"), base=9)


def test_a_read_of_the_quarantined_table_itself_does_not_wait() -> None:
    assert not waits_for_quarantined(waiting("RENAME TABLE t TO q"), ("s", "q"), base=9)


def test_a_read_does_not_wait_for_ddl_of_tables_that_advance() -> None:
    progress = waiting("ALTER TABLE t ADD COLUMN c INT", "RENAME TABLE a TO t")
    assert not waits_for_quarantined(progress, ("s", "t"), base=9)
