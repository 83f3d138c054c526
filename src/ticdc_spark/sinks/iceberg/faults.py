"""Turns errors of Iceberg and Spark into errors of this package."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError

from ticdc_spark.sinks.capabilities import FilesGone
from ticdc_spark.sinks.iceberg.python_catalog import moved_away
from ticdc_spark.spark.faults import spark_faults

_GONE = re.compile(r"NotFoundException: [^:\n]+: (\S+\.metadata\.json)")
"""Iceberg's error for a metadata file that the catalog lists but the store does not have."""
_NO_CLIENT = re.compile(r"NoClassDefFoundError: (software/amazon/awssdk|com/google/cloud|com/azure)")
"""An error for a missing client of an object store, which Iceberg's FileIO needs and its runtime does not include."""
_BUNDLES = {"software": "iceberg-aws-bundle", "com/google": "iceberg-gcp-bundle", "com/azure": "iceberg-azure-bundle"}

_UNTRUSTED = ("unable to find valid certification path", "trustAnchors parameter must be non-empty")
"""Java's errors for a certificate of an authority that is not in its trust store, and for a store without any."""


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn errors of Spark, of the JVM, of Iceberg and of the operating system into errors of this package.

    Raises: as ``spark_faults``; FilesGone if the catalog lists files that are gone
    """
    with spark_faults(what, _advise):
        yield


def _advise(reason: str) -> str:
    if gone := _GONE.search(reason):
        raise FilesGone(moved_away(gone[1]))
    if any(text in reason for text in _UNTRUSTED):
        whose = "object store" if "awssdk" in reason else "catalog"
        return (
            f"; does Java's trust store hold the authority of the {whose}'s certificate? Name a trust store by "
            '-Djavax.net.ssl.trustStore in "spark.driver.extraJavaOptions" under [spark]'
        )
    return _missing_bundle(reason)


def is_conflict(error: Py4JJavaError) -> bool:
    """Whether Iceberg refused a commit because another writer changed the table meanwhile."""
    cause = error.java_exception
    while cause is not None:
        if str(cause.getClass().getName()).endswith(".ValidationException"):
            return True
        cause = cause.getCause()
    return False


def _missing_bundle(reason: str) -> str:
    """A hint at the package that is missing under ``[spark]``; ``""`` if the error has another cause."""
    found = _NO_CLIENT.search(reason)
    if found is None:
        return ""
    bundle = next(name for start, name in _BUNDLES.items() if found[1].startswith(start))
    return (
        f"; Iceberg's client of this store is missing: add org.apache.iceberg:{bundle}, of the version of Iceberg's "
        'runtime, to "spark.jars.packages" under [spark]'
    )
