"""A file that the operating system refuses is a fault of the environment, with its path and without a traceback.

A limit on the size of files is met where a full disk is: at the write itself.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException

from tests.support.simple_examples import USER
from ticdc_spark.capture.base import CaptureState
from ticdc_spark.capture.binlog import group
from ticdc_spark.capture.binlog.position import Place
from ticdc_spark.capture.binlog.wire.events import Gtid
from ticdc_spark.changefeed.progress import StateFolder
from ticdc_spark.changes.columns import FIRST, OP
from ticdc_spark.cli import main
from ticdc_spark.config.job import IcebergConfig
from ticdc_spark.errors import EnvironmentFault, SinkFault
from ticdc_spark.mysql import handle_key
from ticdc_spark.replicate.loop import os_faults
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.data_files import DataFiles, write_rows
from ticdc_spark.sinks.iceberg.files.partitions import PartitionSpec
from ticdc_spark.sinks.state import StateRow, StateStore
from ticdc_spark.sinks.states import open_state
from ticdc_spark.spark.storage import LOCAL
from ticdc_spark.spark.types import LakeOptions, arrow_type, lake_columns


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def net_rows(count: int) -> pa.RecordBatch:
    columns = lake_columns(USER, handle_key(USER), LakeOptions())
    held = {column.name: pa.array([None] * count, arrow_type(column.type)) for column in columns}
    held |= {column.name: pa.array(range(count), arrow_type(column.type)) for column in columns if column.key}
    meta = {OP: pa.array(["i"] * count), FIRST: pa.array(["i"] * count)}
    return pa.RecordBatch.from_pydict({**meta, **held})


def test_a_table_s_task_names_the_file(tmp_path: Path) -> None:
    columns = lake_columns(USER, handle_key(USER), LakeOptions())
    ids = {column.name: at for at, column in enumerate(columns, 1)}
    folder = str(tmp_path / "data")
    files = DataFiles(
        storage=LOCAL,
        folder=folder,
        location=folder,
        codec="none",
        field_ids=ids,
        element_ids={},
        attempt="one",
        spec_id=0,
        specs={0: PartitionSpec()},
        is_partitioned=False,
    )
    rows = net_rows(10_000)
    write = write_rows(columns, files, may_append=False)
    with files_up_to(1000), pytest.raises(SinkFault, match=rf"{folder}/.*\.parquet: .*[Ff]ile too large"):
        list(write([rows]))
    assert list(write([rows]))


def test_the_state_names_its_file(tmp_path: Path) -> None:
    def states() -> StateStore:
        return open_state(IcebergConfig(warehouse=str(tmp_path)), "shop", {})

    version = states().commit({"a": []}, None, 0)
    large = [StateRow(kind="table", value="".join(f"{number:x}" for number in range(100_000)))]
    full = rf"{tmp_path}/_ticdc_spark/state_shop/data/.*: File too large|File too large: {tmp_path}/_ticdc_spark/"
    with files_up_to(100_000), pytest.raises(SinkFault, match=full):
        states().commit({"a": large}, version, 0)
    assert states().version() == version
    assert states().commit({"a": large}, version, 0) == states().version()


def test_rows_of_a_large_transaction_name_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(group, "SPILL_BYTES", 0)
    made = group.Group(
        start=Place("binlog.000001", 4), gtid=Gtid("0-1-1", standalone=False, timestamp_us=0), where="", size=1
    )
    rows = group.Rows(None, "insert", bytes(20_000), "binlog.000001:4")  # type: ignore[arg-type]
    wanted = rf"temporary folder {tmp_path}: File too large.*TMPDIR"
    with files_up_to(10), pytest.raises(EnvironmentFault, match=wanted):
        made.add(rows)


def test_a_changefeed_s_state_folder_is_named(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, changefeed="shop", target="t", protocol="simple", source="s")
    with files_up_to(10), pytest.raises(EnvironmentFault, match=rf"state folder {tmp_path}: File too large"), folder:
        pass
    with folder, files_up_to(10), pytest.raises(EnvironmentFault, match=rf"state folder {tmp_path}: File too large"):
        folder.save(CaptureState(position="p", commit_ts=1, tables=()), {}, 0)


def test_a_fault_that_a_worker_met_is_one_line() -> None:
    message = "ticdc_spark.errors.SinkFault: /lake/t/data/1.parquet: No space left on device"
    text = "\n".join(
        ["Job aborted: Traceback (most recent call last):", *['  File "x.py", line 28, in run'] * 90, message]
    )
    with pytest.raises(SinkFault) as raised, faults("rows of t cannot be written"):
        raise PySparkException(text + "\n\n\tat org.apache.spark.Foo")
    assert str(raised.value) == "rows of t cannot be written: /lake/t/data/1.parquet: No space left on device"


def test_what_the_driver_meets_in_a_sink_is_a_fault_of_it(tmp_path: Path) -> None:
    message = f"t cannot be listed: No such file or directory: {tmp_path}/gone"
    with pytest.raises(SinkFault, match=message), faults("t cannot be listed"):
        list((tmp_path / "gone").iterdir())


def test_nothing_else_of_the_environment_looks_like_a_fault_of_this_package(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match=f"Not a directory: {tmp_path}/file/below") as raised, os_faults():
        (tmp_path / "file" / "below").mkdir()
    assert raised.value.exit_code == 1


def test_the_command_line_has_no_traceback_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    done = CliRunner().invoke(main, ["demo", "--folder", str(tmp_path / "file" / "below")])
    text = done.output + capsys.readouterr().err
    assert (done.exit_code, "Traceback" in text) == (1, False), text
    assert f"{tmp_path}/file/below" in text
