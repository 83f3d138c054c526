"""The certificate of a MySQL-compatible server is checked where the URI says so: of a target, and of an upstream."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.mysql_jobs import write_job
from tests.integration.test_mysql_commands import command
from tests.spark.simple_topic import topic
from tests.support.certificates import Authority
from tests.support.mariadb_server import Server
from ticdc_spark.capture.snapshot.database import DatabaseReader
from ticdc_spark.clients.mysql import connect, connection_options
from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.model import Watermark


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def secure(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose certificate the authority has signed."""
    key, certificate = authority.sign("server")
    made = Server(
        tmp_path_factory.mktemp("secure"),
        f"--ssl-ca={authority.certificate}",
        f"--ssl-cert={certificate}",
        f"--ssl-key={key}",
    )
    made.start()
    yield made
    made.kill()


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The certificate of an authority that has signed nothing here."""
    return Authority(tmp_path / "other").certificate


def test_a_connection_is_encrypted_and_its_server_known(secure: Server, authority: Authority) -> None:
    options = connection_options(f"{secure.uri}/?ssl-ca={authority.certificate}")
    with connect(pickle.loads(pickle.dumps(options))) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        assert cursor.fetchone()[1], "as in a task, which gets the options from the driver"


def check(folder: Path, target: Server, options: str) -> tuple[int, str]:
    topic(folder, [Watermark(10)])
    file = write_job(folder, target)
    file.write_text(file.read_text().replace(target.uri, f"{target.uri}/?{options}"))
    return command("check", "--quick", str(file))


def test_a_target_of_the_named_authority_is_accepted_and_another_refused(
    secure: Server, authority: Authority, other: Path, tmp_path: Path
) -> None:
    for folder in ("one", "two", "three"):
        (tmp_path / folder).mkdir()
    code, text = check(tmp_path / "one", secure, f"ssl-ca={authority.certificate}")
    assert code == 0, text
    code, text = check(tmp_path / "two", secure, f"ssl-ca={other}")
    assert code == 1 and "certificate verify failed" in text, text
    code, text = check(tmp_path / "three", secure, f"ssl-ca={tmp_path / 'nothing.pem'}")
    assert code == 2 and "ssl-ca" in text, text


def test_an_upstream_is_checked_in_the_same_way(secure: Server, authority: Authority, other: Path) -> None:
    secure.execute("CREATE DATABASE IF NOT EXISTS d", "CREATE TABLE IF NOT EXISTS d.t (id INT PRIMARY KEY)")
    with closing(DatabaseReader(f"{secure.uri}/?ssl-ca={authority.certificate}")) as reader:
        assert ("d", "t") in reader.tables()
    refused = DatabaseReader(f"{secure.uri}/?ssl-ca={other}")
    with closing(refused), pytest.raises(SourceFault, match="certificate verify failed"):
        refused.tables()


@pytest.mark.parametrize("options", ["ssl=true", "tls=perhaps", "ssl-key=a.pem"])
def test_a_key_of_tls_that_cannot_be_names_what_can(options: str) -> None:
    with pytest.raises(UsageError, match=r"ssl-ca|allowed: true, false|ssl-key needs ssl-cert"):
        connection_options(f"mysql://u@h/?{options}")
