"""Where a PostgreSQL database is."""

import pytest

from ticdc_spark.clients.postgres import connection_options
from ticdc_spark.errors import UsageError


def test_a_uri_says_all_of_a_connection() -> None:
    found = connection_options("postgresql://me:p%40ss@db:6432/my%20copies?sslmode=verify-full&sslrootcert=/ca.pem")
    assert found == {
        "host": "db",
        "port": 6432,
        "user": "me",
        "password": "p@ss",
        "dbname": "my copies",
        "sslmode": "verify-full",
        "sslrootcert": "/ca.pem",
    }
    assert connection_options("postgres://db/d")["port"] == 5432


@pytest.mark.parametrize("uri", ["mysql://u:secret@db/d", "postgresql://u:secret@db", "postgresql://u:secret@db:x/d"])
def test_another_uri_is_refused_without_its_password(uri: str) -> None:
    with pytest.raises(UsageError, match="postgresql://user:password@host:port/database") as refused:
        connection_options(uri)
    assert "secret" not in str(refused.value)
