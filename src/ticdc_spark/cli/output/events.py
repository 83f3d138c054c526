"""Log events as lines of JSON (``--log-format json``)."""

import time
from typing import Any

import msgspec

from ticdc_spark.config.secrets import redact
from ticdc_spark.mysql import tso_time


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
