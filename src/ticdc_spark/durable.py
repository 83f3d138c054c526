"""Replaces files atomically, so that they survive a power cut."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file under another name and rename it, so that a reader finds the old file or the new one.

    ``mode``: its permissions; ``None``: the process's default.

    Raises: OSError with the path
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = error.filename or str(path)  # the error of a failed write does not name the file
        raise
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
