"""Texts about the files of a table."""

from ticdc_spark.sinks.upkeep import TableFiles, UpkeepResult

_UNITS = ("kB", "MB", "GB", "TB", "PB")


def size(count: int) -> str:
    """A number of bytes as text, by powers of 1,000."""
    if count < 1000:
        return f"{count} B"
    power = 1
    while power < len(_UNITS) and round(count / 1000**power, 1) >= 1000:
        power += 1
    return f"{count / 1000**power:,.1f} {_UNITS[power - 1]}"


def made_of(files: TableFiles) -> str:
    """Numbers of files and snapshots, and the share of deleted rows."""
    parts = [_number(files.files, "data file"), _number(files.snapshots, "snapshot")]
    if files.delete_files:
        parts.insert(1, _number(files.delete_files, "file of deletes", "files of deletes"))
    if files.deleted_rows:
        parts.append(f"{files.deleted_rows / max(files.rows, 1):.0%} of its rows are deleted")
    return ", ".join(parts)


def helped(result: UpkeepResult) -> str:
    """The files of a table before and after maintenance; ``""``: nothing was done, or it is unknown."""
    if result.before is None or result.after is None or not result.done:
        return ""
    return f"{_short(result.before)} → {_short(result.after)}"


def _short(files: TableFiles) -> str:
    return f"{_number(files.files + files.delete_files, 'file')}, {size(files.bytes)}"


def _number(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
