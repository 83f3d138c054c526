"""Log events with stable names and fields, for programs that read the log."""

from typing import Any

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
