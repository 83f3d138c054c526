"""How Spark is opened: what is fetched, what a failed start reports, and that its JVM ends with the driver."""

import gc
import os
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.spark_session import QUICK
from ticdc_spark.errors import UsageError
from ticdc_spark.replicate.state.processes import process
from ticdc_spark.spark.session import jars, session
from ticdc_spark.spark.session.session import coordinates, cores, open_session
from ticdc_spark.spark.tasks import in_worker

OPEN = f"""
import sys
from ticdc_spark.spark.session.session import open_session
spark = open_session("alone", {QUICK!r}, ())
"""


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def test_settings(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.pythonExec == sys.executable
    assert open_session("again", QUICK, coordinates("kafka")) is spark


def test_files_on_a_disk_have_no_hidden_checksum_files(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.json(str(tmp_path / "rows"))
    assert not [path.name for path in tmp_path.rglob("*.crc")]
    assert spark.read.json(str(tmp_path / "rows")).count() == 3


def test_coordinates_follow_the_running_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.pyspark, "__version__", "4.1.1")
    assert coordinates("iceberg", "delta", "kafka") == (
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "io.delta:delta-spark_4.1_2.13:4.1.0",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    )
    monkeypatch.setattr(session.pyspark, "__version__", "4.0.0")
    assert coordinates("iceberg") == ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",)
    monkeypatch.setattr(session.pyspark, "__version__", "3.5.6")
    with pytest.raises(UsageError, match=r"pyspark 3\.5\.6 is not supported"):
        coordinates("sqlite")


@pytest.mark.parametrize(("master", "count"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2)])
def test_cores_of_a_local_master(master: str, count: int) -> None:
    assert cores(master) == count
    assert cores("local[*]") == len(os.sched_getaffinity(0))


@pytest.mark.slow
def test_a_python_of_the_workers_without_this_package_is_an_error_at_the_start(tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=True)
    python = str(tmp_path / "bin" / "python")
    options = QUICK | {"spark.master": "local-cluster[1,1,1024]", "spark.pyspark.python": python}
    done = _run(f"""
import os
from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.spark.session.session import open_session
os.environ.pop("PYTHONPATH", None)  # the workers would have it, too
try:
    open_session("x", {options!r} | {{"spark.executor.memory": "512m"}}, ())
except EnvironmentFault as error:
    print(error)
""")
    assert done.returncode == 0, done.stderr
    assert f"its tasks cannot run this package by {python!r}: ModuleNotFoundError: No module named" in done.stdout
    assert "spark.pyspark.python" in done.stdout


def test_an_option_that_is_not_sparks_is_refused() -> None:
    with pytest.raises(UsageError, match="'master'"):
        open_session("x", {"master": "local"}, ())


def test_jars_are_resolved_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a set of packages has been fetched, no JVM is started for it and no repository read."""
    first = jars.resolve_jars(coordinates("iceberg", "sqlite", "kafka"), QUICK)
    monkeypatch.setattr(jars, "launch_gateway", lambda *_: pytest.fail("resolved again"))
    found = jars.resolve_jars(coordinates("iceberg", "sqlite", "kafka"), QUICK)
    assert found == first
    assert any("kafka-clients" in jar for jar in found) and all(Path(jar).is_file() for jar in found)
    assert not any("hadoop-client-api" in jar for jar in found), "Spark has its own"
    assert jars.resolve_jars(coordinates("sqlite", "kafka", "iceberg"), QUICK) == found


def test_a_package_that_cannot_be_fetched_is_named(tmp_path: Path) -> None:
    done = _run(
        f"""
from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.spark.session.session import open_session
try:
    open_session("x", {{"spark.jars.ivy": {str(tmp_path)!r}}}, ["no.such.group:thing:1.0"])
except EnvironmentFault as error:
    print(error)
"""
    )
    assert done.stdout.startswith("cannot fetch no.such.group:thing:1.0 "), done.stderr
    assert "spark.jars.repositories" in done.stdout and done.stdout.count("\n") == 1
    assert not list((tmp_path / "resolved").glob("*"))


def test_java_that_is_missing_or_too_old_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"Spark needs Java 17 or 21, but there is no 'java' on the path"):
        session.check_java()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="is Java 11"):
        session.check_java()
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_202\"' >&2\n")
    with pytest.raises(UsageError, match="is Java 8"):
        session.check_java()
    java.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(UsageError, match="does not run"):
        session.check_java()


def test_spark_is_quiet_also_when_a_task_fails() -> None:
    done = _run(
        OPEN
        + """
try:
    spark.sql("SELECT raise_error('no')").collect()
except Exception as error:
    print(type(error).__name__)
"""
    )
    assert done.stdout == "SparkRuntimeException\n"
    reported = [line for line in done.stderr.splitlines() if "incubator modules" not in line]
    assert reported == [], "only the JVM's own warning, which no setting silences"


def test_the_jvm_ends_with_a_killed_driver() -> None:
    """Also in the middle of a task: else it would go on writing beside the job's next run."""
    code = (
        OPEN
        + """
print(spark._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
spark.sql("SELECT java_method('java.lang.Thread', 'sleep', 600000L)").collect()
"""
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as driver:
        assert driver.stdout is not None
        jvm = int(driver.stdout.readline())
        time.sleep(2)
        assert driver.poll() is None
        assert os.getpgid(jvm) != os.getpgid(driver.pid), "GNU timeout sends its signal to the whole process group"
        driver.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while process(jvm) is not None:
        assert time.monotonic() < deadline, "the JVM lives on"
        time.sleep(0.02)


def test_a_worker_looks_for_no_cycles_in_a_task_nor_again_at_its_modules(spark: SparkSession) -> None:
    def ask(_: Iterable[int]) -> Iterator[tuple[bool, bool]]:
        yield gc.isenabled(), gc.get_freeze_count() > 0

    assert list(in_worker(ask)([])) == [(False, gc.get_freeze_count() > 0)]
    frozen = gc.get_freeze_count()
    assert spark.sparkContext.parallelize([0], 1).mapPartitions(in_worker(ask)).collect() == [(False, True)]
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, frozen)
