"""Log lines and errors on standard error, as text or as JSON, with no secret in them."""

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from types import TracebackType
from typing import Any, Literal

from rich.console import Console

from ticdc_spark.cli.output.events import json_line
from ticdc_spark.config.secrets import redact
from ticdc_spark.errors import TicdcSparkError

console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False, markup=False)
"""Standard error. Live displays use this console too, or they and the log would overwrite each other."""


_TIME = "%Y-%m-%d %H:%M:%S"


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        console.print(self.format(record))


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = dict(getattr(record, "fields", {}))
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        name, level = getattr(record, "event", "log"), record.levelname.lower()
        return json_line(name, level, record.getMessage(), **fields)


def is_json() -> bool:
    """Whether the log is for programs, one object of JSON a line."""
    return any(isinstance(one.formatter, _JsonFormatter) for one in logging.getLogger("ticdc_spark").handlers)


def set_up(verbose: bool, log_format: Literal["text", "json"] = "text") -> None:
    """Send log lines to standard error, and uncaught exceptions as redacted tracebacks."""
    handler = _Handler()
    is_text = log_format == "text"
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)-7s %(message)s", _TIME) if is_text else _JsonFormatter())
    root = logging.getLogger("ticdc_spark")
    root.handlers = [handler]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    root.propagate = False
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def show_error(error: TicdcSparkError, verbose: bool) -> None:
    """Print an error: the time, its text and notes; with ``verbose`` where it arose."""
    trace = "".join(traceback.format_exception(error)) if verbose else ""
    text = "\n".join([str(error), *getattr(error, "__notes__", ())])
    if is_json():
        more = {"traceback": trace} if trace else {}
        _write_event("error", "error", text, error=type(error).__name__, exit_code=error.exit_code, **more)
    else:
        _write(f"{trace}{_now()} error: {text}\n")


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    text = "".join(traceback.format_exception(kind, error, trace))
    if is_json():
        _write_event("fault", "error", _FAULT, traceback=text)
    else:
        _write(f"{text}{_now()} error: {_FAULT}\n")


_FAULT = "this is a fault of ticdc-spark itself; nothing that was committed is lost"


def _write_event(name: str, level: str, message: str, **fields: Any) -> None:
    console.print(json_line(name, level, message, **fields))


def _now() -> str:
    return time.strftime(_TIME)


def _write(text: str) -> None:
    console.print(redact(text), end="")


@contextmanager
def redacted_children() -> Iterator[None]:
    """Redact what child processes (the JVM, its workers) write to standard error.

    They write to our file descriptor 2 directly. So it becomes a pipe to us while this lasts. What Python writes
    still goes to the original standard error.
    """
    sys.stderr.flush()
    real = os.dup(2)
    reading, writing = os.pipe()
    ended = threading.Event()
    pump = threading.Thread(target=_pump, args=(reading, ended), name="stderr", daemon=True)
    with os.fdopen(os.dup(real), "w", encoding="utf-8", errors="replace", buffering=1) as ours, redirect_stderr(ours):
        os.dup2(writing, 2)
        os.close(writing)
        pump.start()
        try:
            yield
        finally:
            os.dup2(real, 2)
            os.close(real)
            # A JVM that has not ended yet keeps the pipe open. Do not wait for its output.
            pump.join(timeout=1)
            ended.set()


def _pump(reading: int, ended: threading.Event) -> None:
    with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            text = json_line("output", "info", line.rstrip("\n")) if is_json() else redact(line.rstrip("\n"))
            if ended.is_set():
                # Not through the console: Python aborts at its end if a daemon thread holds the lock of sys.stderr.
                os.write(2, f"{text}\n".encode())
            else:
                # Through the console, which redraws its live view below the line.
                console.print(text)
