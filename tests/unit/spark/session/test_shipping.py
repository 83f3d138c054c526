"""The archive of Python packages that a cluster's tasks get."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.spark.session import shipping
from ticdc_spark.spark.session.shipping import bare_python, is_shipped, shipped


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_a_bare_python_runs_this_package_by_the_archives(cache: Path, tmp_path: Path) -> None:
    settings = shipped({"spark.jars.ivy": str(cache)})
    for archive in settings["spark.archives"].split(","):
        path, _, name = archive.partition("#")
        with tarfile.open(path) as packed:
            packed.extractall(tmp_path / name, filter="data")
    folders = [tmp_path / path for path in settings["spark.executorEnv.PYTHONPATH"].split(os.pathsep)]
    found = {path.name for folder in folders for path in folder.iterdir()}
    assert "pyarrow" in found
    assert not found & {"pyspark", "pytest", "pyiceberg"}, "Spark brings its own; what tasks do not need stays here"
    code = (
        f"import sys; sys.path[:0] = {[str(folder) for folder in folders]!r}\n"
        "import cramjam, confluent_kafka, fastavro, fsspec, msgspec, numpy, pandas, psycopg, pyarrow.parquet, pymysql\n"
        "import ticdc_spark.protocols.simple.decode\n"
        f"assert all(each.__file__.startswith({str(tmp_path)!r}) for each in (ticdc_spark, pyarrow, pymysql))\n"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_archive_is_made_once_until_a_file_of_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "a.py"
    changed.write_text("a")
    monkeypatch.setattr(shipping, "_own_files", lambda: iter([("a.py", changed)]))
    monkeypatch.setattr(shipping, "_files_of_requirements", lambda: iter([]))
    settings = {"spark.jars.ivy": str(tmp_path)}
    first, packages = shipped(settings)["spark.archives"].split(",")
    made = Path(first.partition("#")[0]).stat()
    assert shipped(settings)["spark.archives"] == f"{first},{packages}"
    assert Path(first.partition("#")[0]).stat() == made
    changed.write_text("b and more")
    second, same = shipped(settings)["spark.archives"].split(",")
    assert second != first and same == packages


def test_a_pythonpath_of_the_user_stays(cache: Path) -> None:
    settings = {"spark.jars.ivy": str(cache), "spark.executorEnv.PYTHONPATH": "/more"}
    assert shipped(settings)["spark.executorEnv.PYTHONPATH"].endswith(":/more")


def test_an_environment_that_is_named_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert is_shipped({})
    assert not is_shipped({"spark.pyspark.python": "/opt/python"})
    assert not is_shipped({"spark.archives": "s3://b/e.tar.gz"})
    monkeypatch.setenv("PYSPARK_PYTHON", bare_python())
    assert is_shipped({}), "a second start in one process"
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert not is_shipped({})


@pytest.mark.parametrize(
    ("line", "extra", "wanted"),
    [
        ("msgspec>=0.19", "", [("msgspec", "")]),
        ("Confluent_Kafka[avro]>=2", "", [("confluent-kafka", ""), ("confluent-kafka", "avro")]),
        ('pymysql[rsa]>=1.1; extra == "mysql"', "mysql", [("pymysql", ""), ("pymysql", "rsa")]),
        ('pymysql[rsa]>=1.1; extra == "mysql"', "", []),
        ("pytest>=7; (python_version >= \"3.9\") and extra == 'test'", "", []),
        ("click>=8", "kafka", []),
    ],
)
def test_requirements(line: str, extra: str, wanted: list[tuple[str, str]]) -> None:
    assert shipping._wanted(line, extra) == wanted


def test_a_cache_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text("a file")
    with pytest.raises(EnvironmentFault, match="tasks"):
        shipped({"spark.jars.ivy": str(tmp_path)})
