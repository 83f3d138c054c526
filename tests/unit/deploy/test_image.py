"""The image: what can be said of its definition without an engine that builds it."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import tomlkit
from scripts.lock import LOCKS

from ticdc_spark.config.load import load_job
from ticdc_spark.replicate.run import open as opening
from ticdc_spark.sinks.iceberg import lake
from ticdc_spark.sinks.registry import SINKS
from ticdc_spark.spark.sources.open import parts as source_parts

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
TEXT = DOCKERFILE.read_text(encoding="utf-8")
LINES = re.sub(r"^#.*\n", "", TEXT.replace("\\\n", " "), flags=re.M).splitlines()
S3 = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
TABLES_OF = {
    "iceberg": [
        {"warehouse": "lake"},
        {"warehouse": "s3://lake/house", "catalog.type": "rest", "catalog.uri": "http://c"},
    ],
    "delta": [{"warehouse": "lake"}],
    "mysql": [{"uri": "mysql://user:password@db:3306"}],
    "postgres": [{"uri": "postgresql://user:password@db:5432/copies"}],
}
SOURCES = [
    {"kind": "kafka", "bootstrap-servers": "broker:9092", "topics": ["shop"], "protocol": "simple"},
    {"kind": "files", "path": "recorded", "protocol": "simple"},
]


def instructions(word: str) -> list[str]:
    return [line.removeprefix(word).strip() for line in LINES if line.startswith(f"{word} ")]


def bake_jars() -> ModuleType:
    spec = spec_from_file_location("bake_jars", ROOT / "deploy" / "image" / "bake_jars.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hadolint_finds_nothing() -> None:
    hadolint = shutil.which("hadolint", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    assert hadolint is not None, "make setup"
    found = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


def test_the_base_has_an_exact_version_of_the_python_that_the_tests_run_on() -> None:
    (base,) = [each for each in instructions("ARG") if each.startswith("BASE=")]
    tag = re.fullmatch(r"BASE=python:(\d+\.\d+)\.\d+-slim-\w+", base)
    assert tag is not None
    assert tag.group(1) == re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text()).group(1)  # type: ignore[union-attr]
    assert {each.split()[0] for each in instructions("FROM")} == {"${BASE}", "base"}


def test_what_is_copied_is_there_and_reaches_the_build() -> None:
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    seen = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    assert "*" in ignored
    for copied in instructions("COPY"):
        if not copied.startswith("--from="):
            for source in copied.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert any(source == each or source.startswith(f"{each}/") for each in seen), source
    assert [each for each in seen if not (ROOT / each).exists()] == []
    assert instructions("ADD") == []


def test_every_package_is_compared_with_a_hash() -> None:
    installs = [step.strip() for run in instructions("RUN") for step in run.split("&&") if "bin/pip" in step]
    locked = {lock for step in installs for lock in re.findall(r"-r (\S+)", step)}
    assert locked == {"requirements-build.lock", "requirements-run.lock"} and locked < set(LOCKS)
    for step in installs:
        assert "--require-hashes" in step or "--no-index" in step or ("--no-deps" in step and step.endswith(" .")), step


def test_what_a_job_runs_on_is_what_the_tests_run_on() -> None:
    run, all_of_it = (pins(name) for name in ("requirements-run.lock", "requirements.lock"))
    assert run.items() < all_of_it.items()
    assert "pyspark" in run and "pytest" not in run


def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(encoding="utf-8"), re.M))


def test_it_runs_without_root_and_hands_on_signals() -> None:
    (user,) = instructions("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    (entry,) = instructions("ENTRYPOINT")
    assert entry.startswith('["/usr/bin/tini", "--", ')
    assert LINES.index(f"USER {user}") < LINES.index(f"ENTRYPOINT {entry}")
    assert "exec ticdc-spark" in (ROOT / "deploy" / "image" / "entrypoint.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", sorted(SINKS))
@pytest.mark.parametrize("packages", ["", S3])
def test_a_job_of_every_kind_finds_its_jars(
    kind: str, packages: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (step,) = [run for run in instructions("RUN") if "bake_jars.py" in run]
    baked = {frozenset(each) for each in bake_jars().requests(step.split("bake_jars.py")[1].split())}
    asked: list[frozenset[str]] = []

    def note(_: str, options: dict[str, str], parts: tuple[str, ...]) -> None:
        asked.append(frozenset([*parts, *filter(None, options.get("spark.jars.packages", "").split(","))]))
        raise InterruptedError

    monkeypatch.setattr(opening, "open_session", note)
    monkeypatch.setattr(lake, "open_session", note)
    (tmp_path / "recorded").mkdir()
    for sink in TABLES_OF[kind]:
        for source in SOURCES:
            spark = {"spark.jars.packages": packages} if packages else {}
            file = tmp_path / "job.toml"
            sections = {"job": {"name": "shop"}, "source": source, "sink": {"kind": kind, **sink}, "spark": spark}
            file.write_text(tomlkit.dumps(sections))
            job = load_job(file)
            with pytest.raises(InterruptedError):
                opening.open_spark(job, source_parts(job.source))
            if kind == "iceberg":
                with pytest.raises(InterruptedError):
                    lake.open_lake(job)
    assert {each for each in asked if each} <= baked


def test_the_version_is_that_of_the_package() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert version is not None
    assert f"VERSION={version.group(1)}" in instructions("ARG")


def entrypoint(folder: Path, *arguments: str, **environment: str) -> list[str]:
    """What the entry point becomes, with commands that print their arguments in place of those of the image."""
    for name in ("bin/ticdc-spark", "java/bin/java"):
        command = folder / name
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(f'#!/bin/sh\necho {name}\nfor each in "$@"; do echo "$each"; done\n')
        command.chmod(0o755)
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [ROOT / "deploy" / "image" / "entrypoint.sh", *arguments],
        env={"PATH": path, "JAVA_HOME": str(folder / "java"), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_entry_point_runs_the_command_with_the_arguments_of_the_container(tmp_path: Path) -> None:
    assert entrypoint(tmp_path, "replicate", "/etc/a job.toml") == ["bin/ticdc-spark", "replicate", "/etc/a job.toml"]


def test_the_entry_point_becomes_an_executor_if_spark_says_so(tmp_path: Path) -> None:
    names = ("DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID", "EXECUTOR_POD_IP", "RESOURCE_PROFILE_ID")
    given = {f"SPARK_{name}": name.lower() for name in (*names, "EXECUTOR_POD_NAME")}
    options = {"SPARK_JAVA_OPT_0": "-Da=1 2", "SPARK_JAVA_OPT_1": "-Db=2", "SPARK_EXECUTOR_MEMORY": "2g"}
    command, *found = entrypoint(tmp_path, "executor", **given, **options)
    assert command == "java/bin/java"
    assert found[:4] == ["-Da=1 2", "-Db=2", "-Xms2g", "-Xmx2g"]
    assert found[found.index("--driver-url") + 1] == "driver_url"
    assert found[found.index("--podName") + 1] == "executor_pod_name"
