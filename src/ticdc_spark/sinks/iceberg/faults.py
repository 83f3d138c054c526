"""Errors of Spark and of Iceberg as errors of this package; names for Spark SQL."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ticdc_spark.errors import DecisionNeeded, MessageError, SinkFault, SourceFault, os_reason
from ticdc_spark.sinks.base import UnreadableRows
from ticdc_spark.sinks.iceberg.python_catalog import moved_away
from ticdc_spark.spark.decode.rows import UNREADABLE
from ticdc_spark.spark.tasks import MOVED, SourceMoved

_UNREAD = re.compile(rf"^{SourceFault.__module__}\.{SourceFault.__name__}: (.*)$", re.MULTILINE)
"""The last line of a Python worker's traceback, where reading the source failed."""
_REFUSED = re.compile(rf"^{SinkFault.__module__}\.{SinkFault.__name__}: (.*)$", re.MULTILINE)
"""The same, where the operating system refused a file of the lake."""
_UNREADABLE = re.compile(rf"\b{UNREADABLE}: .*$", re.MULTILINE)
"""The same, where a row could not be read that was not to be left out (``ReadPlan.strict``)."""

_MOVED = re.compile(rf"\b{MOVED}: (.*)$", re.MULTILINE)
"""The same, where the table that a full read reads is another one by now."""
_GONE = re.compile(r"NotFoundException: [^:\n]+: (\S+\.metadata\.json)")
"""Iceberg's error for a metadata file that the catalog names and the store does not have."""
_NO_CLIENT = re.compile(r"NoClassDefFoundError: (software/amazon/awssdk|com/google/cloud|com/azure)")
"""Iceberg's FileIO of an object store without the client that it needs, which is no part of Iceberg's runtime."""
_BUNDLES = {"software": "iceberg-aws-bundle", "com/google": "iceberg-gcp-bundle", "com/azure": "iceberg-azure-bundle"}


def quote(name: str) -> str:
    """Quote an identifier for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A text for Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _reason(error: Any) -> str:
    """The text of a Java exception, with that of its first cause where it does not contain it."""
    text, cause = str(error), error.getCause()
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    message = "" if cause is None else str(cause.getMessage() or "")
    return text if message in text else f"{text.strip()}: {message}"


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn errors of Spark, of the JVM and of the operating system into errors of this package.

    Raises: SinkFault; SourceFault where a task could not read the source; UnreadableRows where it met an unreadable
    row; SourceMoved where the table that a full read reads is another one by now; DecisionNeeded where the catalog
    names files that are gone
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
        if gone := _GONE.search(reason):
            raise DecisionNeeded(moved_away(gone[1])) from error
        message = f"{what}: {reason.strip()[:2000]}{_missing_bundle(reason)}"
        raise SinkFault(message) from error
    except OSError as error:
        raise SinkFault(f"{what}: {os_reason(error)}") from error


def is_conflict(error: Py4JJavaError) -> bool:
    """Whether Iceberg refused a commit because somebody else has written to the table meanwhile."""
    cause = error.java_exception
    while cause is not None:
        if str(cause.getClass().getName()).endswith(".ValidationException"):
            return True
        cause = cause.getCause()
    return False


def _missing_bundle(reason: str) -> str:
    """Which package is missing under ``[spark]``, where that is what is wrong."""
    found = _NO_CLIENT.search(reason)
    if found is None:
        return ""
    bundle = next(name for start, name in _BUNDLES.items() if found[1].startswith(start))
    return (
        f"; Iceberg's client of this store is missing: add org.apache.iceberg:{bundle}, of the version of Iceberg's "
        'runtime, to "spark.jars.packages" under [spark]'
    )


@contextmanager
def task_faults(what: str) -> Iterator[None]:
    """The same for what a task raises that the driver runs itself.

    Raises: SinkFault, UnreadableRows
    """
    try:
        yield
    except SinkFault as fault:
        message = f"{what}: {fault}"
        raise SinkFault(message) from fault
    except MessageError as error:
        raise UnreadableRows(str(error)) from error
