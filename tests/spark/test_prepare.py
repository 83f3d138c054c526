"""A prepared start: the JVM takes its classes from an archive, and does without one that does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from ticdc_spark.spark.session.jars import ivy_folder

pytestmark = pytest.mark.slow  # an archive takes a minute and more
JOB = """\
[job]
name = "shop"
[source]
kind = "files"
path = "topic"
[sink]
kind = "iceberg"
warehouse = "lake"
[spark]
"spark.driver.memory" = "1g"
"""
START = """
from pathlib import Path
from ticdc_spark.config.load import load_job
from ticdc_spark.replicate.run.open import open_spark
job = load_job(Path("job.toml"))
print(open_spark(job).range(3).count())
"""


def _shared_classes(folder: Path, environment: dict[str, str]) -> int:
    """Start a job's Spark; how many classes of Spark the JVM took from the archive."""
    log = folder / "classes.log"
    log.unlink(missing_ok=True)
    java = environment | {"JAVA_TOOL_OPTIONS": f"-Xlog:class+load:file={log}"}
    done = subprocess.run([sys.executable, "-c", START], env=java, cwd=folder, capture_output=True, text=True)
    assert done.stdout.split() == ["3"], done.stderr
    assert "warning][cds" not in done.stdout + done.stderr
    lines = log.read_text().splitlines()
    return sum("org.apache.spark." in line and "shared objects file (top)" in line for line in lines)


class Prepared(NamedTuple):
    """A folder with a job that was prepared."""

    folder: Path
    environment: dict[str, str]
    archive: Path
    said: str


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("prepared")
    cache = folder / "cache"
    cache.mkdir()
    for part in ("resolved", "jars", "cache"):
        if (ivy_folder().absolute() / part).exists():
            (cache / part).symlink_to(ivy_folder().absolute() / part)
    (folder / "job.toml").write_text(JOB)
    (folder / "topic").mkdir()
    environment = {**os.environ, "TICDC_SPARK_IVY": str(cache)}
    command = [str(Path(sys.executable).with_name("ticdc-spark")), "prepare", "job.toml"]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (archive,) = (cache / "classes").iterdir()
    return Prepared(folder, environment, archive, done.stdout)


def test_a_prepared_job_starts_from_an_archive(prepared: Prepared) -> None:
    assert prepared.said.startswith(f"{prepared.archive}: "), prepared.said
    assert _shared_classes(prepared.folder, prepared.environment) > 1000


def test_an_archive_that_is_none_is_ignored(prepared: Prepared) -> None:
    """It has the size that its name says."""
    archive = prepared.archive
    kept = archive.rename(prepared.folder / "kept")
    other = archive.with_name(archive.name.replace(f"-{kept.stat().st_size}.", "-4000."))
    other.write_bytes(b"none" * 1000)
    try:
        assert _shared_classes(prepared.folder, prepared.environment) == 0
    finally:
        other.unlink()
        kept.rename(archive)
