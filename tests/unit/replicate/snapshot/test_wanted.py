"""Which tables are read in full, and when."""

from __future__ import annotations

from ticdc_spark.model import SchemaChange
from ticdc_spark.replicate.snapshot.wanted import waits_for_another
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl


def waiting(*queries: str) -> Progress:
    changes = [SchemaChange(commit_ts=5, query=query, kind="", schema="s", name="t") for query in queries]
    ddls = (QueuedDdl(change=change, topic="cdc", partition=0, offset=at) for at, change in enumerate(changes))
    return Progress(job="j", ddls=tuple(ddls))


def test_a_read_waits_for_an_older_rename_to_its_name() -> None:
    """The DDLs behind that RENAME would be taken for those of the table that is read."""
    progress = waiting("RENAME TABLE quarantined TO t", "DROP TABLE t")
    assert waits_for_another(progress, ("s", "t"), base=5)
    assert waits_for_another(progress, ("s", "quarantined"), base=9)
    assert not waits_for_another(progress, ("s", "t"), base=4)
    assert not waits_for_another(progress, ("s", "other"), base=9)


def test_a_read_does_not_wait_for_ddl_of_its_own() -> None:
    assert not waits_for_another(waiting("ALTER TABLE t ADD COLUMN c INT", "DROP TABLE t"), ("s", "t"), base=9)
