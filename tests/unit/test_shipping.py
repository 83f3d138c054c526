"""The archive of Python packages that a cluster's tasks get."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.spark.session import shipping
from ticdc_spark.spark.session.shipping import bare_python, is_shipped, shipped


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    settings = shipped({"spark.jars.ivy": str(folder)})
    path, _, name = settings["spark.archives"].partition("#")
    assert settings["spark.executorEnv.PYTHONPATH"] == f"./{name}"
    return Path(path)


def test_a_bare_python_runs_this_package_by_the_archive(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    assert not (tmp_path / "pyspark").exists(), "Spark brings its own"
    assert not (tmp_path / "pytest").exists(), "what only developers need stays here"
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import cramjam, confluent_kafka, fastavro, fsspec, msgspec, numpy, pandas, pyarrow.parquet, pymysql\n"
        "import ticdc_spark.protocols.simple.decode\n"
        f"assert ticdc_spark.__file__.startswith({str(tmp_path)!r})\n"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_archive_is_made_once_until_a_file_of_it_changes(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tmp_path / "a.py"
    changed.write_text("a")
    monkeypatch.setattr(shipping, "_own_files", lambda: iter([("a.py", changed)]))
    monkeypatch.setattr(shipping, "_files_of_requirements", lambda: iter([]))
    settings = {"spark.jars.ivy": str(tmp_path)}
    first = shipped(settings)["spark.archives"]
    made = Path(first.partition("#")[0]).stat()
    assert shipped(settings)["spark.archives"] == first
    assert Path(first.partition("#")[0]).stat() == made
    changed.write_text("b and more")
    assert shipped(settings)["spark.archives"] != first


def test_a_pythonpath_of_the_user_stays(archive: Path) -> None:
    settings = {"spark.jars.ivy": str(archive.parents[1]), "spark.executorEnv.PYTHONPATH": "/more"}
    assert shipped(settings)["spark.executorEnv.PYTHONPATH"] == "./ticdc-spark-tasks:/more"


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
