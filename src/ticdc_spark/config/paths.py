"""Paths of a job file are relative to the file, not to where the command runs."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ticdc_spark.config.toml import Mistakes


def absolute(file: Path, text: str) -> Path:
    """A path of the job file ``file``, made absolute."""
    home = os.path.expanduser(text)  # noqa: PTH111  Path.expanduser fails for a user that there is not
    return Path(os.path.abspath(file.parent / home))


def existing(file: Path, text: str, where: str, mistakes: Mistakes) -> Path:
    """``absolute``, with a mistake if nothing exists there."""
    path = absolute(file, text)
    if not path.exists():
        mistakes.add(where, f"found {text!r}, but there is no file or folder {path}")
    return path


REGISTRY_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
"""Options of the registry's client that name files."""


def registry_files(options: dict[str, str], file: Path, where: str, mistakes: Mistakes) -> dict[str, str]:
    """Options of the registry's client with absolute paths. A missing file is noted as a mistake, at ``where`` and the
    option's name."""
    paths = {
        key: str(existing(file, options[key], f"{where}{key}", mistakes)) for key in REGISTRY_FILES if key in options
    }
    return options | paths


def location(file: Path, text: str, *, bare_path: bool = False) -> str:
    """Make the path in ``lake``, ``file:lake``, ``jdbc:sqlite:lake.db`` absolute; leave other URIs alone."""
    scheme, colon, rest = text.rpartition(":") if text.startswith("jdbc:sqlite:") else text.partition(":")
    if not colon:
        return str(absolute(file, text)) if bare_path else text
    if scheme == "file" and not rest.startswith("/"):
        return f"file:{absolute(file, rest)}"
    if scheme == "jdbc:sqlite" and rest != ":memory:":
        path, question, query = rest.partition("?")
        return f"jdbc:sqlite:{absolute(file, path)}{question}{query}"
    return text


def local_folder(warehouse: str) -> Path | None:
    """The folder of a warehouse on a file system (a path, or a ``file:`` URI); ``None`` for another URI."""
    parts = urlsplit(warehouse)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme else Path(warehouse)
