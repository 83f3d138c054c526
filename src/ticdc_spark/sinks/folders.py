"""Warehouses that are folders of this machine."""

import tempfile
from pathlib import Path

from ticdc_spark.errors import SinkFault


def writable(folder: Path) -> str:
    """Whether a folder can be written to, or made, in words. Raises: SinkFault"""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise SinkFault(f"{folder}: {there} is no folder")
    try:
        # Not by its permissions: root has them on a file system that is mounted read-only, too.
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise SinkFault(f"{folder}: {there} cannot be written to: {error.strerror}") from error
    return f"{folder}" if there == folder else f"{folder} will be created"
