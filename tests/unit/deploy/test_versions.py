"""The table of tested versions says what the tests run."""

import re
from pathlib import Path

from tests.support import apicurio_registry, kafka_broker, mariadb_server, native_debezium, postgres_server
from ticdc_spark.spark.session.session import coordinates

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "how-to" / "upgrades.md").read_text(encoding="utf-8")
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def documented() -> dict[str, str]:
    """Name to the version at the beginning of its cell."""
    table = PAGE.partition("## Tested versions")[2].partition("\n\nThese were not run")[0]
    return dict(re.findall(r"^\| ([^|]+?) \| (\d[\d.]*\d|\d+)[;,]?[^|]*\|$", table, re.M))


def locked(package: str) -> str:
    found = re.search(rf"^{package}==([\d.]+)", LOCK, re.M)
    assert found is not None, package
    return found.group(1)


def test_the_table_has_the_versions_of_the_tests() -> None:
    iceberg, delta = (each.rpartition(":")[2] for each in coordinates("iceberg", "delta"))
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    python, java = (re.search(each, dockerfile) for each in (r"BASE=python:(\d+\.\d+)", r"openjdk-(\d+)-jre-headless"))
    assert python is not None and java is not None
    assert documented() == {
        "Python": python.group(1),
        "Java": java.group(1),
        "Spark": locked("pyspark"),
        "Iceberg": iceberg,
        "Delta": delta,
        "PyIceberg": locked("pyiceberg"),
        "Kafka": kafka_broker.VERSION,
        "MariaDB": mariadb_server.VERSION,
        "PostgreSQL": postgres_server.VERSION.removesuffix(".0"),
        "Apicurio, as the schema registry": apicurio_registry.VERSION.removesuffix(".Final"),
    }
    debezium = native_debezium.VERSION.removesuffix(".Final")
    assert f"| Debezium's own connector | {debezium}, for MariaDB" in PAGE
