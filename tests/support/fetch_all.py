"""Fetches the servers and jars that tests use: ``python -m tests.support.fetch_all``.

The whole suite runs this beside its first tests, which need no server. A fixture that comes sooner waits for its part.
"""

from tests.support.apicurio_registry import registry_folder
from tests.support.kafka_broker import kafka_jars
from tests.support.mariadb_server import mariadb_folder
from tests.support.postgres_server import postgres_folder
from tests.support.rest_catalog import catalog_jars
from tests.support.s3_server import server_folder
from tests.support.spark_session import PACKAGES
from ticdc_spark.spark.session.jars import resolve_jars


def fetch_all() -> None:
    """Fetch what is not there yet, in the order in which the suite needs it."""
    resolve_jars(PACKAGES, {})
    for fetch in (mariadb_folder, postgres_folder, kafka_jars, catalog_jars, server_folder, registry_folder):
        fetch()


if __name__ == "__main__":
    fetch_all()
