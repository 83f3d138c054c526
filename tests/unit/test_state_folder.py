"""The state folder: what is written is read again, also what earlier versions wrote."""

from pathlib import Path

from ticdc_spark.model import Column, ColumnType, SchemaChange, Table
from ticdc_spark.replicate.state.progress import KnownSchema, LastDdl, Plan, Progress, QueuedDdl, TableState
from ticdc_spark.replicate.state.store import Store

TABLE = Table(
    schema="s", name="t", columns=(Column(name="a", type=ColumnType(name="varbinary", length=3), default="\x00é"),)
)


def test_a_progress_is_read_as_it_was_written(tmp_path: Path) -> None:
    change = SchemaChange(commit_ts=2**62, kind="Alter", schema="s", name="t", query='barrier "mode":"barrier"')
    progress = Progress(
        job="barrier",
        mode="watermark",
        tables=(TableState(schema="s", name="t", table=TABLE, was=(("s", "barrier"),)),),
        schemas=(KnownSchema(schema="s", name="t", key="1", table=TABLE),),
        ddls=(QueuedDdl(change=change, topic="x", partition=0, offset=1, waits=((0, 5),)),),
        unproven=(("x", 0),),
        committed_at=1.5,
    )
    Store(tmp_path).save(progress)
    assert Store(tmp_path).load() == progress


def test_a_folder_with_the_old_name_of_the_mode_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(Progress(job="shop", mode="watermark"))
    store.save_plan(Plan(generation=1, batch=2, end_offsets=(("x", 0, 5),), mode="watermark"))
    for name in ("progress.json", "plan.json"):
        path = tmp_path / name
        text = path.read_text()
        assert '"mode":"watermark"' in text
        path.write_text(text.replace('"mode":"watermark"', '"mode": "barrier"'))
    assert store.load() == Progress(job="shop", mode="watermark")
    assert store.load_plan() == Plan(generation=1, batch=2, end_offsets=(("x", 0, 5),), mode="watermark")


def test_keys_keep_their_names_on_disk(tmp_path: Path) -> None:
    """A folder of the first version has ``ddl_floors`` and ``ends``, and an older one must be able to read ours."""
    store = Store(tmp_path)
    store.save(Progress(job="shop", last_ddls=(LastDdl(schema="s", name="t", commit_ts=7),)))
    store.save_plan(Plan(generation=1, batch=2, end_offsets=(("x", 0, 5),)))
    assert (
        '"ddl_floors":[{"schema":"s","name":"t","commit_ts":7,"queries":[]}]'
        in (tmp_path / "progress.json").read_text()
    )
    assert '"ends":[["x",0,5]]' in (tmp_path / "plan.json").read_text()
