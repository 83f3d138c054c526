"""The commands of a job whose target is a PostgreSQL: all but ``replicate`` do without Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.integration.postgres_jobs import clear, job_of, write_job
from tests.integration.test_mysql_commands import EVENTS, arrival_topic, command, replicate_command
from tests.spark.lake import replicate
from tests.spark.test_routes import MASKED, MASKS, SALT, masked_events
from tests.support.local_server import free_port
from tests.support.postgres_server import PostgresServer
from ticdc_spark.spark import tasks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "postgres-target.md"


def _job(folder: Path, postgres: PostgresServer) -> Path:
    """A job with an empty topic."""
    (folder / "topic").mkdir()
    return write_job(folder, postgres)


def test_commands_tell_of_a_job(spark: SparkSession, tmp_path: Path, postgres: PostgresServer) -> None:
    file = job_of(tmp_path, postgres, EVENTS, 'on-reject = "continue"', 'schema-prefix = "copy_"')
    code, text = command("check", "--quick", str(file))
    assert code == 0, text
    assert f"127.0.0.1:{postgres.port}/copies, PostgreSQL 18.6" in text
    assert f"_ticdc_spark at 127.0.0.1:{postgres.port}/copies will be created" in text
    assert command("dead-letters", str(file)) == (0, "0 dead letters\n")
    replicate(file)
    assert postgres.execute("SELECT * FROM copy_s.t") == [(1, 1)]
    assert not postgres.execute("SELECT FROM pg_namespace WHERE nspname = 's'")
    code, text = command("check", "--quick", str(file))
    assert (code, "will be created" in text) == (0, False), text
    code, text = command("dead-letters", "--json", str(file))
    letter = msgspec.json.decode(text)
    assert (code, letter["topic"], letter["offset"]) == (0, "topic", 2)
    assert "'no number' is no int" in letter["reason"]
    status = msgspec.json.decode(command("status", "--json", str(file))[1])
    assert (status["job"], status["resolved_ts"], status["rejected"]) == (tmp_path.name, 29, 1)
    assert [(one["schema"], one["table"]) for one in status["tables"]] == [("s", "t")]


def test_a_user_who_may_not_make_schemas_is_named_with_the_grant(tmp_path: Path, postgres: PostgresServer) -> None:
    postgres.execute("CREATE USER copier", "CREATE DATABASE granted", "REVOKE CREATE ON DATABASE granted FROM PUBLIC")
    file = _job(tmp_path, postgres)
    uri = f"postgresql://copier@127.0.0.1:{postgres.port}/granted"
    file.write_text(file.read_text().replace(postgres.uri, uri))
    for words in (("check", "--quick"), ("replicate",)):
        code, text = command(*words, str(file))
        assert (code, "Cure: GRANT CREATE ON DATABASE granted TO copier" in text) == (2, True), text


def test_check_names_the_rights_that_the_user_of_the_target_lacks(tmp_path: Path, postgres: PostgresServer) -> None:
    file = job_of(tmp_path, postgres, EVENTS)
    postgres.execute("CREATE USER writer", "CREATE SCHEMA s", "CREATE SCHEMA _ticdc_spark AUTHORIZATION writer")
    place = postgres.uri.partition("@")[2]
    file.write_text(file.read_text().replace(postgres.uri, f"postgresql://writer@{place}"))
    code, text = command("check", "--quick", str(file))
    assert code == 2 and "FAILED  rights" in text, text
    assert text.count("GRANT ") == 1 and "Cure: GRANT USAGE, CREATE ON SCHEMA s TO writer" in text, text
    postgres.execute("GRANT USAGE, CREATE ON SCHEMA s TO writer")
    code, text = command("check", "--quick", str(file))
    assert code == 0 and "ok      rights     the user may write _ticdc_spark, s" in text, text
    postgres.execute("CREATE TABLE s.t (id int PRIMARY KEY)")
    code, text = command("check", "--quick", str(file))
    assert code == 2 and "Cure: ALTER TABLE s.t OWNER TO writer" in text, text
    file.write_text(file.read_text().replace("[sink]", '[sink]\nschema-prefix = "pg_"'))
    code, text = command("check", "--quick", str(file))
    assert code == 4 and "the schema `pg_s`, which is reserved" in text, text
    clear(postgres)


def test_the_target_has_masks_in_place_of_values(spark: SparkSession, tmp_path: Path, postgres: PostgresServer) -> None:
    file = job_of(tmp_path, postgres, masked_events(), f'batch-rows = 5\nmask-salt = "{SALT}"')
    file.write_text(file.read_text() + MASKS)
    replicate(file)
    assert sorted(postgres.execute("SELECT id, email, n, c, b FROM s.t")) == sorted(MASKED)


def test_the_page_is_followed_as_it_is_written(spark: SparkSession, tmp_path: Path, postgres: PostgresServer) -> None:
    """With another source, and other names of the job, the database and the table."""
    text = PAGE.read_text(encoding="utf-8").replace("copies", "followed").replace("copier", "follower")
    ((section,), (setup, reading)) = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("toml", "sql"))
    (tmp_path / "password").write_text("unused\n")
    file = job_of(tmp_path, postgres, EVENTS, 'on-reject = "continue"')
    at = f"@127.0.0.1:{postgres.port}/"
    file.write_text(
        file.read_text().partition("[sink]")[0] + "[sink]" + section.partition("[sink]")[2].replace("@db:5432/", at)
    )
    reading = reading.replace("'shop'", f"'{tmp_path.name}'").replace("shop.orders", "s.t")
    with psycopg.connect(postgres.uri, autocommit=True) as server:
        try:
            _run_sql(server, setup)
            replicate(file)
            with psycopg.connect(f"postgresql://follower:unused{at}followed", autocommit=True) as connection:
                cursors = _run_sql(connection, reading)
                assert [cursor.fetchone() for cursor in cursors[2:4]] == [(29,), (1,)]
        finally:
            _run_sql(server, "DROP DATABASE IF EXISTS followed WITH (FORCE); DROP USER IF EXISTS follower")


def _run_sql(connection: psycopg.Connection[Any], sql: str) -> list[psycopg.Cursor[Any]]:
    return [connection.execute(one) for one in map(str.strip, sql.split(";")) if one]  # type: ignore[arg-type]


def test_in_arrival_mode_older_changes_do_not_win(
    spark: SparkSession, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    clear(postgres)
    arrival_topic(tmp_path)
    file = write_job(tmp_path, postgres, 'mode = "arrival"\nbatch-rows = 3')
    file.write_text(file.read_text().replace('"simple"', '"canal-json"'))
    replicate(file)
    assert sorted(postgres.execute("SELECT id, v FROM s.t")) == [(1, 2), (4, 4), (5, 5)]
    assert postgres.execute("SELECT min(_ticdc_commit_ts) > 0 FROM s.t") == [(True,)]


def test_status_imports_no_spark(tmp_path: Path, postgres: PostgresServer) -> None:
    file = _job(tmp_path, postgres)
    code = (
        "import sys; from click.testing import CliRunner; from ticdc_spark.cli import main; "
        f"CliRunner().invoke(main, ['status', {str(file)!r}]); "
        "print([name for name in ('pyspark', 'pyarrow', 'pyiceberg', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"


def test_a_database_that_is_down_is_named(tmp_path: Path, postgres: PostgresServer) -> None:
    port = free_port()
    file = _job(tmp_path, postgres)
    own = f"postgres@127.0.0.1:{postgres.port}"
    file.write_text(file.read_text().replace(own, f"postgres:secret@127.0.0.1:{port}"))
    for words in (("status",), ("check", "--quick"), ("dead-letters",)):
        code, text = command(*words, str(file))
        assert code == 1, (words, text)
        assert f"127.0.0.1:{port}" in text
        assert "secret" not in text


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        (
            "postgres@no-such-host.invalid:{port}/copies",
            "the host no-such-host.invalid is not known here. Look at `uri`",
        ),
        ("postgres@127.0.0.1:{closed}/copies", "nothing listens at the port {closed} of the host 127.0.0.1"),
        ("nobody:secret@127.0.0.1:{port}/copies", "Look at user and password of `uri` under [sink]"),
        ("postgres@127.0.0.1:{port}/nowhere", "Look at database of `uri` under [sink]"),
    ],
)
def test_the_wrong_part_of_a_uri_is_named_once_and_before_spark_starts(
    tmp_path: Path, postgres: PostgresServer, uri: str, says: str
) -> None:
    ports = {"port": postgres.port, "closed": free_port()}
    file = _job(tmp_path, postgres)
    file.write_text(file.read_text().replace(postgres.uri, f"postgresql://{uri.format(**ports)}"))
    code, text = command("check", "--quick", str(file))
    assert (code, text.count(says.format(**ports))) == (1, 1), text
    assert "secret" not in text
    done = subprocess.run(replicate_command(file), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count(says.format(**ports))) == (1, 1), done.stderr
    assert "Spark: starting" not in done.stderr


def test_a_database_that_cannot_hold_every_text_is_refused(tmp_path: Path, postgres: PostgresServer) -> None:
    clear(postgres)
    made = "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'"
    postgres.execute("DROP DATABASE IF EXISTS latin", made)
    (tmp_path / "topic").mkdir()
    file = write_job(tmp_path, postgres)
    file.write_text(file.read_text().replace("/copies", "/latin"))
    code, text = command("replicate", "--once", str(file))
    assert (code, "the encoding of the database is LATIN1" in " ".join(text.split())) == (4, True), text
