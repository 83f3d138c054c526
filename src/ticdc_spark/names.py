"""Names: how TiDB compares them, and a reversible escape for names that a catalog or Iceberg does not allow.

- A dot or a slash separates paths, and a blank at either end is lost.
- Iceberg reserves the names of its metadata columns, such as ``_file`` and ``_pos``.
- Iceberg writes ``9`` as ``_9`` into its files, so ``_9`` must be another name.

Such characters become ``_xHH_`` (hexadecimal code point). In a name that already has ``_xHH_``, its first underscore is
escaped, so ``unescape`` is exact.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b

from ticdc_spark.errors import UsageError
from ticdc_spark.model import TableName

RESERVED = frozenset(
    {"_file", "_pos", "_deleted", "_partition", "_spec_id", "_row_id", "_last_updated_sequence_number"}
)
"""Iceberg's metadata columns; compared without case."""
_UNSAFE = re.compile(r"[./\\%\x00-\x1f\x7f]|^ | $|_(?=x[0-9a-f]+_)|^_(?=[0-9])")
_ASIDE = re.compile(r"(.+)(_dropped_[0-9]{13,}(?:_again)*)", re.DOTALL)
"""Name of a table that was set aside. It has a commit_ts's many digits, unlike a source's ``orders_dropped_2024``."""
_ESCAPED = re.compile(r"_x([0-9a-f]+)_")


def escape(name: str) -> str:
    """Return the lake's name for a source name. Most names do not change."""
    safe = _UNSAFE.sub(lambda match: f"_x{ord(match[0]):x}_", name)
    return f"_x5f_{safe[1:]}" if safe.lower() in RESERVED else safe


def unescape(name: str) -> str:
    """Return the source name of an escaped name."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), name)


def escape_all(names: Iterable[str], where: str) -> dict[str, str]:
    """Map source names to lake names.

    Raises: UsageError with both names if two of them differ only by case, which the lake does not distinguish.
    """
    seen: dict[str, str] = {}
    mapped: dict[str, str] = {}
    for name in names:
        lake = escape(name)
        other = seen.setdefault(lake.casefold(), name)
        if other != name:
            raise UsageError(
                f"{where}: {other!r} and {name!r} are one name in the lake ({lake!r}); rename or exclude one"
            )
        mapped[name] = lake
    return mapped


def aside(name: str, ts: int) -> str:
    """The new name of a table that was dropped at a commit_ts and kept, if a new table takes its name."""
    return f"{name}_dropped_{ts}"


def aside_of(name: str) -> tuple[str, str]:
    """The former name of a table that was set aside, and the suffix of its name; ``""``: it was not set aside."""
    found = _ASIDE.fullmatch(name)
    return (name, "") if found is None else (found[1], found[2])


def shortened(name: str, longest: int) -> str:
    """A name of at most ``longest`` bytes in UTF-8. A longer name ends with a hash of it."""
    text = name.encode()
    if len(text) <= longest:
        return name
    return f"{text[: longest - 9].decode(errors='ignore')}_{blake2b(text, digest_size=4).hexdigest()}"


def folded(name: TableName) -> TableName:
    """The form in which TiDB compares names without case."""
    return folded_part(name[0]), folded_part(name[1])


def folded_part(name: str) -> str:
    """``folded`` for the name of a database or a table: character by character, like Go's ``strings.ToLower``."""
    return name.lower() if name.isascii() else "".join("i" if one == "İ" else one.lower() for one in name)
