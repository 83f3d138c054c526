"""The class archive: the JVM's classes, loaded and checked. With it, Spark starts in about 60 % of the time.

Java calls this class data sharing, and an archive of an application's classes a dynamic one (JEP 350). An archive fits
one Java and one class path. Java ignores any other, and then starts as it does without one.
"""

import hashlib
import os
from contextlib import suppress
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
            # One that another process replaces, or that may not be read, must not stop a job.
            with suppress(OSError):
                if found.name == self._name(found.stat().st_size):
                    return found
        return None

    def keep(self, made: Path) -> Path:
        """Let ``made``, a file in the same file system, be the archive. Raises: OSError"""
        before = list(self.folder.glob(f"{self.key}-*.jsa"))
        file = os.open(made, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
        kept = made.replace(self.folder / self._name(made.stat().st_size))
        for old in before:
            if old != kept:
                old.unlink(missing_ok=True)
        return kept

    def _name(self, size: int) -> str:
        return f"{self.key}-{size}.jsa"


def archive_for(cache: Path, java: str, options: str, class_path: str) -> ClassArchive:
    """The archive in a folder of the cache.

    ``java``: what ``java -version`` prints. ``options``: the user's own of the JVM, since they may choose a collector.
    """
    spark = str(Path(pyspark.__file__).resolve())
    key = msgspec.json.encode([java, options, spark, pyspark.__version__, class_path])
    return ClassArchive(cache.absolute() / "classes", hashlib.sha256(key).hexdigest()[:20])


def using(archive: Path | None) -> str:
    """The JVM's options to start with an archive."""
    return "" if archive is None else f'"-XX:SharedArchiveFile={archive}" {_QUIET}'


def making(archive: Path) -> str:
    """The JVM's options to write an archive of all classes that it has loaded, when it ends."""
    return f'"-XX:ArchiveClassesAtExit={archive}" {_QUIET}'
