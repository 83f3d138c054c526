"""The commands of a job whose target is a MariaDB: all but ``replicate`` do without Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pymysql
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.integration.mysql_jobs import job_of, write_job
from tests.spark.deaths import delete, update
from tests.spark.lake import replicate
from tests.spark.simple_topic import INT, ddl, insert, table
from tests.spark.test_routes import MASKED, MASKS, SALT, masked_events
from tests.support.local_server import free_port
from tests.support.mariadb_server import Server
from tests.support.recorded_topics import Line, write_json
from ticdc_spark.cli import main
from ticdc_spark.model import Change, Column, RowChange, SchemaChange, Watermark
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig, encoder
from ticdc_spark.spark import tasks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "mysql-target.md"
V = Column(name="v", type=INT)
T = table(10, V)
EVENTS: list[Change] = [
    ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT)", T),
    insert(T, 20, id="1", v="1"),
    insert(T, 21, id="2", v="no number"),
    Watermark(30),
]


def command(*words: str) -> tuple[int, str]:
    """Run a command in this process; its exit code and what it printed."""
    done = CliRunner().invoke(main, words)
    return done.exit_code, done.output


def replicate_command(file: Path) -> list[str]:
    """The command in a process of its own."""
    return [sys.executable, "-c", "from ticdc_spark.cli import main; main()", "replicate", "--once", str(file)]


def _job(folder: Path, target: Server) -> Path:
    """A job with an empty topic."""
    (folder / "topic").mkdir()
    return write_job(folder, target)


def test_a_table_goes_to_the_name_that_its_rule_gives(spark: SparkSession, tmp_path: Path, target: Server) -> None:
    rename = ddl("RENAME", 40, "RENAME TABLE `s`.`t` TO `s`.`archive`", table(40, V, name="archive"), T)
    events = [
        *EVENTS[:2],
        Watermark(40),
        rename,
        insert(table(40, V, name="archive"), 50, id="2", v="2"),
        Watermark(60),
    ]
    file = job_of(tmp_path, target, events, "batch-rows = 3", 'database-prefix = "copy_"')
    routes = '[[route]]\ntables = ["s.archive"]\ntarget-schema = "old"\n'
    file.write_text(f'{file.read_text()}\n{routes}[[route]]\ntables = ["*.*"]\ntarget-table = "{{schema}}_{{table}}"\n')
    replicate(file)
    assert target.execute("SELECT * FROM copy_old.archive ORDER BY id") == [(1, 1), (2, 2)]
    assert target.execute("SHOW TABLES FROM copy_s") == []
    target.execute("DROP DATABASE copy_old", "DROP DATABASE copy_s")
    code, text = command("status", str(file))
    assert (code, "s.archive → old.archive" in text) == (0, True), text


def test_the_target_has_masks_in_place_of_values(spark: SparkSession, tmp_path: Path, target: Server) -> None:
    file = job_of(tmp_path, target, masked_events(), f'batch-rows = 5\nmask-salt = "{SALT}"')
    file.write_text(file.read_text() + MASKS)
    replicate(file)
    assert sorted(target.execute("SELECT * FROM s.t")) == sorted(MASKED)
    ((made,),) = target.execute(
        "SELECT column_type FROM information_schema.columns WHERE table_name = 't' "
        "AND table_schema = 's' AND column_name = 'email'"
    )
    assert made == "char(64)"


def test_commands_tell_of_a_job(spark: SparkSession, tmp_path: Path, target: Server) -> None:
    file = job_of(tmp_path, target, EVENTS, 'on-reject = "continue"', 'database-prefix = "copy_"')
    target.execute("DROP DATABASE IF EXISTS copy_s")
    code, text = command("check", "--quick", str(file))
    assert code == 0, text
    ((version,),) = target.execute("SELECT VERSION()")
    assert f"127.0.0.1:{target.port}, {version}" in text
    assert f"_ticdc_spark at 127.0.0.1:{target.port} will be created" in text
    assert command("dead-letters", str(file)) == (0, "0 dead letters\n")
    replicate(file)
    assert target.execute("SELECT * FROM copy_s.t") == [(1, 1)]
    assert not target.execute("SHOW DATABASES LIKE 's'")
    code, text = command("check", "--quick", str(file))
    assert (code, "will be created" in text) == (0, False), text
    code, text = command("dead-letters", "--json", str(file))
    letter = msgspec.json.decode(text)
    assert (code, letter["topic"], letter["offset"]) == (0, "topic", 2)
    assert "'no number' is no int" in letter["reason"]
    status = msgspec.json.decode(command("status", "--json", str(file))[1])
    assert (status["job"], status["resolved_ts"], status["rejected"]) == (tmp_path.name, 29, 1)
    assert [(one["schema"], one["table"]) for one in status["tables"]] == [("s", "t")]


def test_check_names_the_rights_that_the_user_of_the_target_lacks(tmp_path: Path, target: Server) -> None:
    job_of(tmp_path, target, EVENTS)
    user = "copier@'127.0.0.1'"
    target.execute(f"DROP USER IF EXISTS {user}", f"CREATE USER {user} IDENTIFIED BY 'p'")
    target.execute(f"GRANT ALL ON _ticdc_spark.* TO {user}")
    limited = target.uri.replace("root@", "copier:p@")
    file = tmp_path / "job.toml"
    file.write_text(file.read_text().replace(target.uri, limited))
    code, text = command("check", "--quick", str(file))
    cure = "ON `s`.* TO 'copier'@'127.0.0.1'"
    assert code == 2 and "FAILED  rights" in text and cure in text and "ON `_ticdc_spark`" not in text, text
    target.execute(f"GRANT ALL ON s.* TO {user}")
    code, text = command("check", "--quick", str(file))
    assert code == 0 and "ok      rights     the user may write _ticdc_spark, s" in text, text


def test_the_page_is_followed_as_it_is_written(spark: SparkSession, tmp_path: Path, target: Server) -> None:
    """With another source, another name of the job, and other tables."""
    text = PAGE.read_text(encoding="utf-8").replace("copier", "follower").replace("`shop`", "`s`")
    ((section,), (setup, reading)) = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("toml", "sql"))
    (tmp_path / "password").write_text("…\n")
    file = job_of(tmp_path, target, EVENTS, 'on-reject = "continue"')
    sink = section.partition("[sink]")[2].replace("@db:3306", f"@127.0.0.1:{target.port}")
    file.write_text(file.read_text().partition("[sink]")[0] + "[sink]" + sink)
    reading = reading.replace("'shop'", f"'{tmp_path.name}'").replace("shop.orders", "s.t")
    try:
        target.execute(*statements(setup))
        replicate(file)
        with pymysql.connect(host="127.0.0.1", port=target.port, user="follower", password="…".encode()) as connection:
            found = [_asked(connection, sql) for sql in statements(reading)]
        assert found[1:3] == [((29,),), ((1,),)]
    finally:
        target.execute("DROP USER IF EXISTS follower")


def statements(sql: str) -> list[str]:
    return [one for one in map(str.strip, sql.split(";")) if one]


def _asked(connection: pymysql.Connection[Any], sql: str) -> tuple[tuple[Any, ...], ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return tuple(cursor.fetchall())


def test_status_imports_no_spark(tmp_path: Path, target: Server) -> None:
    file = _job(tmp_path, target)
    code = (
        "import sys; from click.testing import CliRunner; from ticdc_spark.cli import main; "
        f"CliRunner().invoke(main, ['status', {str(file)!r}]); "
        "print([name for name in ('pyspark', 'pyarrow', 'pyiceberg', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"


def test_what_a_mysql_sink_cannot_do_is_refused_before_spark_starts(tmp_path: Path, target: Server) -> None:
    file = _job(tmp_path, target)
    code, text = command("upkeep", str(file))
    assert code == 4
    assert "this kind of sink cannot do that (`upkeep`)" in text


def test_a_server_that_is_down_is_named(tmp_path: Path, target: Server) -> None:
    port = free_port()
    file = _job(tmp_path, target)
    file.write_text(file.read_text().replace(f"root@127.0.0.1:{target.port}", f"root:secret@127.0.0.1:{port}"))
    for words in (("status",), ("check", "--quick"), ("dead-letters",), ("replicate", "--once")):
        code, text = command(*words, str(file))
        assert code == 1, (words, text)
        assert f"127.0.0.1:{port}" in text
        assert "secret" not in text


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("root@no-such-host.invalid:{port}", "the host no-such-host.invalid is not known here. Look at `uri`"),
        ("root@127.0.0.1:{closed}", "nothing listens at the port {closed} of the host 127.0.0.1"),
        ("root:secret@127.0.0.1:{port}", "Look at user and password of `uri` under [sink]"),
    ],
)
def test_the_wrong_part_of_a_uri_is_named_once_and_before_spark_starts(
    tmp_path: Path, target: Server, uri: str, says: str
) -> None:
    ports = {"port": target.port, "closed": free_port()}
    file = _job(tmp_path, target)
    file.write_text(file.read_text().replace(target.uri, f"mysql://{uri.format(**ports)}"))
    code, text = command("check", "--quick", str(file))
    assert (code, text.count(says.format(**ports))) == (1, 1), text
    assert "secret" not in text
    done = subprocess.run(replicate_command(file), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count(says.format(**ports))) == (1, 1), done.stderr
    assert "Spark: starting" not in done.stderr


def arrival_topic(folder: Path) -> None:
    """Write the topic of a job in arrival mode: older changes come behind newer ones."""
    canal = encoder(CanalJsonConfig(enable_tidb_extension=True))
    one, two, three = ({"id": str(key), "v": "1"} for key in (1, 2, 3))
    parts: tuple[list[RowChange | SchemaChange], ...] = (
        [
            ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT)", T),
            *(insert(T, 20, **row) for row in (one, two, three)),
            update(T, 40, one, v="2"),
            delete(T, 50, **two),
            insert(T, 60, id="4", v="4"),
        ],
        # The first partition was read before; these come again, and later.
        [
            *(insert(T, 20, **row) for row in (one, two, three)),
            update(T, 40, one, v="2"),
            update(T, 41, two, v="7"),
            update(T, 61, three, id="5", v="5"),
        ],
    )
    for partition, events in enumerate(parts):
        sent = [canal.ddl(one) if isinstance(one, SchemaChange) else next(iter(canal.rows([one]))) for one in events]
        lines = [
            Line("topic", partition, at, None, message.key, message.value)
            for at, message in enumerate(sent)
            if message is not None
        ]
        write_json(folder / "topic" / f"{partition}.jsonl", lines)


@pytest.mark.parametrize("small", [0, 20_000])
def test_in_arrival_mode_older_changes_do_not_win(
    spark: SparkSession, tmp_path: Path, target: Server, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(tasks, "SMALL_ROWS", small)
    arrival_topic(tmp_path)
    target.execute("DROP DATABASE IF EXISTS s", "DROP DATABASE IF EXISTS _ticdc_spark")
    file = write_job(tmp_path, target, 'mode = "arrival"\nbatch-rows = 3')
    file.write_text(file.read_text().replace('"simple"', '"canal-json"'))
    replicate(file)
    assert sorted(target.execute("SELECT id, v FROM s.t")) == [(1, 2), (4, 4), (5, 5)]
    names = [name for name, *_ in target.execute("SHOW COLUMNS IN s.t")]
    assert names == ["id", "v", "_ticdc_commit_ts"]
