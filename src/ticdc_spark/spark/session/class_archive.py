"""The class archive: the JVM's classes as they are in memory. With it, Spark starts in about half the time.

Java calls this class data sharing, and an archive of an application's classes a dynamic one (JEP 350). An archive fits
one Java and one class path. Java ignores any other, and then starts as it does without one.
"""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyspark

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


class ClassArchive(NamedTuple):
    """The place of the archive for a Java and a class path, whether there is one or not.

    Its size is part of its name: Java does not notice that a file was cut off, and crashes when it needs the rest.
    """

    folder: Path
    key: str

    def find(self) -> Path | None:
        """The archive; ``None``: there is no whole one."""
        for found in self.folder.glob(f"{self.key}-*.jsa"):
            if found.stat().st_size == int(found.stem.rpartition("-")[2]):
                return found
        return None

    def keep(self, made: Path) -> Path:
        """Let ``made``, a file in the folder, be the archive. Raises: OSError"""
        before = list(self.folder.glob(f"{self.key}-*.jsa"))
        file = os.open(made, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
        kept = made.replace(self.folder / f"{self.key}-{made.stat().st_size}.jsa")
        for old in before:
            if old != kept:
                old.unlink(missing_ok=True)
        return kept


def archive_for(cache: Path, java: str, class_path: str) -> ClassArchive:
    """The archive in a folder of the cache. ``java``: what ``java -version`` prints"""
    key = msgspec.json.encode([java, str(Path(pyspark.__file__).resolve()), pyspark.__version__, class_path])
    return ClassArchive(cache.absolute() / "classes", hashlib.sha256(key).hexdigest()[:20])


def using(archive: Path | None) -> str:
    """The JVM's options to start with an archive."""
    return "" if archive is None else f'"-XX:SharedArchiveFile={archive}" {_QUIET}'


def making(archive: Path) -> str:
    """The JVM's options to write an archive of all classes that it has loaded, when it ends."""
    return f'"-XX:ArchiveClassesAtExit={archive}" {_QUIET}'
