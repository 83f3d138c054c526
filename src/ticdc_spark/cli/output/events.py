"""Log events with stable names and fields, for programs that read the log (``--log-format json``)."""

import time
from typing import Any

import msgspec

from ticdc_spark.config.secrets import redact
from ticdc_spark.mysql import tso_time

EVENTS = {
    "batch": "`replicate` has committed a batch, or has found nothing new for 30 seconds.",
    "table": "A table's condition has changed: `clean`, `diverged` and so on, as in `status`.",
    "retry": "A connection has failed, and the job tries again.",
    "upkeep": "The files of a table were compacted, or that failed.",
    "sent": "`changefeed` reports its progress, now and then.",
    "end": "The command has ended without an error.",
    "error": "An error has ended the command. `error` is its class, `exit_code` its code.",
    "fault": "A fault of ticdc-spark itself. Please report it.",
    "output": "Spark, Java or another child process has written a line.",
    "log": "Any other log line.",
}
"""The names of events, and what they mean."""


def event(name: str, **fields: Any) -> dict[str, Any]:
    """The argument ``extra`` of a log call for an event. Raises: KeyError for a name that is not one of ``EVENTS``"""
    EVENTS[name]
    return {"event": name, "fields": fields}


def lag_seconds(commit_ts: int) -> float | None:
    """The age of a commit_ts in seconds; ``None``: there is none."""
    lag = tso_time.lag(commit_ts, time.time())
    return None if lag is None else round(lag, 3)


def json_line(name: str, level: str, message: str, **fields: Any) -> str:
    """An event as one line of JSON, without secrets and with no line break in it."""
    now = time.time()
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"
    line = {"time": at, "level": level, "event": name, "message": message, **fields}
    # Redact before encoding: a secret with a quote in it would not be found in JSON.
    return msgspec.json.encode(_redacted(line), enc_hook=str).decode()


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _redacted(one) for key, one in value.items()}
    return [_redacted(one) for one in value] if isinstance(value, list | tuple) else value
