"""The Python packages that tasks of a cluster need: this package and its imports, as archives that the driver sends.

A machine of the cluster only needs Spark and a bare Python of the driver's minor version on its path. If the job file
names an environment (``spark.pyspark.python``, ``spark.archives``) or ``PYSPARK_PYTHON`` is set, that is used instead.
"""

import hashlib
import os
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.spark.session.jars import ivy_folder, locked

_OWN = "ticdc-spark"
_FOLDERS = ("ticdc-spark-tasks", "ticdc-spark-packages")
"""The archives' folders at a task: this package's, and the one of its imports, which is large and rarely changes."""
_STAYS = {"pyspark", "py4j", "pyiceberg"}
"""Packages that Spark provides to its workers, or that only the driver needs."""
_REQUIREMENT = re.compile(r"\s*([\w.-]+)\s*(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?", re.DOTALL)
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_LEFT_OUT = {"tests", "include"}
"""Folders that no task needs. Some are large."""

File = tuple[str, Path]
"""A name in the archive, and its file."""


def bare_python() -> str:
    """The command of a cluster machine's Python, which has none of our packages."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def is_shipped(settings: Mapping[str, str]) -> bool:
    """Whether the tasks get this process's packages, because no other environment is named."""
    named = {"spark.pyspark.python", "spark.archives", "spark.yarn.dist.archives"} & settings.keys()
    return not named and os.environ.get("PYSPARK_PYTHON") in (None, bare_python())


def shipped(settings: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings that give the tasks the archives, which are created if missing.

    Raises: EnvironmentFault if an archive cannot be created
    """
    folder = ivy_folder(settings)
    archives = [_archive(folder, found) for found in (_own_files(), _files_of_requirements())]
    path = [*(f"./{name}" for name in _FOLDERS), settings.get("spark.executorEnv.PYTHONPATH", "")]
    return {
        "spark.archives": ",".join(f"{archive}#{name}" for archive, name in zip(archives, _FOLDERS, strict=True)),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, path)),
    }


def _archive(folder: Path, found: Iterable[File]) -> Path:
    """The archive in the cache folder, named by the current state of its files: an upgraded package gets a new one."""
    files = sorted({*found})
    key = hashlib.sha256(sysconfig.get_platform().encode())
    for name, path in files:
        if path.suffix == ".pyc":
            continue  # belongs to its source, and is created when that is imported
        state = path.stat()
        key.update(f"{name}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    archive = folder / "tasks" / f"{key.hexdigest()[:20]}.tar.gz"
    with locked(folder):
        if not archive.is_file():
            _write(archive, files)
    return archive


def _write(archive: Path, files: Iterable[File]) -> None:
    partial = archive.with_name(f"{archive.name}.partial")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        # The lowest level saves most of the size in little time.
        with tarfile.open(partial, "w:gz", compresslevel=1, dereference=True) as into:
            for name, path in files:
                into.add(path, name, recursive=False)
        partial.replace(archive)
    except OSError as error:
        raise EnvironmentFault(f"the packages for the tasks, {archive}: {error.strerror or error}") from error


def _own_files() -> Iterator[File]:
    root = Path(__file__).parents[2]
    for path in root.rglob("*"):
        name = path.relative_to(root.parent)
        if path.is_file() and not _LEFT_OUT & {*name.parts}:
            yield name.as_posix(), path


def _files_of_requirements() -> Iterator[File]:
    for found in _installed():
        if found.files is None:
            raise EnvironmentFault(
                f"the files of the package {found.name} are not recorded, so the tasks cannot get them; install it "
                "with pip, or name a Python that has ticdc-spark on each machine of the cluster: [spark] "
                "spark.pyspark.python"
            )
        for file in found.files:
            name, path = PurePosixPath(file), Path(str(found.locate_file(file)))
            if ".." not in name.parts and not _LEFT_OUT & {*name.parts} and path.is_file():
                yield name.as_posix(), path


def _installed() -> Iterator[Distribution]:
    """The distributions that this package requires, directly or indirectly."""
    seen: set[tuple[str, str]] = set()
    waiting = [(_OWN, "")]
    given: set[str] = {_OWN}
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen or name in _STAYS:
            continue
        seen.add((name, extra))
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if name not in given:
            given.add(name)
            yield found
        for text in found.requires or ():
            waiting += _wanted(text, extra)


def _wanted(requirement: str, extra: str) -> list[tuple[str, str]]:
    """The packages, with extras, that a line ``Requires-Dist`` requires for ``extra`` (``""``: for none)."""
    match = _REQUIREMENT.match(requirement)
    assert match is not None, "pip checks it"
    name = re.sub(r"[-_.]+", "-", match.group(1)).lower()
    of = _EXTRA.findall(match.group(4) or "")
    if (extra not in of) if of else extra:
        return []
    return [(name, ""), *((name, one.strip()) for one in (match.group(2) or "").split(",") if one.strip())]
