"""A prepared start: the JVM takes its classes from an archive, and does without one that does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ticdc_spark.spark.session.jars import ivy_folder

JOB = """\
[job]
name = "shop"
[source]
kind = "files"
path = "topic"
[sink]
kind = "iceberg"
warehouse = "lake"
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


def test_a_prepared_job_starts_from_an_archive_and_ignores_one_that_is_none(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    for part in ("resolved", "jars", "cache"):
        if (ivy_folder().absolute() / part).exists():
            (cache / part).symlink_to(ivy_folder().absolute() / part)
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "topic").mkdir()
    environment = {**os.environ, "TICDC_SPARK_IVY": str(cache)}
    command = [str(Path(sys.executable).with_name("ticdc-spark")), "prepare", "job.toml"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (archive,) = (cache / "classes").iterdir()
    assert done.stdout.startswith(f"{archive}: "), done.stdout
    assert _shared_classes(tmp_path, environment) > 1000

    archive.rename(archive.with_name(archive.name.replace(f"-{archive.stat().st_size}.", "-4000.")))
    (other,) = (cache / "classes").iterdir()
    other.write_bytes(b"none" * 1000)
    assert _shared_classes(tmp_path, environment) == 0
