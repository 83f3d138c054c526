"""Turns errors of Spark and its tasks into errors of this package."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ticdc_spark.errors import MessageError, SinkFault, SourceFault, os_reason
from ticdc_spark.spark.tasks import MOVED, UNREADABLE, SourceMoved, UnreadableRows

_UNREAD = re.compile(rf"^{SourceFault.__module__}\.{SourceFault.__name__}: (.*)$", re.MULTILINE)
"""Matches the last line of a Python worker's traceback if reading the source failed."""
_REFUSED = re.compile(rf"^{SinkFault.__module__}\.{SinkFault.__name__}: (.*)$", re.MULTILINE)
"""The same if the operating system refused a file of the target."""
_UNREADABLE = re.compile(rf"\b{UNREADABLE}: .*$", re.MULTILINE)
"""The same if a row that must not be skipped could not be read."""
_MOVED = re.compile(rf"\b{MOVED}: (.*)$", re.MULTILINE)
"""The same if the table of a full read was replaced or altered meanwhile."""


def _no_advice(_reason: str) -> str:
    return ""


@contextmanager
def spark_faults(what: str, advise: Callable[[str], str] = _no_advice) -> Iterator[None]:
    """Turn errors of Spark, the JVM and the operating system into errors of this package.

    ``advise``: returns the cure for the whole text of an error of Spark itself; it may raise a better error.
    Raises: SinkFault; SourceFault if a task could not read the source; UnreadableRows if it met an unreadable row;
    SourceMoved if the table of a full read was replaced or altered meanwhile
    """
    try:
        yield
    except (Py4JJavaError, Py4JError, PySparkException) as error:
        reason = _reason(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
        if unread := _UNREAD.search(reason):
            raise SourceFault(unread[1]) from error
        if moved := _MOVED.search(reason):
            raise SourceMoved(moved[1]) from error
        if refused := _REFUSED.search(reason):
            raise SinkFault(f"{what}: {refused[1]}") from error
        if unreadable := _UNREADABLE.search(reason):
            raise UnreadableRows(unreadable[0]) from error
        message = f"{what}: {reason.strip()[:2000]}{advise(reason)}"
        raise SinkFault(message) from error
    except OSError as error:
        raise SinkFault(f"{what}: {os_reason(error)}") from error


def _reason(error: Any) -> str:
    """The text of a Java exception, and of its root cause if the text does not contain it."""
    text, cause = str(error), error.getCause()
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    message = "" if cause is None else str(cause.getMessage() or "")
    return text if message in text else f"{text.strip()}: {message}"


@contextmanager
def task_faults(what: str) -> Iterator[None]:
    """The same for errors of a task that the driver runs itself.

    Raises: SinkFault, UnreadableRows
    """
    try:
        yield
    except SinkFault as fault:
        message = f"{what}: {fault}"
        raise SinkFault(message) from fault
    except MessageError as error:
        raise UnreadableRows(str(error)) from error
