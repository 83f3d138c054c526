"""What pip makes of a wheel and of an sdist in an environment with nothing else: commands that run."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.reference.workloads import FAULTS, messages_of, rows_of, truth_of
from tests.support.kafka_broker import Broker
from tests.workload import write_topic
from ticdc_spark.cli import main

ROOT = Path(__file__).parents[2]
MESSAGES = messages_of(FAULTS)
COMMANDS = sorted(main.commands)
OURS = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "VIRTUAL_ENV")
"""Variables that a user does not have: one of them may cause a warning, or name a path with other modules."""
HELP = """
from ticdc_spark.cli import main
for command in main.commands:
    main([command, "--help"], prog_name="ticdc-spark", standalone_mode=False)
"""
READ = """
import json, sys
from ticdc_spark import consistent
lake = consistent(sys.argv[1])
print(json.dumps({".".join(name): table.count() for name, table in lake.tables.items()}))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


class Environment:
    """An environment with nothing but what pip installs with this package; one build of it can replace another."""

    def __init__(self, folder: Path, package: Path) -> None:
        venv.create(folder, with_pip=True, symlinks=True)
        self._bin = folder / "bin"
        self._environment = {name: value for name, value in os.environ.items() if name not in OURS}
        self.pip("install", "--no-compile", str(package))

    def install(self, package: Path) -> None:
        """Put a build in place of the one that is there. What it needs must be what that one needed."""
        needed = self.requirements()
        self.pip("install", "--force-reinstall", "--no-deps", str(package))
        assert self.requirements() == needed

    def requirements(self) -> list[str]:
        """What the package that is there says that it needs."""
        code = "from importlib.metadata import requires; print(*sorted(requires('ticdc-spark')), sep='\\n')"
        return self.run("python", "-c", code).splitlines()

    def pip(self, *arguments: str) -> None:
        self.run("python", "-m", "pip", "--quiet", *arguments)

    def run(self, command: str, *arguments: str, code: int = 0) -> str:
        """Run a command of the environment and return what it prints."""
        done = subprocess.run(
            [self._bin / command, *arguments],
            env=self._environment,
            cwd=self._bin.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{command} {arguments}: {done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def environment(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel, as pip makes it from nothing."""
    (package,) = built.glob("*.whl")
    return Environment(tmp_path_factory.mktemp("environment") / "bare", package)


@pytest.mark.slow
def test_a_wheel_alone_runs_every_command_and_a_job_on_files(
    built: Path, environment: Environment, tmp_path: Path
) -> None:
    (package,) = built.glob("*.whl")
    environment.install(package)
    write_topic(MESSAGES, tmp_path / "topic", "jsonl")
    try_all(environment, tmp_path, 'kind = "files"\npath = "topic"', spark="4.1.1")


@pytest.mark.slow
def test_an_sdist_with_the_oldest_spark_runs_every_command_and_a_job_on_kafka(
    built: Path, environment: Environment, tmp_path: Path, broker: Broker, topic_name: str
) -> None:
    (package,) = built.glob("*.tar.gz")
    environment.install(package)
    environment.pip("install", "--no-compile", "pyspark==4.0.0")
    broker.create_topic(topic_name, 1)
    broker.produce(topic_name, [(message.key, message.value) for message in MESSAGES])
    source = f'kind = "kafka"\nbootstrap-servers = "{broker.servers}"\ntopics = ["{topic_name}"]'
    try_all(environment, tmp_path, source, spark="4.0.0")


@pytest.mark.slow
def test_uvx_runs_the_demo_without_an_installation(built: Path, tmp_path: Path) -> None:
    (package,) = built.glob("*.whl")
    uv = Path(sys.executable).with_name("uv")
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    command = [uv, "tool", "run", "--from", package, "ticdc-spark", "demo"]  # uvx is short for `uv tool run`
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "all 5 tables equal the shop's" in done.stdout


def try_all(installed: Environment, folder: Path, source: str, *, spark: str) -> None:
    """Every command's help; then what the README shows of a first job."""
    assert installed.run("python", "-c", HELP).count("Usage: ticdc-spark") == len(COMMANDS)
    assert "Commands:" in installed.run("ticdc-spark", "--help")
    job = folder / "job.toml"
    job.write_text(
        f'[job]\nname = "shop"\n[source]\n{source}\nprotocol = "simple"\n'
        '[sink]\nkind = "iceberg"\nwarehouse = "lake"\n[spark]\n"spark.driver.memory" = "1g"\n'
    )
    checked = installed.run("ticdc-spark", "check", str(job))
    assert f"ok      spark      Spark {spark} runs at local[*]" in checked
    installed.run("ticdc-spark", "replicate", str(job), "--once")
    counted = json.loads(installed.run("python", "-c", READ, str(job)))
    truth = {".".join(name): len(rows) for name, rows in rows_of(truth_of(FAULTS)).items()}
    assert counted == truth
