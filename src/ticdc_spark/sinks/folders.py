"""Warehouses in local folders."""

import tempfile
from pathlib import Path

from ticdc_spark.errors import SinkFault


def writable(folder: Path) -> str:
    """A text that says whether a folder can be written to or will be created. Raises: SinkFault"""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise SinkFault(f"{folder}: {there} is no folder")
    try:
        # Permissions do not suffice: root has them even on a read-only file system.
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise SinkFault(f"{folder}: {there} cannot be written to: {error.strerror}") from error
    return f"{folder}" if there == folder else f"{folder} will be created"
