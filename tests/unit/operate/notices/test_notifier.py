"""Notices over a real webhook and by a real program: what arrives, when, and what a run does not wait for."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.page_examples import seen
from tests.support.status_examples import NOW, PROGRESS, WELL, beat
from ticdc_spark.config.job import Notice
from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import remember
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.operate.notices import deliver, notifier
from ticdc_spark.operate.notices.notifier import Recipient, notifying
from ticdc_spark.operate.page.settings import settings
from ticdc_spark.operate.status import JobStatus
from ticdc_spark.replicate.state.processes import process
from ticdc_spark.replicate.state.progress import Progress

SECRET = "Bearer of-the-test-and-no-other"


class Hook:
    """A webhook: what came, and how it answers."""

    def __init__(self) -> None:
        self.came: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.tries = 0
        self.status = 204
        self.wait = threading.Event()
        self.wait.set()
        self.url = ""


@contextmanager
def webhook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.tries += 1
            hook.wait.wait(30)
            if hook.status < 300:
                hook.came.append(json.loads(body))
                hook.headers.append(self.headers)
            self.send_response(hook.status)
            if hook.status in (301, 302, 307):
                self.send_header("Location", hook.url + "elsewhere")
            self.end_headers()

        do_GET = do_POST  # noqa: N815  a redirect would come so

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.wait.set()
        server.shutdown()
        server.server_close()


def status(progress: Progress = WELL, state: str = "normal") -> JobStatus:
    return seen(progress, beat(state, phase="waiting"), runs=state not in ("failed", "stopped")).status


BAD = status(PROGRESS)
WELL_NOW = status()


def wait_until(true: Any) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_webhook_gets_each_change_once_as_json() -> None:
    with webhook() as hook:
        recipient = Recipient("shop", 1, Notice(webhook=hook.url, authorization=SECRET, pause=60.0))
        for now, state in ((0, WELL_NOW), (1, WELL_NOW), (2, BAD), (3, BAD)):
            recipient.hear(state, NOW + now)
        (found,) = hook.came
    assert (found["state"], found["was"], found["job"], found["tables_changed"]) == ("warning", "normal", "shop", 2)
    assert (hook.headers[0]["Content-Type"], hook.headers[0]["Authorization"]) == ("application/json", SECRET)


def test_what_comes_within_the_pause_is_one_notice_and_what_goes_again_is_none() -> None:
    with webhook() as hook:
        recipient = Recipient("shop", 1, Notice(webhook=hook.url, pause=60.0))
        recipient.hear(WELL_NOW, NOW)
        assert recipient.hear(BAD, NOW + 1)
        assert not recipient.hear(WELL_NOW, NOW + 2), "it waits"
        assert recipient.hear(BAD, NOW + 3), "it is as the last notice said"
        assert recipient.hear(BAD, NOW + 100)
        assert len(hook.came) == 1
        assert recipient.hear(WELL_NOW, NOW + 101)
        assert [one["state"] for one in hook.came] == ["warning", "normal"]


def test_a_job_that_starts_is_no_news_and_one_that_runs_again_is() -> None:
    with webhook() as hook:
        recipient = Recipient("shop", 1, Notice(webhook=hook.url))
        recipient.hear(status(WELL, "failed"), NOW)
        recipient.hear(status(WELL, "pending"), NOW + 1)
        assert hook.came == []
        recipient.hear(WELL_NOW, NOW + 2)
        assert [(one["state"], one["was"]) for one in hook.came] == [("normal", "failed")]


def test_only_the_tables_of_a_notice_are_in_it() -> None:
    with webhook() as hook:
        recipient = Recipient("shop", 1, Notice(webhook=hook.url, tables=("shop.a",)))
        recipient.hear(WELL_NOW, NOW)
        recipient.hear(BAD, NOW + 1)
        assert [table["name"] for table in hook.came[0]["tables"]] == ["shop.a"]


def test_a_webhook_that_fails_is_asked_again_with_longer_pauses_and_hears_what_is_so_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with webhook() as hook, caplog.at_level(logging.WARNING):
        remember(SECRET)
        hook.status = 500
        recipient = Recipient("shop", 1, Notice(webhook=hook.url, authorization=SECRET))
        recipient.hear(WELL_NOW, NOW)
        tried = []
        for second in range(1, 20):
            before = hook.tries
            recipient.hear(BAD, NOW + second)
            if hook.tries > before:
                tried.append(second)
        assert tried == [1, 3, 7, 15]
        assert len(caplog.records) == 1 and "the webhook answers 500" in caplog.text
        assert SECRET not in caplog.text
        hook.status = 200
        recipient.hear(status(WELL, "stopped"), NOW + 400)
        assert [(one["state"], one["was"]) for one in hook.came] == [("stopped", "normal")]


@pytest.mark.parametrize("code", [301, 302, 307])
def test_a_notice_goes_nowhere_else(code: int) -> None:
    with webhook() as hook:
        hook.status = code
        with pytest.raises(deliver.NotDelivered, match=f"answers {code}"):
            send(Notice(webhook=hook.url))
        assert hook.tries == 1


def send(notice: Notice) -> None:
    before, now = (notifier.standing_of(one, lambda *_: True) for one in (WELL_NOW, BAD))
    found = notifier.message("shop", before, now, NOW)
    assert found is not None
    deliver.deliver(notice, found)


def test_a_program_gets_the_notice_on_its_input(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f"import os, sys; open({str(out)!r}, 'w').write(os.environ['TICDC_SPARK_STATE'] + sys.stdin.read())"
    send(Notice(command=(sys.executable, "-c", script)))
    said = out.read_text()
    assert said.startswith("warning{") and json.loads(said.removeprefix("warning"))["job"] == "shop"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("/no/such/program",), "/no/such/program cannot be run: .*No such file"),
        ((sys.executable, "-c", "import sys; sys.exit('no pager')"), "ended with exit code 1: no pager"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "ran for 0 s and was ended"),
    ],
)
def test_a_program_that_fails_is_said(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], why: str) -> None:
    if "sleep" in command[-1]:
        monkeypatch.setattr(deliver, "SECONDS", 0.2)
    with pytest.raises(deliver.NotDelivered, match=why):
        send(Notice(command=command))


def test_a_webhook_that_goes_on_answering_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "SECONDS", 0.5)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            client, _ = server.accept()
            client.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            with client, suppress(OSError):
                while not over.wait(0.05):
                    client.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        began = time.monotonic()
        with pytest.raises(deliver.NotDelivered, match="does not respond"):
            send(Notice(webhook=f"http://127.0.0.1:{server.getsockname()[1]}/"))
        assert time.monotonic() - began < 5
        over.set()
        thread.join()


def test_a_program_gets_a_notice_with_long_sql_in_it() -> None:
    before, now = (notifier.standing_of(one, lambda *_: True) for one in (WELL_NOW, BAD))
    found = notifier.message("shop", before, msgspec.structs.replace(now, reason="x" * 300_000), NOW)
    assert found is not None
    command = (sys.executable, "-c", "import json, sys; assert len(json.load(sys.stdin)['reason']) == 300_000")
    deliver.deliver(Notice(command=command), found)


def test_what_a_program_leaves_running_is_not_waited_for() -> None:
    began = time.monotonic()
    send(Notice(command=("sh", "-c", "cat > /dev/null; sleep 30 & exit 0")))
    assert time.monotonic() - began < 8


def test_a_program_that_takes_too_long_is_ended_with_what_it_has_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(deliver, "SECONDS", 3.0)
    with pytest.raises(deliver.NotDelivered, match="was ended"):
        send(Notice(command=("sh", "-c", f"sleep 300 & echo $! > {tmp_path}/pid; wait")))
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: process(child) is None)


def test_recipients_do_not_wait_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "LAST_TRIES", (0.0,))
    monkeypatch.setattr(deliver, "SECONDS", 1.0)
    with webhook() as hook:
        hook.wait.clear()
        recipients = [Recipient("shop", number, Notice(webhook=hook.url)) for number in range(5)]
        states = [WELL_NOW, status(WELL, "finished")]
        began = time.monotonic()
        with notifying(recipients, lambda: states.pop(0), lambda: WELL_NOW, every=60.0):
            pass
        assert time.monotonic() - began < 4
        assert hook.tries == 5


def test_a_run_does_not_wait_for_a_webhook_and_its_end_is_told() -> None:
    states = [WELL_NOW]
    with webhook() as hook:
        hook.wait.clear()
        recipient = Recipient("shop", 1, Notice(webhook=hook.url, pause=0.0))
        with notifying([recipient], lambda: states[-1], lambda: states[-1], every=0.01):
            began = time.monotonic()
            states.append(BAD)
            wait_until(lambda: hook.tries)
            assert time.monotonic() - began < 10, "the run goes on"
            states.append(status(WELL, "stopped"))
            hook.wait.set()
        assert [one["state"] for one in hook.came][-1] == "stopped"


def test_a_run_that_fails_says_so_also_where_its_state_could_not_be_written() -> None:
    with webhook() as hook:
        recipient = Recipient("shop", 1, Notice(webhook=hook.url))
        with (
            pytest.raises(SinkFault),
            notifying([recipient], lambda: WELL_NOW, lambda: WELL_NOW, every=60.0),
        ):
            raise SinkFault("catalog 'lake' does not answer")
        (found,) = hook.came
        assert (found["state"], found["reason"]) == ("failed", "catalog 'lake' does not answer")


def test_a_run_ends_though_nobody_hears_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(notifier, "LAST_TRIES", (0.0, 0.01))
    recipient = Recipient("shop", 1, Notice(webhook="http://127.0.0.1:9/"))
    states = [WELL_NOW, status(WELL, "finished")]
    with notifying([recipient], lambda: states.pop(0), lambda: WELL_NOW, every=60.0):
        pass
    assert states == []
    assert len(caplog.records) == 1 and "[[notice]] 1 was not delivered" in caplog.text


JOB = (
    '[job]\nname = "shop"\n[source]\nkind = "kafka"\nbootstrap-servers = "b:9092"\ntopics = ["shop"]\n'
    '[sink]\nkind = "iceberg"\nwarehouse = "lake"\n[[notice]]\n'
)


def test_a_job_file_names_who_hears_of_it(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    (tmp_path / "hook").write_text("https://hooks.example/very-secret\n")
    path.write_text(JOB + 'webhook = "${file:hook}"\npause = "5m"\n[[notice]]\ncommand = ["page", "--now"]\n')
    first, second = load_job(path).notices
    assert (first.webhook, first.pause, second.command) == (
        "https://hooks.example/very-secret",
        300.0,
        ("page", "--now"),
    )
    assert "very-secret" not in repr(first) + str(settings(path))
    assert msgspec.structs.asdict(second)["webhook"] is None


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ("", "exactly one of `webhook` and `command`"),
        ('webhook = "https://h/x"\ncommand = ["page"]\n', "exactly one of `webhook` and `command`"),
        ('command = ["page"]\nauthorization = "Bearer x"\n', r"\[\[notice\]\] authorization: is of a webhook"),
        ('webhook = "ftp://h/x"\n', 'allowed: a URL such as "https://hooks.example/x"'),
        ('webhook = "https://h/x y"\n', "allowed: a URL"),
        ("command = []\n", "allowed: a program and its arguments"),
        ('webhook = "https://h/x"\nauthorization = "a\\nb"\n', "allowed: a text in ASCII"),
    ],
)
def test_a_notice_that_cannot_be_sent_is_a_mistake(tmp_path: Path, keys: str, wrong: str) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(JOB + keys)
    with pytest.raises(UsageError, match=wrong):
        load_job(path)
