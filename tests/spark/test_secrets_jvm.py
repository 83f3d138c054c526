"""No process shows a secret in its arguments, and what Spark and the JVM print about a failure shows none."""

import subprocess
import sys

import pytest

RUN = """
import logging, sys
from pathlib import Path
from ticdc_spark.cli.output.logging import redacted_children, set_up
from ticdc_spark.config.load import load_job
from ticdc_spark.spark.session.session import coordinates, open_session

job = load_job(sys.argv[1])
set_up(verbose=False)
log = logging.getLogger("ticdc_spark.test")
uri = job.sink.catalog_options["uri"]
password = job.sink.catalog_options["jdbc.password"]

def fail(row):
    raise OSError(f"python worker: {password}")

with redacted_children():
    spark = open_session("secrets", job.spark, coordinates("sqlite"))
    key = "spark.hadoop.fs.s3a.secret.key"
    assert spark.sparkContext.getConf().get(key) == job.spark[key], "Spark has it"
    assert spark._jsc.hadoopConfiguration().get("fs.s3a.secret.key") == job.spark[key]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            listed = process.read_bytes()
        except OSError:
            continue
        if job.spark[key].encode() in listed:
            print("listed", process)
    print("all are looked at")
    spark._jvm.java.lang.System.err.println(f"java standard error: {password}")
    for name, work in {
        "driver": lambda: spark.read.format("jdbc").options(url=uri, dbtable=f"t{password}").load(),
        "worker": lambda: spark.sparkContext.parallelize([1], 1).map(fail).collect(),
    }.items():
        try:
            work()
        except Exception as error:
            assert password in str(error), f"the {name} error holds the secret, or this tests nothing: {error}"
            log.exception("%s", name)
    work()
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """A process with secrets, which opens Spark, looks at all processes, and fails."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "recorded").mkdir()
    (folder / "job.toml").write_text(
        '[job]\nname = "x"\n[source]\nkind = "files"\npath = "recorded"\nprotocol = "simple"\n'
        '[sink]\nkind = "iceberg"\nwarehouse = "lake"\n"catalog.uri" = "jdbc:sqlite:nowhere/${env:LAKE_PASSWORD}.db"\n'
        '"catalog.jdbc.password" = "${env:LAKE_PASSWORD}"\n[spark]\nspark.master = "local[1]"\n'
        '"spark.hadoop.fs.s3a.secret.key" = "${env:STORE_KEY}"\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKE_PASSWORD", "hunter2-jvm")
        patch.setenv("STORE_KEY", "hunter2-arguments")
        return subprocess.run(
            [sys.executable, "-c", RUN, str(folder / "job.toml")],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


def test_no_process_shows_a_secret_in_its_arguments(done: subprocess.CompletedProcess[str]) -> None:
    assert done.stdout == "all are looked at\n", done.stderr


def test_errors_and_logs_of_the_jvm_show_no_secret(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 1, done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    for part in (
        "java standard error: (secret)",
        "ERROR   driver\n",
        "ERROR   worker\n",
        "python worker: (secret)",
        "py4j.protocol.Py4JJavaError: ",
    ):
        assert part in done.stderr, done.stderr
