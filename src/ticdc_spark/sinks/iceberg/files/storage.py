"""How Python reaches the files of an Iceberg table: with the settings of its catalog or of Spark's Hadoop.

Spark writes a table that uses a setting without a counterpart here. Otherwise that setting would silently be ignored.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ticdc_spark.config.secrets import remember as remember_secret
from ticdc_spark.errors import os_reason
from ticdc_spark.sinks.iceberg.java import JavaNames, to_dict
from ticdc_spark.spark.session.session import runs_here
from ticdc_spark.spark.storage import (
    LOCAL,
    SCHEMES,
    Storage,
    host_of,
    local_folder,
    open_new,
    path_in,
    read_bytes,
)

log = logging.getLogger(__name__)


class Closed(msgspec.Struct, frozen=True):
    """Why Python does not write a table's files."""

    reason: str


_OFF = ("", "false", "none")
_ICEBERG = {
    "s3.access-key-id": "access_key",
    "s3.secret-access-key": "secret_key",
    "s3.session-token": "session_token",
    "client.region": "region",
    "s3.endpoint": "endpoint_override",
}
_ICEBERG_ONLY = (
    "s3.sse.",
    "s3.acl",
    "s3.access-points.",
    "s3.write.tags.",
    "s3.write.table-tag-enabled",
    "s3.write.namespace-tag-enabled",
    "s3.write.storage-class",
    "s3.remote-signing-enabled",
    "s3.dualstack-enabled",
    "s3.use-arn-region-enabled",
    "s3.cross-region-access-enabled",
    "s3.client-factory-impl",
    "client.factory",
    "client.credentials-provider",
    "client.assume-role.",
)
"""Prefixes of properties that change how or where Iceberg writes, and that pyarrow does not support."""
_HADOOP = {
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
    "endpoint.region": "region",
    "endpoint": "endpoint_override",
}
_HADOOP_ONLY = ("encryption.algorithm", "server-side-encryption-algorithm", "acl.default", "assumed.role.arn")
_PROVIDERS = ("SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider", "IAMInstanceCredentialsProvider")
_PROVIDERS_OF_SDK = ("EnvironmentVariableCredentialsProvider", "DefaultCredentialsProvider")


class Storages:
    """Finds the storage of tables, and tests each storage once. Safe to use from several threads."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._is_here = runs_here(spark)
        self._lock = threading.Lock()
        self._tried: dict[tuple[Storage, str], Closed | None] = {}

    def of(self, loaded: Any) -> Storage | Closed:
        """The storage of a table, if Python can read and write there. ``loaded``: the table in Iceberg's Java API."""
        location = str(loaded.location())
        if local_folder(location) is not None:
            return LOCAL if self._is_here else Closed("the table is on a local disk, and the tasks run elsewhere")
        scheme = location.partition("://")[0]
        kind = SCHEMES.get(scheme)
        if kind is None:
            return Closed(f"Python cannot open locations that begin with {scheme}:")
        found = self._settings(loaded.io(), kind, location)
        if isinstance(found, Closed):
            return found
        with self._lock:
            tried = (found, f"{scheme}://{_authority(location)}")
            if tried not in self._tried:
                self._tried[tried] = self._try(found, loaded, location)
                why = self._tried[tried]
                if why is None:
                    log.info("files under %s are written by the Python tasks", tried[1])
            return self._tried[tried] or found

    def _settings(self, io: Any, kind: str, location: str) -> Storage | Closed:
        name = str(io.getClass().getSimpleName())
        if kind == "s3" and name in ("S3FileIO", "ResolvingFileIO"):
            if not io.credentials().isEmpty():
                return Closed("the catalog gives each table its own credentials")
            iceberg = JavaNames(self._spark._jvm.org.apache.iceberg)  # type: ignore[union-attr]
            options = s3_options(to_dict(iceberg, io.properties()), os.environ)
        elif kind == "s3" and name == "HadoopFileIO":
            conf = self._spark._jsparkSession.sessionState().newHadoopConf()
            options = s3a_options(conf.get, _authority(location), os.environ)
        elif name == "HadoopFileIO" or (kind, name) in (("gs", "GCSFileIO"), ("abfs", "ADLSFileIO")):
            options = ()  # the usual ones of the environment
        else:
            return Closed(f"Python does not know how {name} reaches its files")
        return options if isinstance(options, Closed) else Storage(kind=kind, host=host_of(location), options=options)

    def _try(self, storage: Storage, loaded: Any, location: str) -> Closed | None:
        """Write a small file in a task, read it here, and remove it."""
        name = f"{location}/data/{uuid4().hex}.probe"
        path = path_in(storage, name)
        if path is None:
            return Closed(f"Python cannot open {location}")
        try:
            (fault,) = self._spark.sparkContext.parallelize([path], 1).mapPartitions(_write_probe(storage)).collect()
        except (PySparkException, Py4JError):
            return Closed(f"a task ended when it opened {location}")
        if fault:
            return Closed(f"{location} cannot be written to: {fault}")
        try:
            read_bytes(storage, path)
        except (OSError, ValueError, pa.ArrowException) as error:
            return Closed(f"{location} cannot be read: {_reason_of(error)}")
        finally:
            remove(loaded.io(), [name])
        return None


def _write_probe(storage: Storage) -> Callable[[Iterable[str]], Iterator[str]]:
    """A task's function: writes to the paths; returns the error, or ``""``."""

    def run(paths: Iterable[str]) -> Iterator[str]:
        for path in paths:
            try:
                with open_new(storage, path) as file:
                    file.write(b"ticdc-spark: can be removed\n")
            except (OSError, ValueError, pa.ArrowException) as error:
                yield _reason_of(error)
            else:
                yield ""

    return run


def _reason_of(error: Exception) -> str:
    return os_reason(error) if isinstance(error, OSError) else str(error)


def _authority(location: str) -> str:
    return location.partition("://")[2].partition("/")[0]


def s3_options(properties: Mapping[str, str], environment: Mapping[str, str]) -> tuple[tuple[str, str], ...] | Closed:
    """Arguments of pyarrow's S3 file system, from the properties of Iceberg's S3FileIO."""
    for name, value in properties.items():
        if name.startswith(_ICEBERG_ONLY) and value.lower() not in _OFF:
            return Closed(f"Python cannot do what the property {name} says")
    found = {argument: properties[name] for name, argument in _ICEBERG.items() if properties.get(name)}
    return _options(found, properties.get("s3.path-style-access", "false"), environment)


def s3a_options(
    get: Callable[[str], str | None], bucket: str, environment: Mapping[str, str]
) -> tuple[tuple[str, str], ...] | Closed:
    """The same from the configuration of Hadoop's S3A; ``get`` returns a value of it."""

    def value_of(name: str) -> str:
        return get(f"fs.s3a.bucket.{bucket}.{name}") or get(f"fs.s3a.{name}") or ""

    for name in _HADOOP_ONLY:
        if value_of(name):
            return Closed(f"Python cannot do what fs.s3a.{name} says")
    providers = [one.strip().rpartition(".")[2] for one in value_of("aws.credentials.provider").split(",")]
    if not {*providers} <= {"", *_PROVIDERS, *_PROVIDERS_OF_SDK}:
        return Closed(f"Python does not know the credentials of {', '.join(providers)}")
    found = {argument: value for name, argument in _HADOOP.items() if (value := value_of(name))}
    if "endpoint_override" in found and "://" not in found["endpoint_override"]:
        secure = value_of("connection.ssl.enabled") != "false"
        found["endpoint_override"] = f"{'https' if secure else 'http'}://{found['endpoint_override']}"
    return _options(found, value_of("path.style.access"), environment)


def _options(found: dict[str, str], path_style: str, environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    if "endpoint_override" in found:
        found["force_virtual_addressing"] = "false" if path_style.lower() == "true" else "true"
    for name in ("secret_key", "session_token"):
        remember_secret(found.get(name, ""))  # it may come from the catalog instead of the job file
    if environment.get("AWS_CA_BUNDLE"):
        found["tls_ca_file_path"] = environment["AWS_CA_BUNDLE"]
    return tuple(sorted(found.items()))


def remove(io: Any, locations: Iterable[str]) -> None:
    """Remove files by a table's FileIO if possible. A file that stays belongs to no commit."""
    for location in locations:
        try:
            io.deleteFile(location)
        except Py4JError as error:
            log.warning("%s belongs to no commit and could not be removed: %s", location, type(error).__name__)
