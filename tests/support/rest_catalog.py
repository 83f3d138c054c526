"""A real Iceberg REST catalog for tests: the server of Iceberg's own tests, over SQLite, on a free loopback port."""

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark

from tests.support.fetched import fetched, java, retrieve
from tests.support.local_server import QUICK_START, LocalServer, free_port

ICEBERG = "1.11.0"
JETTY = "12.1.5"
_MODULE = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tests" module="rest-catalog"/>
<configurations><conf name="default"/></configurations>
<dependencies defaultconfmapping="default->default">
<dependency org="org.apache.iceberg" name="iceberg-core" rev="{ICEBERG}">
<artifact name="iceberg-core" type="jar"/><artifact name="iceberg-core" type="jar" m:classifier="tests"/></dependency>
<dependency org="org.apache.iceberg" name="iceberg-open-api" rev="{ICEBERG}">
<artifact name="iceberg-open-api" type="jar" m:classifier="test-fixtures"/></dependency>
<dependency org="org.apache.iceberg" name="iceberg-aws" rev="{ICEBERG}"/>
<dependency org="org.apache.iceberg" name="iceberg-aws-bundle" rev="{ICEBERG}"/>
<dependency org="org.xerial" name="sqlite-jdbc" rev="3.47.1.0"/>
<dependency org="org.eclipse.jetty.ee10" name="jetty-ee10-servlet" rev="{JETTY}"/>
<dependency org="org.eclipse.jetty.compression" name="jetty-compression-server" rev="{JETTY}"/>
<dependency org="org.eclipse.jetty.compression" name="jetty-compression-gzip" rev="{JETTY}"/>
</dependencies></ivy-module>"""


class RestCatalog(LocalServer):
    """A server whose tables lie in a warehouse in an object store."""

    def __init__(self, folder: Path, warehouse: str, store: Mapping[str, str]) -> None:
        """``store``: the catalog's properties by which it reaches the store."""
        super().__init__(folder, "REST catalog")
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        uri = f"jdbc:sqlite:{folder / 'catalog.db'}?busy_timeout=60000"
        self._properties = {"warehouse": warehouse, "uri": uri, **store}

    def start(self) -> None:
        """Start, and wait until a client is answered."""
        # It reads each property from a variable: - is __ there, and . is _.
        named = {f"CATALOG_{k.replace('-', '__').replace('.', '_').upper()}": v for k, v in self._properties.items()}
        named["CATALOG_REST_PORT"] = str(self.port)
        environment = [f"{name}={value}" for name, value in named.items()]
        options = ["-Xmx256m", "-XX:+UseSerialGC", *QUICK_START]
        spark_jars = Path(pyspark.__file__).parent / "jars" / "*"  # Hadoop's client, and a logger
        class_path = f"{catalog_jars()}/*{os.pathsep}{spark_jars}"
        main = "org.apache.iceberg.rest.RESTCatalogServer"
        command = ["env", *environment, java(), *options, "-cp", class_path, main]
        self.launch(command, f"{self.url}/v1/config", 60)


def catalog_jars() -> Path:
    """The folder with the server's jars."""
    return fetched(f"rest-catalog-{ICEBERG}", _fill)


def _fill(folder: Path) -> Path:
    module = folder / "ivy.xml"
    module.write_text(_MODULE)
    pattern = "[artifact]-[revision](-[classifier]).[ext]"
    retrieve(folder, f"Iceberg's REST catalog {ICEBERG}", "-ivy", str(module), "-types", "jar", "bundle", name=pattern)
    return folder
