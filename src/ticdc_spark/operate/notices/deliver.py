"""Delivers notices to a webhook or a program."""

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
"""Time limit for a webhook or a program."""
_LONGEST_TEXT = 8192
"""Limit for an environment variable in characters. Systems refuse longer ones, and the SQL of a DDL may be long."""
_LAST_LINE = 4096
"""The last line of a program's output is searched in this many bytes at its end."""


class NotDelivered(Exception):
    """A notice was not delivered; the text has the reason, without secrets."""


def deliver(notice: Notice, message: Message) -> None:
    """Send a message once. Raises: NotDelivered"""
    body = msgspec.json.encode(message)
    if notice.webhook is not None:
        webhook, authorization = notice.webhook, notice.authorization
        _in_time(lambda: _post(webhook, authorization, body))
    elif notice.command is not None:
        _run(notice.command, message, body)


def _in_time(send: Callable[[], None]) -> None:
    """Send, and wait at most ``SECONDS`` in total. A socket's timeout covers each read separately, and not the lookup
    of the address. A server that sends a byte now and then could delay the end of a job forever."""
    failed: list[Exception] = []

    def run() -> None:
        try:
            send()
        except Exception as error:  # noqa: BLE001  raised again by the caller's thread
            failed.append(error)

    thread = threading.Thread(target=run, name="webhook", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        raise NotDelivered(f"the webhook does not respond within {SECONDS:.0f} s")
    if failed:
        raise failed[0]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects are not followed: a notice is only sent to the address in the job file."""

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
        raise NotDelivered(f"the webhook does not respond: {redact(str(reason))}") from error


def _run(command: tuple[str, ...], message: Message, body: bytes) -> None:
    text = message.text[:_LONGEST_TEXT]
    about = {"TICDC_SPARK_JOB": message.job, "TICDC_SPARK_STATE": message.state, "TICDC_SPARK_TEXT": text}
    # Not a pipe: a process that the program leaves running may hold it open, and the job would wait for it.
    with tempfile.TemporaryFile() as said:
        try:
            with subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, **about},
                start_new_session=True,  # Ctrl-C must only reach the job
            ) as program:
                try:
                    program.communicate(body, timeout=SECONDS)
                except subprocess.TimeoutExpired:
                    os.killpg(program.pid, signal.SIGKILL)  # also ends the processes that it started
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
