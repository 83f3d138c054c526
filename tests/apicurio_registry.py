"""A real schema registry for tests: Apicurio with its Confluent API, in memory, on a free loopback port."""

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pyspark

from ticdc_spark.spark.session.jars import ivy_folder

VERSION = "2.6.13.Final"

_SETTINGS = """<ivysettings><settings defaultResolver="central"/><caches defaultCacheDir="{cache}"/>
<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>"""
_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tests" module="registry"/><dependencies>
<dependency org="io.apicurio" name="apicurio-registry-app" rev="{version}" transitive="false">
<artifact name="apicurio-registry-app" type="zip" ext="zip" m:classifier="all"/></dependency>
</dependencies></ivy-module>"""


class Registry:
    """A registry that can be stopped and started again on its port; it forgets everything then."""

    def __init__(self, folder: Path, certificate: tuple[Path, Path] | None = None) -> None:
        """``certificate``: key and certificate; then it also has an address with TLS, ``secure_url``."""
        self.folder = folder
        self.secure_url = ""
        self._options: list[str] = []
        if certificate is not None:
            key, chain = certificate
            port = _free_port()
            self.secure_url = f"https://127.0.0.1:{port}/apis/ccompat/v7"
            self._options = [
                f"-Dquarkus.http.ssl-port={port}",
                f"-Dquarkus.http.ssl.certificate.files={chain}",
                f"-Dquarkus.http.ssl.certificate.key-files={key}",
            ]
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}/apis/ccompat/v7"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until a client is answered."""
        (jar,) = registry_folder().glob("*-runner.jar")
        options = [f"-Dquarkus.http.port={self.port}", "-Dquarkus.http.host=127.0.0.1", *self._options]
        with (self.folder / "registry.log").open("ab") as log:
            self.process = subprocess.Popen(
                [_java(), "-Xmx384m", "-XX:+UseSerialGC", *options, "-jar", str(jar)],
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
    """The folder with the registry, fetched once (142 MB) by the Ivy that PySpark brings."""
    folder = ivy_folder().absolute() / f"apicurio-{VERSION}"
    if folder.is_dir():
        return folder
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    (partial / "settings.xml").write_text(_SETTINGS.format(cache=ivy_folder().absolute() / "cache"))
    (partial / "module.xml").write_text(_MODULE.format(version=VERSION))
    spark_jars = Path(pyspark.__file__).parent / "jars" / "*"
    command = [_java(), "-cp", str(spark_jars), "org.apache.ivy.Main", "-settings", str(partial / "settings.xml")]
    command += ["-ivy", str(partial / "module.xml"), "-types", "zip", "-confs", "default"]
    command += ["-retrieve", f"{partial}/[artifact]-[revision].[ext]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    archives = [*partial.glob("*.zip")]
    if done.returncode or not archives:
        raise RuntimeError(f"cannot fetch Apicurio {VERSION}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    for archive in archives:
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(partial)
        archive.unlink()
    partial.replace(folder)
    return folder


def _java() -> str:
    return str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if "JAVA_HOME" in os.environ else "java"


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port
