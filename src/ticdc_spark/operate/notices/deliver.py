"""How a notice reaches who is to hear of it: by a webhook, or by a program."""

import os
import subprocess
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

import msgspec

from ticdc_spark.config.job import Notice
from ticdc_spark.config.secrets import redact
from ticdc_spark.operate.notices.change import Message

SECONDS = 10.0
"""That a webhook or a program has."""


class NotDelivered(Exception):
    """A notice that did not arrive; the text says why, without secrets."""


def deliver(notice: Notice, message: Message) -> None:
    """Send a message once. Raises: NotDelivered"""
    body = msgspec.json.encode(message)
    if notice.webhook is not None:
        _post(notice.webhook, notice.authorization, body)
    elif notice.command is not None:
        _run(notice.command, message, body)


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
    about = {"TICDC_SPARK_JOB": message.job, "TICDC_SPARK_STATE": message.state, "TICDC_SPARK_TEXT": message.text}
    try:
        done = subprocess.run(
            command,
            input=body,
            env={**os.environ, **about},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
            start_new_session=True,  # Ctrl-C is for the job
        )
    except subprocess.TimeoutExpired as error:
        raise NotDelivered(f"{command[0]} ran for {SECONDS:.0f} s and was ended") from error
    except (OSError, ValueError) as error:
        raise NotDelivered(f"{command[0]} cannot be run: {redact(str(error))}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        why = f": {redact(said[0])[:200]}" if said else ""
        raise NotDelivered(f"{command[0]} ended with exit code {done.returncode}{why}")
