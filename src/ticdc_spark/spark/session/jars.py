"""Fetches Maven packages once, with Spark's own resolver, and remembers their jars."""

import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyspark
from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from ticdc_spark.errors import EnvironmentFault

_UNRESOLVED = re.compile(r"(?:unresolved dependency|download failed): ([^\s#]+)#([^;\s]+);([^\s:!]+)")


def ivy_folder(settings: Mapping[str, str] | None = None) -> Path:
    """The cache of fetched jars: ``spark.jars.ivy``, ``TICDC_SPARK_IVY``, or the user's cache folder.

    Never ``~/.m2`` or ``~/.ivy2``: a half-filled Maven cache there breaks Ivy's downloads.
    """
    chosen = (settings or {}).get("spark.jars.ivy") or os.environ.get("TICDC_SPARK_IVY")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "ticdc-spark" / "ivy"


def resolve_jars(packages: Sequence[str], settings: Mapping[str, str]) -> list[str]:
    """Paths of the packages' jars and their dependencies, without jars that Spark has itself.

    The first call for a set of packages reads the repositories. Later calls only read a list in the cache folder.

    Raises: EnvironmentFault naming the coordinates that cannot be fetched.
    """
    known = fetched_jars(packages, settings)
    if known is not None:
        return known
    folder, record = ivy_folder(settings), _record(packages, settings)
    with locked(folder):
        known = _known(record)  # another process may have fetched it meanwhile
        if known is not None:
            return known
        jars = [jar for jar in _fetch(sorted(set(packages)), folder, _rules(settings)) if not _is_in_spark(jar)]
        record.parent.mkdir(parents=True, exist_ok=True)
        partial = record.with_suffix(f".{os.getpid()}")
        partial.write_bytes(msgspec.json.encode(jars))
        partial.replace(record)
    return jars


def fetched_jars(packages: Sequence[str], settings: Mapping[str, str]) -> list[str] | None:
    """What ``resolve_jars`` returns if nothing has to be fetched; ``None``: something has to be."""
    return _known(_record(packages, settings))


def _record(packages: Sequence[str], settings: Mapping[str, str]) -> Path:
    """The file that lists the jars of a set of packages."""
    request = msgspec.json.encode([sorted(set(packages)), _rules(settings), pyspark.__version__], order="sorted")
    return ivy_folder(settings) / "resolved" / f"{hashlib.sha256(request).hexdigest()[:20]}.json"


def _rules(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings on which the jars of a package depend."""
    return {k: v for k, v in settings.items() if k.startswith("spark.jars.") and k != "spark.jars.packages"}


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the cache. Without it, two processes that fill it at once would read each other's half-written files.

    Raises: EnvironmentFault if the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("ab")
    except OSError as error:
        raise EnvironmentFault(f"the cache of fetched jars, {folder}: {error.strerror or error}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _known(record: Path) -> list[str] | None:
    """The jars of an earlier call, if all of them still exist."""
    if not record.is_file():
        return None
    jars = msgspec.json.decode(record.read_bytes(), type=list[str])
    return jars if all(Path(jar).is_file() for jar in jars) else None


def _fetch(packages: Sequence[str], folder: Path, rules: Mapping[str, str]) -> list[str]:
    """Start a JVM only to fetch the packages: its output names packages that cannot be fetched."""
    conf = SparkConf(loadDefaults=False)
    conf.setAll([*rules.items(), ("spark.jars.ivy", str(folder)), ("spark.jars.packages", ",".join(packages))])
    with tempfile.TemporaryFile() as messages:
        try:
            gateway = launch_gateway(conf, {"stderr": messages, "stdout": messages})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            messages.seek(0)
            output = messages.read().decode(errors="replace")
            missing = sorted({":".join(part) for part in _UNRESOLVED.findall(output)})
            what = ", ".join(missing or packages)
            raise EnvironmentFault(
                f"cannot fetch {what} (packages {', '.join(packages)}); check the network and "
                f"spark.jars.repositories, or fill {folder} on a machine with a network"
            ) from error
        found = str(gateway.jvm.java.lang.System.getProperty("spark.jars"))
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=60)
    return [jar.removeprefix("file://") for jar in found.split(",")]


def _is_in_spark(jar: str) -> bool:
    """Whether Spark ships the same jar: Ivy names it ``<organisation>_<artifact>-<version>.jar``."""
    shipped = Path(pyspark.__file__).parent / "jars"
    return (shipped / Path(jar).name.partition("_")[2]).is_file()
