"""A REST catalog and an S3 store whose certificates have an authority of their own: both sides must know it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.test_mysql_commands import command
from tests.spark.lake import replicate
from tests.spark.simple_topic import ddl, insert, table, topic
from tests.spark.test_row_delta import FIRST
from tests.support.certificates import STORE_PASSWORD, Authority, trust_store
from tests.support.rest_catalog import RestCatalog
from tests.support.rest_proxy import proxied
from tests.support.s3_server import BUCKET, S3Server
from tests.support.spark_session import S3_BUNDLE
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import Watermark

WAREHOUSE = f"s3://{BUCKET}/tls"
BOTH = """
import sys
from ticdc_spark.cli import main
for words in sys.argv[1:]:
    main(words.split(), standalone_mode=False)
"""
"""Runs commands one after another in one process, which starts Java once."""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of this machine win over the job file."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def rest(store: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    """A catalog without TLS, whose tables are in the store."""
    started = RestCatalog(tmp_path_factory.mktemp("rest"), WAREHOUSE, store.catalog_options())
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def secure(rest: RestCatalog, store: S3Server) -> Iterator[str]:
    """The URL of the same behind TLS: its certificate has the authority of the store's."""
    with proxied(rest.url, store.authority.sign("catalog")) as proxy:
        yield proxy.url


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of an authority that has signed nothing."""
    return Authority(tmp_path_factory.mktemp("other"), "other").certificate


def job(folder: Path, url: str, store: S3Server, authority: Path, java: str = "") -> Path:
    """A job file. ``authority``: of the catalog, for Python. ``java``: options of the JVM."""
    options = {"type": "rest", "uri": url, "ssl.cabundle": str(authority), **store.catalog_options(secure=True)}
    lines = "\n".join(f'"catalog.{key}" = "{value}"' for key, value in options.items())
    file = folder / "job.toml"
    file.write_text(
        f'[job]\nname = "{folder.name}"\n[source]\nkind = "files"\npath = "topic"\nprotocol = "simple"\n'
        f'[sink]\nkind = "iceberg"\nwarehouse = "{WAREHOUSE}"\n{lines}\n'
        f'[spark]\n"spark.master" = "local[1]"\n"spark.jars.packages" = "{S3_BUNDLE}"\n'
        f'"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 {java}"\n'
    )
    return file


def test_a_job_works_whose_catalog_and_store_have_an_authority_of_their_own(
    secure: str, store: S3Server, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(tmp_path, FIRST)
    ours = store.authority.certificate
    trusted = trust_store(tmp_path / "lake.p12", ours)
    java = f"-Djavax.net.ssl.trustStore={trusted} -Djavax.net.ssl.trustStorePassword={STORE_PASSWORD}"
    file = job(tmp_path, secure, store, ours, java)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(ours))
    words = [sys.executable, "-c", BOTH, f"replicate {file} --once", f"check {file}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    heard = done.stdout + done.stderr
    assert done.returncode == 0 and "files under s3://lake are written by the Python tasks" in heard, heard
    assert "1 of 1 known tables are there" in heard, heard
    code, text = command("status", str(file))
    assert (code, "4 applied" in text) == (0, True), text

    monkeypatch.setenv("AWS_CA_BUNDLE", str(other))
    code, text = command("status", str(file))
    named = rf"the state \S+ in catalog lake \(warehouse {WAREHOUSE}\) cannot be read"
    assert code == 1 and re.search(named, text), text
    assert "does AWS_CA_BUNDLE in the environment name the authority of the store's certificate?" in text


def test_a_catalog_of_another_authority_is_an_error_that_says_what_to_set(
    secure: str, store: S3Server, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(tmp_path, FIRST)
    file = job(tmp_path, secure, store, other)
    code, text = command("status", str(file))
    assert code == 1 and "the catalog 'lake' cannot be opened: SSLError" in text, text
    assert "does [sink] catalog.ssl.cabundle name the authority of the catalog's certificate?" in text
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other))
    code, text = command("check", "--quick", str(job(tmp_path, secure, store, store.authority.certificate)))
    assert code == 1 and "does REQUESTS_CA_BUNDLE in the environment name" in text, text
    code, text = command("status", str(job(tmp_path, secure, store, tmp_path / "no.pem")))
    assert code == 2 and "[sink] catalog.ssl.cabundle: found" in text, text


@pytest.mark.parametrize("which", ["catalog", "store"])
def test_java_that_does_not_know_the_authority_is_an_error_that_names_its_trust_store(
    which: str,
    secure: str,
    rest: RestCatalog,
    store: S3Server,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = table(10, name="u")
    create = ddl("CREATE", 10, "CREATE TABLE `u` (`id` INT PRIMARY KEY)", of)
    topic(tmp_path, [create, insert(of, 20, id="1"), Watermark(30)])
    ours = store.authority.certificate
    monkeypatch.setenv("AWS_CA_BUNDLE", str(ours))
    file = job(tmp_path, secure if which == "catalog" else rest.url, store, ours)
    what = "catalog 'lake' cannot be opened" if which == "catalog" else "table `s`.`u` cannot be created"
    whose = "catalog" if which == "catalog" else "object store"
    cure = f"does Java's trust store hold the authority of the {whose}'s certificate.*-Djavax.net.ssl.trustStore"
    with pytest.raises(SinkFault, match=f"(?s){what}.*{cure}"):
        replicate(file)
