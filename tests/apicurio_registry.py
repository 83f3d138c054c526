"""A real schema registry for tests: Apicurio with its Confluent API, in memory, on a free loopback port."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

from tests.fetched import fetched, java, retrieve

VERSION = "2.6.13.Final"

_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tests" module="registry"/><dependencies>
<dependency org="io.apicurio" name="apicurio-registry-app" rev="{version}" transitive="false">
<artifact name="apicurio-registry-app" type="zip" ext="zip" m:classifier="all"/></dependency>
</dependencies></ivy-module>"""


class Registry:
    """A registry that can be stopped and started again on its port; it forgets everything then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}/apis/ccompat/v7"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until a client is answered."""
        (jar,) = registry_folder().glob("*-runner.jar")
        options = [f"-Dquarkus.http.port={self.port}", "-Dquarkus.http.host=127.0.0.1"]
        with (self.folder / "registry.log").open("ab") as log:
            self.process = subprocess.Popen(
                [java(), "-Xmx384m", "-XX:+UseSerialGC", *options, "-jar", str(jar)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 120
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"the registry does not answer: {self.log()}")
            try:
                with urllib.request.urlopen(f"{self.url}/subjects", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)

    def stop(self) -> None:
        """Stop it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
            self.process = None

    def compatibility(self, subject: str, level: str) -> None:
        """Set what a subject's new schemas are checked for."""
        request = urllib.request.Request(
            f"{self.url}/config/{subject}",
            method="PUT",
            data=b'{"compatibility":"%s"}' % level.encode(),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=10):
            pass

    def log(self) -> str:
        """What it printed last."""
        return (self.folder / "registry.log").read_text(errors="replace")[-4000:]


def registry_folder() -> Path:
    """The folder with the registry (142 MB)."""
    return fetched(f"apicurio-{VERSION}", _fill)


def _fill(folder: Path) -> Path:
    module = folder / "module.xml"
    module.write_text(_MODULE.format(version=VERSION))
    retrieve(folder, f"Apicurio {VERSION}", "-ivy", str(module), "-types", "zip")
    for archive in folder.glob("*.zip"):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
        archive.unlink()
    return folder


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port
