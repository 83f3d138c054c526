"""The certificate of a PostgreSQL is checked if the job file says so, by libpq's own words."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.postgres_jobs import write_job
from tests.integration.test_mysql_commands import command
from tests.spark.simple_topic import topic
from tests.support.certificates import Authority
from tests.support.postgres_server import PostgresServer
from ticdc_spark.model import Watermark


@pytest.fixture
def authority(postgres: PostgresServer, tmp_path: Path) -> Iterator[Authority]:
    """The one that has signed the certificate of the server, which offers TLS while this lasts."""
    made = Authority(tmp_path / "ca")
    data = postgres.folder / "data"
    owner = data.stat()
    for file, name in zip(made.sign("server"), ("server.key", "server.crt"), strict=True):
        shutil.copy(file, data / name)
        os.chown(data / name, owner.st_uid, owner.st_gid)
        (data / name).chmod(0o600)
    postgres.execute("ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
    yield made
    postgres.execute("ALTER SYSTEM RESET ssl", "SELECT pg_reload_conf()")


def check(folder: Path, postgres: PostgresServer, certificate: Path) -> tuple[int, str]:
    topic(folder, [Watermark(10)])
    file = write_job(folder, postgres)
    options = f"?sslmode=verify-full&sslrootcert={certificate}"
    file.write_text(file.read_text().replace(postgres.uri, postgres.uri + options))
    return command("check", "--quick", str(file))


def test_a_server_of_the_named_authority_is_accepted_and_another_refused(
    postgres: PostgresServer, authority: Authority, tmp_path: Path
) -> None:
    code, text = check(tmp_path, postgres, authority.certificate)
    assert code == 0, text
    code, text = check(tmp_path, postgres, Authority(tmp_path / "other").certificate)
    assert code == 1 and "certificate verify failed" in text, text
