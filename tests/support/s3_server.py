"""A real server of the S3 protocol for tests: S3Proxy over a folder, on a free loopback port."""

from pathlib import Path

import pyarrow.fs

from tests.support.certificates import STORE_PASSWORD, Authority, key_store
from tests.support.fetched import fetched, java, retrieve
from tests.support.local_server import QUICK_START, LocalServer, free_ports

VERSION = "4.1.0"
BUCKET = "lake"
_LOGGING = """<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%d %level %logger %msg%n</pattern></encoder></appender><root level="warn"><appender-ref ref="out"/></root>
</configuration>"""
ACCESS_KEY, SECRET_KEY = "shop-access", "shop-secret-31415926"


class S3Server(LocalServer):
    """A server that can be stopped and started again on its port; what it stores lies in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "S3 server")
        self.port, secure_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        self.secure_url = f"https://127.0.0.1:{secure_port}"
        (folder / "data" / BUCKET).mkdir(parents=True)
        self.authority = Authority(folder / "pki", "store")
        """The one that has signed the certificate of the port with TLS."""
        self._key_store = key_store(folder / "s3proxy.p12", *self.authority.sign("server"))

    def start(self) -> None:
        """Start, and wait until a client is answered."""
        settings = self.folder / "s3proxy.conf"
        settings.write_text(
            f"s3proxy.endpoint={self.url}\n"
            f"s3proxy.secure-endpoint={self.secure_url}\n"
            f"s3proxy.keystore-path={self._key_store}\n"
            f"s3proxy.keystore-password={STORE_PASSWORD}\n"
            "s3proxy.authorization=aws-v2-or-v4\n"
            f"s3proxy.identity={ACCESS_KEY}\n"
            f"s3proxy.credential={SECRET_KEY}\n"
            "jclouds.provider=filesystem-nio2\n"
            "jclouds.identity=local\n"
            "jclouds.credential=local\n"
            f"jclouds.filesystem.basedir={self.folder / 'data'}\n"
        )
        logging = self.folder / "logback.xml"
        logging.write_text(_LOGGING)
        options = ["-Xmx256m", "-XX:+UseSerialGC", *QUICK_START, f"-Dlogback.configurationFile={logging}"]
        command: list[str | Path] = [
            java(),
            *options,
            "-cp",
            f"{server_folder()}/*",
            "org.gaul.s3proxy.Main",
            "--properties",
            settings,
        ]
        self.launch(command, self.url, 60, refusals=True)  # it asks for a signature

    def catalog_options(self, secret: str = SECRET_KEY, *, secure: bool = False) -> dict[str, str]:
        """What a job file gives to the catalog to reach the server, after ``catalog.``."""
        return {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "client.region": "us-east-1",
            "s3.endpoint": self.secure_url if secure else self.url,
            "s3.path-style-access": "true",
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": secret,
        }

    def files(self) -> pyarrow.fs.S3FileSystem:
        """A client."""
        return pyarrow.fs.S3FileSystem(
            endpoint_override=self.url, region="us-east-1", access_key=ACCESS_KEY, secret_key=SECRET_KEY
        )


def server_folder() -> Path:
    """The folder with the server's jars."""
    return fetched(f"s3proxy-{VERSION}", _fill)


def _fill(folder: Path) -> Path:
    named = ["-dependency", "org.gaul", "s3proxy", VERSION]
    retrieve(folder, f"S3Proxy {VERSION}", *named, "-types", "jar", "bundle")
    return folder
