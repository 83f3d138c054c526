"""A job file of a cluster: places on a disk that its tasks would not find."""

from pathlib import Path

import pytest

from tests.unit.config.test_job_file import FILES, KAFKA, SINK, load, refused

CATALOG = {'"catalog.type"': '"rest"', '"catalog.uri"': '"http://catalog:8181"'}
CLUSTER = {'"spark.master"': '"spark://m:7077"'}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recorded").mkdir()
    return tmp_path


def test_a_job_on_a_cluster_names_no_place_on_this_disk(folder: Path) -> None:
    (folder / "dump").mkdir()
    text = refused(
        folder, snapshot={"path": '"dump"'}, source={**FILES, "claim-check-storage": '"recorded"'}, spark=CLUSTER
    )
    for where in ("[sink] warehouse", "[source] path", "[source] claim-check-storage", "[snapshot] path"):
        assert f"{where}: found '" in text
    assert f"'{folder / 'lake'}', which is on this machine's disk, and tasks of 'spark://m:7077' run elsewhere" in text


@pytest.mark.parametrize("warehouse", ["lake", "/lake", "file:lake", "file:///lake"])
@pytest.mark.parametrize("master", ["spark://m:7077", "k8s://https://m:6443", "yarn"])
def test_a_warehouse_on_a_disk_is_for_a_local_spark(folder: Path, warehouse: str, master: str) -> None:
    sink, spark = {**SINK, "warehouse": f'"{warehouse}"'}, {'"spark.master"': f'"{master}"'}
    assert "[sink] warehouse: found" in refused(folder, source=KAFKA, sink=sink, spark=spark)
    load(folder, source=KAFKA, sink=sink, spark={'"spark.master"': '"local[4]"'})
    load(folder, source=KAFKA, sink={**SINK, "warehouse": '"s3://lake/house"', **CATALOG}, spark=spark)
