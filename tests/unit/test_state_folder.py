"""The state folder: what is written is read again, and what another version wrote is refused."""

from pathlib import Path

import pytest

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.model import Column, ColumnType, SchemaChange, Table
from ticdc_spark.replicate.state.progress import KnownSchema, LastDdl, Progress, QueuedDdl, TableState
from ticdc_spark.replicate.state.store import Store

TABLE = Table(
    schema="s", name="t", columns=(Column(name="a", type=ColumnType(name="varbinary", length=3), default="\x00é"),)
)


def test_a_progress_is_read_as_it_was_written(tmp_path: Path) -> None:
    change = SchemaChange(commit_ts=2**62, kind="Alter", schema="s", name="t", query="ALTER TABLE t")
    progress = Progress(
        job="shop",
        mode="watermark",
        tables=(TableState(schema="s", name="t", table=TABLE, was=(("s", "u"),)),),
        schemas=(KnownSchema(schema="s", name="t", key="1", table=TABLE),),
        ddls=(QueuedDdl(change=change, topic="x", partition=0, offset=1, waits=((0, 5),)),),
        last_ddls=(LastDdl(schema="s", name="t", commit_ts=7),),
        committed_at=1.5,
    )
    Store(tmp_path).save(progress)
    assert Store(tmp_path).load() == progress


def test_a_progress_of_another_version_stops_the_job_with_its_file_and_what_to_do(tmp_path: Path) -> None:
    """A field that this version does not have is not left out: what it says would be lost."""
    store = Store(tmp_path)
    store.save(Progress(job="shop"))
    path = tmp_path / "progress.json"
    path.write_text(path.read_text().replace('"job"', '"ddl_floors":[],"job"'))
    with pytest.raises(EnvironmentFault, match=r"progress\.json cannot be read: .*`ddl_floors`.*begin a new job"):
        store.load()
