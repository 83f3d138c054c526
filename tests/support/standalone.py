"""A Spark standalone cluster for tests: a master and workers from PySpark's own jars, on free loopback ports.

A worker has a folder of its own, and a Python that has none of the packages of the tests.
"""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Callable
from pathlib import Path

import pyspark

from tests.support.fetched import java
from tests.support.local_server import free_ports

HOME = Path(pyspark.__file__).parent
_PATIENCE = 60
"""Seconds until a process answers."""


class Cluster:
    """A master and its workers, each with one core; a worker is lost with the executors that it runs."""

    def __init__(self, folder: Path, workers: int) -> None:
        """Start all; wait until the master knows its workers."""
        self.folder = folder
        folder.mkdir()
        port, self._page = free_ports(2)
        self.url = f"spark://127.0.0.1:{port}"
        venv.create(folder / "bare", symlinks=True)
        bare = folder / "bare" / "bin"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        seen = subprocess.run([bare / version, "-c", "import pyarrow"], env={}, capture_output=True, check=False)
        assert b"ModuleNotFoundError" in seen.stderr, "a worker's Python has packages"
        runs_java = str(Path(shutil.which(java()) or "").parent)
        self._environment = {
            "PATH": os.pathsep.join((str(bare), runs_java, "/usr/bin", "/bin")),
            "HOME": str(folder),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            self._launch("master", "master.Master", "--port", str(port), "--webui-port", str(self._page))
            for number in range(workers):
                place = ("--work-dir", str(self._worker_folder(number)), "--webui-port", "0")
                self._launch(f"worker{number}", "worker.Worker", "--cores", "1", "--memory", "1g", *place, self.url)
            self._wait(lambda: self.workers() == workers)
        except BaseException:
            self.stop()
            raise

    def kill_at_work(self, number: int, patience: float) -> None:
        """Kill a worker, and the JVMs of what it runs, without warning, amidst a task of the newest application."""
        process = self._processes.pop(f"worker{number}")
        deadline = time.monotonic() + patience
        while True:
            os.killpg(process.pid, signal.SIGSTOP)  # a task that runs now cannot end before it is killed
            works = self._is_at_work(number)
            if works or time.monotonic() > deadline:
                break
            os.killpg(process.pid, signal.SIGCONT)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        assert works, f"worker {number} had no task to run"

    def packages(self) -> list[Path]:
        """Where the executors so far have unpacked this package."""
        return [*self.folder.glob("work*/*/*/ticdc-spark-tasks/ticdc_spark")]

    def stop(self) -> None:
        """End all at once."""
        for process in self._processes.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
        self._processes.clear()
        for folder in (*self.folder.glob("work?"), self.folder / "local"):
            shutil.rmtree(folder, ignore_errors=True)  # packages and jars for each executor

    def workers(self) -> int:
        """How many the master has now; -1: it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as answer:
                found = json.load(answer)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            # Spark opens the port, then adds its pages one by one: until `/json` is there, `/` answers with HTML
            return -1
        return sum(worker["state"] == "ALIVE" for worker in found["workers"])

    def _worker_folder(self, number: int) -> Path:
        return self.folder / f"work{number}"

    def _is_at_work(self, number: int) -> bool:
        logs = sorted(self._worker_folder(number).glob("app-*/*/stderr"), key=lambda path: path.parts[-3])
        text = logs[-1].read_text(errors="replace") if logs else ""
        return text.count("Executor: Running task") > text.count("Executor: Finished task")

    def _launch(self, name: str, main: str, *arguments: str) -> None:
        command = [
            str(HOME / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{main}",
            "--host",
            "127.0.0.1",
            *arguments,
        ]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command,
                env=self._environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not reached():
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))
                raise RuntimeError(f"the Spark cluster does not answer: {logs}")
            time.sleep(0.1)
