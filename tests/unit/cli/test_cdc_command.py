"""``ticdc-spark cdc-command``: the line that creates a changefeed in TiCDC."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tests.support.job_state import put
from ticdc_spark.cli import main
from ticdc_spark.operate import cdc_command
from ticdc_spark.replicate.state.progress import Progress

TSO = 449576018944000001
METADATA = (
    f"Started dump at: 2024-05-05 10:00:00\nSHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: {TSO}\n\tGTID:\n\n"
    "Finished dump at: 2024-05-05 10:00:01\n"
)


def job_file(folder: Path, protocol: str = "simple", *, job: str = "", source: str = "", more: str = "") -> Path:
    (folder / "dump").mkdir(exist_ok=True)
    (folder / "dump" / "metadata").write_text(METADATA)
    (folder / "dump" / "shop.t-schema.sql").write_text("CREATE TABLE t (id INT PRIMARY KEY);\n")
    file = folder / "job.toml"
    file.write_text(
        f'[job]\nname = "shop_1.eu"\n{job}\n[source]\nkind = "kafka"\nbootstrap-servers = "a:9092,b:9092"\n'
        f'topics = ["cdc shop"]\nprotocol = "{protocol}"\n{source}\n'
        f'[sink]\nkind = "iceberg"\nwarehouse = "lake"\n{more or "[snapshot]"}\n'
    )
    if not more:
        file.write_text(file.read_text() + 'path = "dump"\n')
    return file


def printed(file: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["cdc-command", str(file), *words])
    return done.exit_code, done.output


def words_of(text: str) -> list[str]:
    """The command among what was printed, as a shell reads it."""
    return shlex.split(text[text.index("cdc cli") :].replace("\\\n", " "))


def test_a_changefeed_begins_where_the_dump_ends(tmp_path: Path) -> None:
    code, text = printed(job_file(tmp_path), "--server", "http://cdc:8300")
    assert code == 0, text
    assert text.startswith("# start-ts is the TSO of the dump (2024-05-06 11:53:30.156Z)")
    assert words_of(text) == [
        *("cdc", "cli", "changefeed", "create", "--server=http://cdc:8300", "--changefeed-id=shop-1-eu"),
        *(f"--start-ts={TSO}", "--sink-uri=kafka://a:9092,b:9092/cdc%20shop?protocol=simple"),
    ]
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("protocol", "query"),
    [
        ("open", "protocol=open-protocol"),
        ("canal-json", "protocol=canal-json&enable-tidb-extension=true"),
        ("debezium", "protocol=debezium&enable-tidb-extension=true"),
    ],
)
def test_the_sink_uri_has_what_brings_watermarks(tmp_path: Path, protocol: str, query: str) -> None:
    code, text = printed(job_file(tmp_path, protocol))
    assert (code, words_of(text)[-1].partition("?")[2]) == (0, query)


def test_the_filter_of_the_job_is_that_of_the_changefeed(tmp_path: Path) -> None:
    code, text = printed(job_file(tmp_path, job="""tables = ["shop.*", '!shop."a b"']"""))
    assert code == 0
    assert 'cat > changefeed.toml <<\'END\'\n[filter]\nrules = ["shop.*", "!shop.\\"a b\\""]\nEND\n' in text
    assert "--config=changefeed.toml" in words_of(text)


def test_a_changefeed_of_a_database_begins_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = SimpleNamespace(fixed=None, exact=True, now=lambda: TSO, close=lambda: None)
    monkeypatch.setattr(cdc_command, "open_reader", lambda _: reader)
    file = job_file(tmp_path, more='[snapshot]\nupstream = "mysql://u:p@tidb:4000"')
    code, text = printed(file)
    assert (code, f"--start-ts={TSO}" in words_of(text), "the time of TiDB now" in text) == (0, True, True)
    reader.exact = False
    code, text = printed(file)
    assert (code, "is no TiDB" in text) == (2, True)


def test_a_login_is_left_to_whoever_runs_it(tmp_path: Path) -> None:
    code, text = printed(job_file(tmp_path, source='"kafka.security.protocol" = "SSL"'))
    assert (code, "# the brokers need TLS or a login" in text) == (0, True)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"protocol": "avro", "source": 'schema-registry = "http://r:8081"'}, "avro has no watermarks"),
        ({"more": "[upkeep]"}, "[snapshot]: missing"),
    ],
)
def test_a_job_that_cannot_have_one_is_refused(tmp_path: Path, given: dict[str, str], text: str) -> None:
    code, said = printed(job_file(tmp_path, **given))  # type: ignore[arg-type]
    assert (code, text in said) == (2, True), said


def test_a_topic_gets_no_second_changefeed(tmp_path: Path) -> None:
    file = job_file(tmp_path)
    put(file, Progress(job="shop_1.eu", batch=3))
    code, text = printed(file)
    assert (code, "the job has run already" in text) == (2, True), text
