"""How a notice reaches who is to hear of it: by a webhook, or by a program."""

import os
import signal
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Any

import msgspec

from ticdc_spark.config.job import Notice
from ticdc_spark.config.secrets import redact
from ticdc_spark.operate.notices.change import Message

SECONDS = 10.0
"""That a webhook or a program has."""
_LONGEST_TEXT = 8192
"""Characters in the environment of a program: a longer variable is refused, and the SQL of a DDL may be long."""
_LAST_LINE = 4096
"""Bytes at the end of what a program says in which its last line is looked for."""


class NotDelivered(Exception):
    """A notice that did not arrive; the text says why, without secrets."""


def deliver(notice: Notice, message: Message) -> None:
    """Send a message once. Raises: NotDelivered"""
    body = msgspec.json.encode(message)
    if notice.webhook is not None:
        webhook, authorization = notice.webhook, notice.authorization
        _in_time(lambda: _post(webhook, authorization, body))
    elif notice.command is not None:
        _run(notice.command, message, body)


def _in_time(send: Callable[[], None]) -> None:
    """Send, and wait no longer than ``SECONDS`` for it all. A timeout of a socket is one of each read, and none of the
    search for an address: a server that sends a byte now and then would hold the end of a job for ever."""
    failed: list[Exception] = []

    def run() -> None:
        try:
            send()
        except Exception as error:  # noqa: BLE001  raised again by who waits
            failed.append(error)

    thread = threading.Thread(target=run, name="webhook", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        raise NotDelivered(f"the webhook does not answer: it had {SECONDS:.0f} s")
    if failed:
        raise failed[0]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A notice goes where the job file says, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def _post(url: str, authorization: str | None, body: bytes) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "ticdc-spark"}
    headers |= {"Authorization": authorization} if authorization else {}
    try:
        with _OPENER.open(urllib.request.Request(url, body, headers), timeout=SECONDS) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        with error:
            raise NotDelivered(f"the webhook answers {error.code} {redact(str(error.reason))}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NotDelivered(f"the webhook does not answer: {redact(str(reason))}") from error


def _run(command: tuple[str, ...], message: Message, body: bytes) -> None:
    text = message.text[:_LONGEST_TEXT]
    about = {"TICDC_SPARK_JOB": message.job, "TICDC_SPARK_STATE": message.state, "TICDC_SPARK_TEXT": text}
    # Not a pipe: what the program leaves running may hold one open, and would be waited for.
    with tempfile.TemporaryFile() as said:
        try:
            with subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, **about},
                start_new_session=True,  # Ctrl-C is for the job
            ) as program:
                try:
                    program.communicate(body, timeout=SECONDS)
                except subprocess.TimeoutExpired:
                    os.killpg(program.pid, signal.SIGKILL)  # with what it has started
                    raise
        except subprocess.TimeoutExpired as error:
            raise NotDelivered(f"{command[0]} ran for {SECONDS:.0f} s and was ended") from error
        except (OSError, ValueError) as error:
            raise NotDelivered(f"{command[0]} cannot be run: {redact(str(error))}") from error
        if program.returncode:
            said.seek(max(0, said.seek(0, os.SEEK_END) - _LAST_LINE))
            lines = said.read().decode(errors="replace").strip().splitlines()[-1:]
            why = f": {redact(lines[0])[:200]}" if lines else ""
            raise NotDelivered(f"{command[0]} ended with exit code {program.returncode}{why}")
