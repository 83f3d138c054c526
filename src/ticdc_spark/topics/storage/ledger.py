"""Assigns the job's offsets to the messages of a storage sink. Pure.

All files are one partition. A **cut** takes the files that are new since the previous cut, in the order of TiCDC's own
consumer. It ends with the checkpoint that was read before the files were listed. Its messages have the next offsets. A
job saves the ledger with its plan and its progress, so offsets mean the same after a restart.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import msgspec

from ticdc_spark.model import TopicPartition
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.topics.storage.layout import DataName, SchemaName

PLACE: TopicPartition = ("storage", 0)
"""The topic and partition of all messages."""
_DAYS_OPEN = 2
"""How many days before the last checkpoint folders are still checked: captures name days in their own time zones."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A file, or a checkpoint, and its offsets [first, first + count)."""

    first: int
    count: int
    path: str
    """``""``: a checkpoint."""
    size: int = 0
    commit_ts: int = 0
    """The commitTs of a checkpoint."""
    schema: str = ""
    """The schema file of a file with rows; ``""``: there is none, or this is a schema file."""
    is_schema: bool = False
    describes: bool = False
    """Whether only the table of a schema file is read, not the DDL."""

    @property
    def end(self) -> int:
        return self.first + self.count


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The taken files and their offsets."""

    end: int = 0
    """The next offset."""
    read: int = 0
    """The offset where the job reads on, when it last reported it."""
    checkpoint: int = 0
    """The last checkpoint that was taken."""
    numbers: tuple[tuple[str, str, int], ...] = ()
    """(folder, dispatcher, number of the last taken file), for folders that may get more files."""
    versions: tuple[tuple[str, int], ...] = ()
    """(folder of a table or database, version of its last schema file that was taken)."""
    entries: tuple[Entry, ...] = ()
    """In order, without entries that are no longer needed."""

    @property
    def since(self) -> str:
        """Folders are checked from this day on; ``""``: all folders."""
        return day_of(self.checkpoint, -_DAYS_OPEN) if self.checkpoint else ""


class Most(msgspec.Struct, frozen=True):
    """Limits of one cut. The next cut takes the rest, and the checkpoint follows all of it."""

    files: int
    bytes: int


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The new files of a look."""

    schemas: tuple[SchemaName, ...]
    data: tuple[DataName, ...]
    """In the order of taking."""
    is_all: bool
    """Whether there are no other new files."""


def day_of(commit_ts: int, days: int = 0) -> str:
    """The day of a timestamp in UTC, plus ``days``, as in names of folders."""
    at = datetime.fromtimestamp(tso_physical_ms(commit_ts) / 1000, UTC)
    return (at + timedelta(days=days)).date().isoformat()


def new_files(
    ledger: Ledger,
    schemas: Sequence[SchemaName],
    data: Sequence[DataName],
    complete: Mapping[tuple[str, str], int],
    most: Most,
) -> Cut:
    """The existing files that were not taken yet. ``complete``: the last complete file of each sequence."""
    versions, numbers = dict(ledger.versions), {(folder, name): last for folder, name, last in ledger.numbers}
    # A version may have two files that differ in the columns' form: only one of them may have the DDL.
    new = [one for one in schemas if one.version > versions.get(one.root, -1)]
    rows = [one for one in data if numbers.get(one.sequence, 0) < one.number <= complete.get(one.sequence, 0)]
    both: list[SchemaName | DataName] = [*new, *rows]
    both.sort(key=_order)
    sizes = accumulate(one.size if isinstance(one, DataName) else 0 for one in both)
    taken = [
        one for at, (one, size) in enumerate(zip(both, sizes, strict=True)) if at < most.files and size <= most.bytes
    ]
    taken = taken or both[:1]
    return Cut(
        schemas=tuple(one for one in taken if isinstance(one, SchemaName)),
        data=tuple(one for one in taken if isinstance(one, DataName)),
        is_all=len(taken) == len(both),
    )


def with_cut(ledger: Ledger, cut: Cut, counts: Mapping[str, int], of_version: Mapping[tuple[str, int], str]) -> Ledger:
    """The ledger after a cut, without its checkpoint.

    ``counts``: messages by path; ``of_version``: the schema file of (folder of a table, version).
    """
    versions, numbers = dict(ledger.versions), {(folder, name): last for folder, name, last in ledger.numbers}
    entries, end = list(ledger.entries), ledger.end
    both: list[SchemaName | DataName] = [*cut.schemas, *cut.data]
    both.sort(key=_order)
    for one in both:
        count = counts[one.path]
        if isinstance(one, SchemaName):
            versions[one.root] = max(one.version, versions.get(one.root, 0))
            entry = Entry(end, count, one.path, is_schema=True)
        else:
            numbers[one.sequence] = one.number
            schema = of_version.get((one.folder.root, one.folder.version), "")
            entry = Entry(end, count, one.path, one.size, schema=schema)
        end += count
        if count:
            entries.append(entry)
    return msgspec.structs.replace(
        ledger,
        end=end,
        numbers=tuple(sorted((*sequence, last) for sequence, last in numbers.items())),
        versions=tuple(sorted(versions.items())),
        entries=tuple(entries),
    )


def with_descriptions(ledger: Ledger, paths: Sequence[str]) -> Ledger:
    """The ledger with the tables of schema files at its end."""
    entries = tuple(Entry(at, 1, path, is_schema=True, describes=True) for at, path in enumerate(paths, ledger.end))
    return msgspec.structs.replace(ledger, end=ledger.end + len(entries), entries=(*ledger.entries, *entries))


def with_checkpoint(ledger: Ledger, checkpoint: int) -> Ledger:
    """The ledger with a checkpoint at its end."""
    entry = Entry(ledger.end, 1, "", commit_ts=checkpoint)
    ledger = msgspec.structs.replace(
        ledger,
        end=ledger.end + 1,
        checkpoint=max(checkpoint, ledger.checkpoint),
        entries=(*ledger.entries, entry),
    )
    since = ledger.since
    open_ = tuple(one for one in ledger.numbers if not (date := date_of(one[0])) or date >= since[: len(date)])
    return msgspec.structs.replace(ledger, numbers=open_)


def needed(ledger: Ledger, offset: int, stretches: Iterable[tuple[int, int]]) -> Ledger:
    """The ledger of a job that reads on at ``offset``, without earlier entries that no stretch needs."""
    wanted = sorted(stretches)
    kept, at = [], 0
    for entry in ledger.entries:
        while at < len(wanted) and wanted[at][1] <= entry.first:
            at += 1
        if entry.end > offset or (at < len(wanted) and wanted[at][0] < entry.end):
            kept.append(entry)
    return msgspec.structs.replace(ledger, read=offset, entries=tuple(kept))


def within(ledger: Ledger, first: int, end: int) -> list[Entry]:
    """The entries that have some of the offsets [first, end)."""
    return [entry for entry in ledger.entries if entry.first < end and entry.end > first]


def date_of(folder: str) -> str:
    """The day or month of a folder with rows; ``""``: its path has none."""
    name = folder.rpartition("/")[2]
    return name if len(name) in (7, 10) and name[4] == "-" else ""


def _order(one: SchemaName | DataName) -> tuple[object, ...]:
    """The order of TiCDC's own consumer: by version, with a schema file before the rows of its version."""
    if isinstance(one, SchemaName):
        return (one.version, 0, one.root, one.path)
    at = one.folder
    return (at.version, 1, at.partition, at.date, at.root, at.path, one.dispatcher, one.number)
