"""Errors of Spark and of Iceberg as errors of this package; names for Spark SQL."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ticdc_spark.errors import SinkFault, SourceFault

_UNREAD = re.compile(rf"^{SourceFault.__module__}\.{SourceFault.__name__}: (.*)$", re.MULTILINE)
"""The last line of a Python worker's traceback, where reading the source failed."""


def quote(name: str) -> str:
    """Quote an identifier for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn errors of Spark and of the JVM into ``SinkFault``; a source that a task cannot read is a ``SourceFault``."""
    try:
        yield
    except (Py4JJavaError, Py4JError, PySparkException) as error:
        reason = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
        if unread := _UNREAD.search(reason):
            raise SourceFault(unread[1]) from error
        message = f"{what}: {reason.strip()[:2000]}"
        raise SinkFault(message) from error
