"""The class archive: the JVM's classes as they are in memory. With it, Spark starts in about half the time.

Java calls this class data sharing, and an archive of an application's classes a dynamic one (JEP 350). An archive fits
one Java and one class path. Java ignores any other, and then starts as it does without one.
"""

import hashlib
from pathlib import Path

import msgspec
import pyspark

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def archive_path(folder: Path, java: str, class_path: str) -> Path:
    """Where the archive is in the cache ``folder``. ``java``: what ``java -version`` prints"""
    key = msgspec.json.encode([java, pyspark.__file__, pyspark.__version__, class_path])
    return folder.absolute() / "classes" / f"{hashlib.sha256(key).hexdigest()[:20]}.jsa"


def using(archive: Path) -> str:
    """The JVM's options to start with an archive, if there is one."""
    return f'"-XX:SharedArchiveFile={archive}" {_QUIET}' if archive.is_file() else ""


def making(archive: Path) -> str:
    """The JVM's options to write an archive of all classes that it has loaded, when it ends."""
    return f'"-XX:ArchiveClassesAtExit={archive}" {_QUIET}'
