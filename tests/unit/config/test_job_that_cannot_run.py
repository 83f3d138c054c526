"""Job files with which no job runs: no catalog, a master that Spark does not know, too little memory."""

from pathlib import Path

import pytest

from tests.unit.config.test_job_file import KAFKA, SINK, load, refused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recorded").mkdir()
    return tmp_path


@pytest.mark.parametrize("more", [{}, {'"catalog.s3.endpoint"': '"http://minio:9000"'}])
def test_a_warehouse_in_a_store_needs_a_catalog(folder: Path, more: dict[str, str]) -> None:
    text = refused(folder, sink=SINK | {"warehouse": '"s3://lake/house"'} | more)
    assert "[sink] warehouse: found 's3://lake/house'" in text and '"catalog.type" = "rest"' in text
    for own in ({'"catalog.uri"': '"jdbc:postgresql://db/c"'}, {'"catalog.catalog-impl"': '"org.x.Catalog"'}):
        load(folder, sink=SINK | {"warehouse": '"s3://lake/house"'} | more | own)


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("spark.master", '"local[x]"', "found 'local[x]'; allowed: local[4], "),
        ("spark.master", '"local 4"', "found 'local 4'; allowed: "),
        ("spark.master", '"spark://m"', "found 'spark://m'; allowed: "),
        ("spark.executor.memory", "2", "found '2', which Spark reads as 2 MiB; allowed: at least \"450m\""),
        ("spark.executor.memory", '"2GiB"', "found '2GiB'; allowed: "),
        ("spark.driver.memory", '"300m"', "found '300m', which Spark reads as 300 MiB; allowed: "),
        ("spark.driver.memory", '"4096b"', "allowed: at least"),
    ],
)
def test_options_that_no_spark_starts_with_are_refused(folder: Path, key: str, value: str, found: str) -> None:
    assert f"[spark] {key}: " in (text := refused(folder, spark={f'"{key}"': value})) and found in text


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*, 3]", "spark://a:7077,b:7077", "k8s://https://m:6443"]
)
def test_masters_that_spark_knows(folder: Path, master: str) -> None:
    spark = {'"spark.master"': f'"{master}"', '"spark.executor.memory"': '"2g"', '"spark.driver.memory"': '"1024"'}
    sink = SINK | {"warehouse": '"s3://lake/house"', '"catalog.type"': '"glue"'}
    assert load(folder, source=KAFKA, sink=sink, spark=spark).spark["spark.master"] == master


@pytest.mark.parametrize("snapshot", [{}, {"path": '"recorded"', "commit-ts": "5"}])
def test_full_reads_behind_partition_ddl_need_a_database(folder: Path, snapshot: dict[str, str]) -> None:
    more = {"snapshot": snapshot} if snapshot else {}
    text = refused(folder, ddl={"partition-ddl": '"rebuild"'}, **more)
    assert 'partition-ddl = "rebuild"' in text and "[snapshot] with `upstream`" in text


def test_full_reads_behind_partition_ddl_are_of_a_database(folder: Path) -> None:
    job = load(folder, ddl={"partition-ddl": '"rebuild"'}, snapshot={"upstream": '"mysql://root@db:4000"'})
    assert job.ddl.partition_ddl == "rebuild"


REST = {'"catalog.type"': '"rest"', '"catalog.uri"': '"http://catalog:8181"'}


@pytest.mark.parametrize("catalog", [REST, {'"catalog.catalog-impl"': '"org.apache.iceberg.rest.RESTCatalog"'}])
def test_a_rest_catalog_may_take_all_tables_of_a_batch_at_once(folder: Path, catalog: dict[str, str]) -> None:
    assert load(folder).sink.commit == "table"
    assert load(folder, sink=SINK | catalog | {"commit": '"batch"'}).sink.commit == "batch"


@pytest.mark.parametrize("catalog", [{}, {'"catalog.type"': '"glue"'}])
def test_another_catalog_cannot_take_several_tables(folder: Path, catalog: dict[str, str]) -> None:
    text = refused(folder, sink=SINK | catalog | {"commit": '"batch"'})
    assert '[sink] commit: found "batch", which only a REST catalog can do' in text


def test_what_spark_writes_cannot_come_with_other_tables(folder: Path) -> None:
    text = refused(folder, sink=SINK | REST | {"commit": '"batch"'}, job={"writer": '"spark"'})
    assert '[job] writer: found "spark", which commits each table by itself' in text
    assert '"table", "batch"' in refused(folder, sink=SINK | REST | {"commit": '"tables"'})
