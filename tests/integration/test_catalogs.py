"""Catalogs that ask who is there: JDBC on PostgreSQL by TLS and a password, REST by OAuth2."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.rest_lake import RestLake
from tests.integration.test_mysql_commands import command
from tests.integration.test_postgres_tls import authority
from tests.spark.lake import Rows, replicate
from tests.spark.simple_topic import topic
from tests.spark.test_retry import Running
from tests.spark.test_row_delta import END, FIRST, MORE
from tests.support.certificates import Authority
from tests.support.postgres_server import PostgresServer
from tests.support.rest_proxy import TOKENS
from tests.support.token_issuer import CLIENT, SECRET, TokenIssuer
from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.iceberg.catalog import catalog_options

__all__ = ["authority"]  # a fixture

PASSWORD, WRONG = "p:w/ö+ %23", "wrong-27182818"
LIFE = 3.0
"""Of a token, in seconds."""


@pytest.fixture
def jdbc(postgres: PostgresServer, authority: Authority) -> Iterator[dict[str, str]]:
    """Options of a catalog in a database of its own, whose owner needs TLS and a password while this lasts."""
    file = postgres.folder / "data" / "pg_hba.conf"
    before = file.read_text()
    file.write_text(f"hostssl lake lake 127.0.0.1/32 scram-sha-256\n{before}")
    postgres.execute("SELECT pg_reload_conf()", f"CREATE ROLE lake LOGIN PASSWORD '{PASSWORD}'")
    postgres.execute("CREATE DATABASE lake OWNER lake")
    yield {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://127.0.0.1:{postgres.port}/lake"
        f"?sslmode=verify-full&sslrootcert={authority.certificate}",
        "jdbc.user": "lake",
        "jdbc.password": PASSWORD,
        "jdbc.schema-version": "V1",
    }
    file.write_text(before)
    postgres.execute("SELECT pg_reload_conf()")
    postgres.execute("DROP DATABASE lake WITH (FORCE)")
    postgres.execute("DROP ROLE lake")


def write_job(folder: Path, catalog: Mapping[str, str]) -> Path:
    """A job file for the recorded topic beside it."""
    options = "\n".join(f'"catalog.{key}" = "{value}"' for key, value in catalog.items())
    file = folder / "job.toml"
    file.write_text(
        '[job]\nname = "job"\n[source]\nkind = "files"\npath = "topic"\nprotocol = "simple"\n'
        f'[sink]\nkind = "iceberg"\nwarehouse = "house"\n{options}\n'
    )
    return file


def rows(spark: SparkSession, folder: Path, catalog: Mapping[str, str]) -> Rows:
    session = spark.newSession()
    for key, value in catalog_options("lake", str(folder / "house"), catalog).items():
        session.conf.set(key, value)
    return list(session.table("lake.s.t").orderBy("id").toArrow().to_pylist())


def test_a_jdbc_catalog_on_postgresql_has_the_tables_and_the_state(
    jdbc: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    topic(tmp_path, FIRST)
    file = write_job(tmp_path, jdbc)
    code, text = command("status", str(file))
    assert (code, "pending" in text) == (0, True), text
    assert replicate(file).finished
    topic(tmp_path, [*FIRST, *MORE])
    assert replicate(file).changes == 4, "a restart goes on from the state in the catalog"
    assert rows(spark, tmp_path, jdbc) == END
    code, text = command("status", str(file))
    assert (code, "8 applied" in text) == (0, True), text
    code, text = command("status", str(write_job(tmp_path, {**jdbc, "jdbc.password": WRONG})))
    assert code == 1 and "the catalog 'lake' cannot be opened" in text and "password authentication failed" in text
    assert WRONG not in text
    other = Authority(tmp_path / "other").certificate
    uri = f"{jdbc['uri'].partition('sslrootcert')[0]}sslrootcert={other}"
    code, text = command("status", str(write_job(tmp_path, {**jdbc, "uri": uri})))
    assert code == 1 and "the catalog 'lake' cannot be opened" in text and "certificate verify failed" in text


def oauth(lake: RestLake, secret: str = SECRET) -> dict[str, str]:
    return {
        "credential": f"{CLIENT}:{secret}",
        "oauth2-server-uri": f"{lake.proxy.url}{TOKENS}",
        "scope": "catalog",
        "token-exchange-enabled": "false",
    }


def test_a_job_outlives_the_tokens_of_its_catalog(
    rest_lake: RestLake, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    issuer = rest_lake.proxy.issuer = TokenIssuer(1, LIFE)
    topic(tmp_path, FIRST)
    quick = 'commit-interval = "100ms"\npoll-interval = "100ms"'
    file = rest_lake.job(tmp_path, quick, oauth(rest_lake))
    running = Running(file)
    try:
        running.wait(lambda: running.rows == 4)
        before = issuer.given
        time.sleep(LIFE)  # every token counted so far has ended
        topic(tmp_path, [*FIRST, *MORE])
        running.wait(lambda: running.rows >= 8)
    finally:
        running.end()
    assert running.error is None
    assert issuer.given > before
    assert set(issuer.asked) == {("client_credentials", 200)}
    assert "retrying" not in caplog.text, "no token was found to be old by an outage"
    assert rest_lake.rows("t") == END
    code, text = command("status", str(file))
    assert (code, "8 applied" in text) == (0, True), text
    heard = caplog.text + text + "".join(capfd.readouterr())
    assert SECRET not in heard


def test_a_wrong_secret_is_an_error_that_names_its_key_and_not_the_secret(
    rest_lake: RestLake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rest_lake.proxy.issuer = TokenIssuer(1, LIFE)
    topic(tmp_path, FIRST)
    file = rest_lake.job(tmp_path, "", oauth(rest_lake, WRONG))
    named = r"the catalog 'lake' cannot be opened.*invalid_client.*does \[sink\] catalog\.credential have"
    with pytest.raises(SinkFault, match=named) as refused:
        replicate(file)
    code, text = command("status", str(file))
    assert code == 1 and "catalog.credential" in text
    assert WRONG not in f"{refused.value}{text}{caplog.text}"
