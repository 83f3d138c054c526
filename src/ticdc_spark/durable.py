"""Files that are replaced whole, and outlive a power cut."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file under another name and give it its own: whoever reads it finds the old one or the new one.

    ``mode``: who may read and write it; ``None``: as the process makes files.

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
        error.filename = error.filename or str(path)  # a write that fails does not name its file
        raise
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
