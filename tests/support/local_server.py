"""What the servers for tests have in common: free ports, and one process that answers by HTTP."""

import os
import random
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path

QUICK_START = ("-XX:TieredStopAtLevel=1",)
"""Java's options for a process that lives for seconds: its optimizing compiler would take more than it gives."""


class LocalServer:
    """A process that can be stopped and started again; what it prints goes into a file of its folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.process: subprocess.Popen[bytes] | None = None
        self._log = folder / f"{name.replace(' ', '-')}.log"

    def launch(self, command: Sequence[str | Path], url: str, patience: float, *, refusals: bool = False) -> None:
        """Start; wait so many seconds until ``url`` is answered; with ``refusals`` an HTTP error is an answer too."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + patience
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"the {self.name} does not answer: {self.log()}")
            try:
                with urllib.request.urlopen(url, timeout=5):
                    return
            except (urllib.error.URLError, OSError) as error:
                if refusals and isinstance(error, urllib.error.HTTPError):
                    return
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
            self.process = None

    def log(self) -> str:
        """What it printed last."""
        return self._log.read_text(errors="replace")[-4000:]


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody uses now.

    They are below the range from which the kernel takes ports for connections, and each process of pytest has its own
    range. So no one takes a port before its server binds it, or while the server is down.
    """
    found: list[int] = []
    for port in _PORTS:
        if len(found) == count:
            break
        with suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            found.append(port)
    return found


def _every_port() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports = range(12_000 + worker % 4 * 5_000, 17_000 + worker % 4 * 5_000)
    start = random.randrange(len(ports))  # another run of the tests may be under way
    return cycle([*ports[start:], *ports[:start]])


_PORTS = _every_port()


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]
