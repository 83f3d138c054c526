"""A real schema registry for tests: Apicurio with its Confluent API, in memory, on a free loopback port."""

import urllib.request
import zipfile
from pathlib import Path

from tests.support.fetched import fetched, java, retrieve
from tests.support.local_server import QUICK_START, LocalServer, free_port

VERSION = "2.6.13.Final"

_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tests" module="registry"/><dependencies>
<dependency org="io.apicurio" name="apicurio-registry-app" rev="{version}" transitive="false">
<artifact name="apicurio-registry-app" type="zip" ext="zip" m:classifier="all"/></dependency>
</dependencies></ivy-module>"""


class Registry(LocalServer):
    """A registry that can be stopped and started again on its port; it forgets everything then."""

    def __init__(self, folder: Path, certificate: tuple[Path, Path] | None = None) -> None:
        """``certificate``: key and certificate; then it also has an address with TLS, ``secure_url``."""
        super().__init__(folder, "registry")
        self.secure_url = ""
        self._options: list[str] = []
        if certificate is not None:
            key, chain = certificate
            port = free_port()
            self.secure_url = f"https://127.0.0.1:{port}/apis/ccompat/v7"
            self._options = [
                f"-Dquarkus.http.ssl-port={port}",
                f"-Dquarkus.http.ssl.certificate.files={chain}",
                f"-Dquarkus.http.ssl.certificate.key-files={key}",
            ]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start, and wait until a client is answered."""
        (jar,) = registry_folder().glob("*-runner.jar")
        options = [f"-Dquarkus.http.port={self.port}", "-Dquarkus.http.host=127.0.0.1", *self._options]
        command = [java(), "-Xmx384m", "-XX:+UseSerialGC", *QUICK_START, *options, "-jar", str(jar)]
        self.launch(command, f"{self.url}/subjects", 120)

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
