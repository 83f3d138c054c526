"""Add messages and DDLs to ``skip-messages`` and ``skip-ddl`` of a job file, which a running job takes over."""

import re
import stat
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from ticdc_spark.config.load import load_job
from ticdc_spark.config.toml import NotAllowed, read_value
from ticdc_spark.config.values import Places, Skips
from ticdc_spark.durable import replace_file
from ticdc_spark.errors import UsageError, os_reason

_KEYS: dict[str, Any] = {"skip-messages": Places, "skip-ddl": Skips}
_DDL = re.compile(r"[0-9]+:")
"""How an entry of ``skip-ddl`` begins; a topic with such a name is not skipped by this command."""


def skip(path: Path, entries: Sequence[str]) -> list[tuple[str, str]]:
    """Add entries to a job file, all or none. The file keeps its comments, its order and its mode.

    Returns: (key, entry) of those that were not there. Raises: UsageError
    """
    file = path.resolve()  # a link stays one
    load_job(path)
    added = [("skip-ddl" if _DDL.match(entry) else "skip-messages", entry) for entry in entries]
    for key, entry in added:
        try:
            read_value([entry], _KEYS[key])
        except NotAllowed as error:
            raise UsageError(f"{entry!r}: {error}") from None
    before = file.read_text(encoding="utf-8")
    try:
        text, new = _with_entries(before, added)
    except (TOMLKitError, AttributeError, KeyError, TypeError) as error:
        raise UsageError(_by_hand(path, added, "its form is not one that this command can change")) from error
    if not new:
        return []
    try:
        replace_file(file, text.encode(), stat.S_IMODE(file.stat().st_mode))
    except OSError as error:
        raise UsageError(_by_hand(path, added, os_reason(error))) from error
    return new


def _with_entries(text: str, entries: Sequence[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
    """The text of a job file with entries, and those that it did not have. Raises: TOMLKitError, TypeError"""
    document = tomlkit.parse(text)
    section: Any = document["job"]
    wanted = {key: list(section.get(key, ())) for key in _KEYS}
    new = []
    for key, entry in entries:
        if entry in wanted[key]:
            continue
        wanted[key].append(entry)
        new.append((key, entry))
        if key in section:
            section[key].append(entry)
        else:
            section[key] = [entry]
    found = tomlkit.dumps(document)
    job, was = tomllib.loads(found), tomllib.loads(text)
    expected = was | {"job": was["job"] | {key: some for key, some in wanted.items() if some}}
    if job != expected:
        raise TypeError("the text does not say what it should")
    return found, new


def _by_hand(path: Path, entries: Sequence[tuple[str, str]], why: str) -> str:
    lines = "; ".join(f'"{entry}" to {key}' for key, entry in entries)
    return f"{path} cannot be changed: {why}. Add to [job] by hand: {lines}"
