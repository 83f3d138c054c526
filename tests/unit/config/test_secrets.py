"""Secrets of a job file: resolved, and never shown."""

import base64
import json
import logging
import subprocess
import sys
import traceback
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.config.test_job_file import FILES, JOB, KAFKA, SINK, load, refused, write
from ticdc_spark.config.job import KafkaSource
from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import ReferenceFault, forget, is_secret_key, redact, remember, resolve
from ticdc_spark.errors import UsageError

PASSWORD = 'p"4ss\\w/rd&+ é%'


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recorded").mkdir()
    return tmp_path


@pytest.mark.parametrize("path", ["~nobody-of-that-name/x", "a\0b", "\udc80"])
def test_files_that_cannot_be(path: str, tmp_path: Path) -> None:
    with pytest.raises(ReferenceFault, match="cannot be read"):
        resolve(f"${{file:{path}}}", tmp_path)


def test_references_are_resolved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIVEN", "value")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("UNSET", raising=False)
    (folder / "secret").write_text("from file\n")
    for text, found in {
        "${env:GIVEN}": "value",
        "a${env:GIVEN}b${env:GIVEN}": "avaluebvalue",
        "${env:UNSET:-else}": "else",
        "${env:EMPTY:-else}": "else",
        "${env:EMPTY}": "",
        "${env:GIVEN:-else}": "value",
        "${env:UNSET:-}": "",
        "${env:UNSET:-a:-b}": "a:-b",
        "${file:secret}": "from file",
        f"${{file:{folder}/secret}}": "from file",
        "$${env:GIVEN}": "${env:GIVEN}",
        "${spark.sql.x} ${system:user.home} $ {}": "${spark.sql.x} ${system:user.home} $ {}",
    }.items():
        assert resolve(text, folder) == found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("${env:UNSET}", "environment variable UNSET is not set"),
        ("${env:}", "the name of an environment variable"),
        ("${env:A B}", "the name of an environment variable"),
        ("${env:UNSET", "no closing brace"),
        ("${ENV:UNSET}", "allowed: ${env:UNSET}"),
        ("${file:nowhere}", "No such file"),
        ("${file:.}", "Is a directory"),
        ("${file:bytes}", "not UTF-8"),
    ],
)
def test_a_reference_that_cannot_be_resolved_has_a_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    monkeypatch.delenv("UNSET", raising=False)
    (folder / "bytes").write_bytes(b"\xff")
    with pytest.raises(ReferenceFault) as fault:
        resolve(text, folder)
    assert says in str(fault.value)
    message = refused(folder, source=KAFKA | {'"kafka.ssl.key.password"': f'"{text}"'})
    assert f"[source] kafka.ssl.key.password: {fault.value}" in message


def test_numbers_may_come_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWS", "12")
    monkeypatch.setenv("YES", "true")
    job = load(folder, job=JOB | {"batch-rows": '"${env:ROWS}"', "adopt": '"${env:YES}"'})
    assert (job.batch_rows, job.adopt) == (12, True)
    assert "found '12'" in refused(folder, job=JOB | {"adopt": '"${env:ROWS}"'})


def test_a_secret_is_hidden_in_every_spelling() -> None:
    remember(PASSWORD)
    for spelling in (
        PASSWORD,
        repr(PASSWORD),
        json.dumps(PASSWORD),
        json.dumps({"a": [PASSWORD]}, ensure_ascii=False),
        urllib.parse.quote(PASSWORD, safe=""),
        urllib.parse.quote_plus(PASSWORD),
        base64.b64encode(PASSWORD.encode()).decode(),
    ):
        shown = redact(f"<{spelling}>")
        assert "(secret)" in shown
        assert "4ss" not in shown
        assert redact(shown) == shown


def test_a_multi_line_secret_is_hidden_line_by_line() -> None:
    remember("-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----")
    assert redact("log: MIIEvQIBADANBg") == "log: (secret)"
    assert redact("-----BEGIN KEY-----") == "-----BEGIN KEY-----"


def test_a_short_secret_tears_no_word_apart() -> None:
    remember("ab")
    assert redact("ab, cab, abc, 'ab' x=ab") == "(secret), cab, abc, '(secret)' x=(secret)"
    remember("")
    remember("  ")
    assert redact("a  b") == "a  b"


def test_a_secret_inside_another_leaves_no_rest() -> None:
    remember("secret-one")
    remember("secret-one-and-two")
    assert redact("secret-one-and-two") == "(secret)"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("jdbc:mysql://bob:hunter2@db:3306/x", "jdbc:mysql://bob:(secret)@db:3306/x"),
        ("url?user=bob&password=hunter2&ssl=1", "url?user=bob&password=(secret)&ssl=1"),
        ('Required username="bob" password="hunter 2";', 'Required username="bob" password=(secret);'),
        ("keyPassword = hunter2, x", "keyPassword = (secret), x"),
        ("http://host:80/a@b", "http://host:80/a@b"),
    ],
)
def test_shapes_of_passwords_are_hidden_though_nobody_named_them(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown


@given(st.text(min_size=1).filter(lambda text: text.strip() and text not in "(secret)"), st.text(), st.text())
def test_no_secret_survives(secret: str, before: str, after: str) -> None:
    forget()
    remember(secret)
    shown = redact(f"{before} {secret} {after}").replace("(secret)", "\0")
    assert (secret if len(secret) >= 6 else f" {secret} ") not in shown


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("kafka.sasl.jaas.config", True),
        ("kafka.ssl.keystore.password", True),
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("catalog.s3.secret-access-key", True),
        ("catalog.token", True),
        ("catalog.credential", True),
        ("catalog.token-expires-in-ms", False),
        ("kafka.ssl.key.pem", True),
        ("kafka.ssl.keystore.key", True),
        ("catalog.adls.connection-string", True),
        ("spark.hadoop.fs.azure.sas.box.account.blob.core.windows.net", True),
        ("kafka.sasl.oauthbearer.config", True),
        ("kafka.ssl.key.location", False),
        ("kafka.ssl.keystore.location", False),
        ("kafka.sasl.oauthbearer.token.endpoint.url", False),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", False),
        ("spark.sql.shuffle.partitions", False),
    ],
)
def test_options_whose_value_is_a_secret_are_known_by_name(key: str, secret: bool) -> None:
    assert is_secret_key(key) is secret


def test_a_job_shows_no_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2-env")
    monkeypatch.setenv("BROKER", "broker.example:9092")
    (folder / "token").write_text("hunter2-file\n")
    job = load(
        folder,
        source=KAFKA
        | {
            "bootstrap-servers": '"${env:BROKER}"',
            '"kafka.security.protocol"': '"SASL_SSL"',
            '"kafka.sasl.jaas.config"': """'x required password="${env:KAFKA_PASSWORD}";'""",
        },
        sink=SINK | {'"catalog.uri"': '"https://c"', '"catalog.token"': '"${file:token}"'},
        spark={"spark.hadoop.fs.s3a.secret.key": '"hunter2-plain"'},
    )
    assert isinstance(job.source, KafkaSource)
    assert 'password="hunter2-env"' in job.source.options["kafka.sasl.jaas.config"]
    assert job.sink.catalog_options["token"] == "hunter2-file"
    from rich.pretty import pretty_repr

    for shown in (repr(job), str(job.source), f"{job.sink}", pretty_repr(job, max_width=20), redact(str(job.spark))):
        assert "hunter2" not in shown
        assert "(secret)" in shown
    assert "broker.example:9092" in repr(job)


def test_the_secret_of_a_rest_catalog_is_hidden_without_its_client(folder: Path) -> None:
    load(folder, sink=SINK | {'"catalog.credential"': '"shop:hunter2-plain"'})
    assert redact("shop, client_secret=hunter2-plain") == "shop, client_secret=(secret)"


def test_a_mistake_shows_no_secret(folder: Path) -> None:
    (folder / "token").write_text("hunter2-file")
    message = refused(
        folder, job=JOB | {"on-reject": '"${file:token}"'}, source=FILES | {"protocol": '"x${file:token}"'}
    )
    assert "hunter2" not in message
    assert "found '(secret)'" in message


def test_a_traceback_shows_no_secret() -> None:
    remember("hunter2-trace")
    try:
        raise ValueError("outer") from OSError("login with hunter2-trace failed")
    except ValueError as error:
        text = "".join(traceback.format_exception(error))
    assert "hunter2" in text
    assert "hunter2" not in redact(text)


RUN = """
import logging, subprocess, sys, threading
from ticdc_spark.cli.output.logging import redacted_children, set_up
from ticdc_spark.config.load import load_job

job = load_job(sys.argv[1])
set_up(verbose=True)
log = logging.getLogger("ticdc_spark.test")
password = job.source.options["kafka.ssl.key.password"]
log.info("connect with %s", password)
try:
    raise OSError(password)
except OSError:
    log.exception("it failed")
with redacted_children():
    # A JVM writes to standard error by itself.
    java = f"java.sql.SQLException: Access denied\\n\\tat x.Y(password {password})"
    subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write(sys.argv[1])", java], check=True)
    log.info("still %s", password)
thread = threading.Thread(target=int, args=(password,))
thread.start()
thread.join()
raise RuntimeError(password)
"""


def test_no_way_out_shows_a_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_PASSWORD", "hunter2-run")
    path = write(folder, source=KAFKA | {'"kafka.ssl.key.password"': '"${env:KEY_PASSWORD}"'})
    done = subprocess.run([sys.executable, "-c", RUN, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "hunter2" not in done.stdout + done.stderr
    for part in (
        "connect with (secret)",
        "OSError: (secret)",
        "java.sql.SQLException: Access denied\n",
        "        at x.Y(password (secret))\n",
        "still (secret)",
        "invalid literal for int() with base 10: '(secret)'",
        "RuntimeError: (secret)",
    ):
        assert part in done.stderr, done.stderr


def test_a_secret_that_is_gone_is_a_mistake_that_names_the_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GONE", raising=False)
    path = write(folder, spark={"spark.x": '"${env:GONE}"'})
    with pytest.raises(UsageError, match=r"\[spark\] spark\.x: environment variable GONE is not set"):
        load_job(path)


def test_log_arguments_are_redacted_too() -> None:
    from ticdc_spark.cli.output.logging import _Formatter

    remember("hunter2-args")
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "with %s", ("hunter2-args",), None)
    assert _Formatter("%(message)s").format(record) == "with (secret)"
