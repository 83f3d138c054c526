"""What the log of a Delta table says about its commits: who made them, and what they did.

A stamp is in the text that a writer gives its commit (``userMetadata``). It is also in a property of the table, for
when Delta has cleaned that commit up. A RESTORE undoes properties, but no commit. ``sinks.history`` interprets both.
"""

from typing import Any

import msgspec

from ticdc_spark.sinks.base import Stamp, TableFound
from ticdc_spark.sinks.delta.lake import DeltaLake
from ticdc_spark.sinks.history import Commit, Note, judge, unseen_changes

PROPERTY, VERSION = "ticdc.stamp", "ticdc.version"
_RESTORE = "RESTORE"


class Text(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job's commit says about itself."""

    job: str = ""
    mark: tuple[int, int] = (0, 0)
    before: int = 0
    applied: int = 0
    about: str = ""
    """``""``: unchanged."""
    whole: bool = False
    """Whether the text is complete and includes ``changed_by``. A commit of Spark SQL is followed by a complete one."""
    changed_by: tuple[str, ...] = ()
    load: str = ""
    """The full read whose rows the commit added."""
    note: str = ""
    """In a table that gathers rows of a full read: the progress of the read."""
    copy_of: str = ""
    """In a table that is being renamed: its former folder. The table keeps its old name until that folder is gone."""
    copy_id: str = ""
    """Delta's id of the table in that folder."""

    @property
    def stamp(self) -> Stamp:
        """The stamp of the commit."""
        return Stamp(self.job, self.mark, self.before, self.about, self.applied)

    @property
    def json(self) -> str:
        """For ``userMetadata``, where Spark would replace ``${…}`` by a variable."""
        return msgspec.json.encode({"ticdc": self}).decode().replace("$", "\\u0024")


def text_of(stamp: Stamp) -> Text:
    """The text of a commit with a stamp."""
    return Text(
        job=stamp.job, mark=stamp.mark, before=stamp.applied_before, applied=stamp.job_applied, about=stamp.about
    )


class _Held(msgspec.Struct, frozen=True):
    ticdc: Text


def read_text(held: Any) -> Text | None:
    """The text of a commit or of a property; ``None``: it is not from a job."""
    try:
        return msgspec.json.decode(str(held).encode(), type=_Held).ticdc
    except msgspec.MsgspecError:
        return None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, from its file."""

    version: int
    text: Text | None
    operation: str = ""
    at: int = 0
    """Milliseconds since the epoch."""
    changes_rows: bool = False
    restored: int | None = None
    """The version that a RESTORE went back to. A RESTORE to a time does not name it and counts as another writer's
    change."""


def read_entry(version: int, whole: str) -> Entry:
    """Read the file of a commit."""
    info: dict[str, Any] = {}
    changes = False
    for line in whole.splitlines():
        if line.startswith('{"commitInfo"'):
            info = msgspec.json.decode(line.encode())["commitInfo"]
        elif line.startswith(('{"add"', '{"remove"')) and not changes:
            action = next(iter(msgspec.json.decode(line.encode()).values()))
            changes = bool(action.get("dataChange", True))
    given = info.get("operationParameters") or {}
    operation = str(info.get("operation", "WRITE"))
    # A session keeps its text: after a RESTORE in the same session, the commit still has ours.
    text = None if operation == _RESTORE else read_text(info.get("userMetadata", ""))
    return Entry(
        version=version,
        text=text,
        operation=operation,
        at=int(info.get("timestamp", 0)),
        changes_rows=changes,
        restored=int(given["version"]) if operation == _RESTORE and given.get("version") is not None else None,
    )


class History:
    """The commits of one table up to one version."""

    def __init__(self, lake: DeltaLake, path: str, snapshot: Any) -> None:
        self._lake, self._path, self._snapshot = lake, path, snapshot
        self.version = int(snapshot.version())
        self._read: dict[int, Entry | None] = {}

    def entry(self, version: int) -> Entry | None:
        """A commit's entry; ``None``: it was cleaned up."""
        if version not in self._read:
            text = self._lake.commit_text(self._path, version)
            self._read[version] = None if text is None else read_entry(version, text)
        return self._read[version]

    def commit(self, version: int) -> Commit | None:
        """See ``sinks.history.Lookup``."""
        entry = self.entry(version)
        if entry is None:
            return None
        restored = entry.restored
        changes = entry.changes_rows and restored is None
        parent = version - 1 if restored is None else restored
        return Commit(
            id=version,
            parent=None if parent < 0 else parent,
            sequence=version,
            operation=entry.operation if changes else "replace",
            stamp=None if entry.text is None else entry.text.stamp,
        )

    def note(self, upto: int | None = None) -> Note | None:
        """The newest complete stamp up to a version, also if a RESTORE came after it."""
        for version in range(self.version if upto is None else upto, -1, -1):
            entry = self.entry(version)
            if entry is None:
                break
            if entry.text is not None and entry.text.whole:
                return _note(entry.text, version)
        text, version = self._property()
        return None if text is None else _note(text, version)

    def found(self) -> TableFound:
        """The newest stamp, and what other writers did since."""
        note = self.note()
        found = judge(note, self.version, lambda version: self.commit(version) or _cleaned_up(version, note))
        if not found.rolled_back or found.stamp is None:
            return found
        # A RESTORE has also restored the columns.
        older = self.note(self._stamped())
        about = found.stamp.about if older is None else older.stamp.about
        return msgspec.structs.replace(found, furthest=None, stamp=msgspec.structs.replace(found.stamp, about=about))

    def unseen(self, note: Note | None, seen: int | None) -> frozenset[str]:
        """See ``sinks.history.unseen_changes``."""
        return unseen_changes(note, self.version, seen, self.commit)

    def loaded(self) -> str:
        """The full read whose rows were added last, if that is known."""
        for version in range(self.version, -1, -1):
            entry = self.entry(version)
            if entry is None:
                break
            if entry.text is not None and (entry.text.load or entry.text.whole):
                return entry.text.load
        text, _ = self._property()
        return "" if text is None else text.load

    def _property(self) -> tuple[Text | None, int]:
        """The last complete text in the table's properties, and its version."""
        properties = self._lake.metadata(self._snapshot).get("configuration", {})
        return read_text(properties.get(PROPERTY, "")), int(properties.get(VERSION, "0"))

    def _stamped(self) -> int | None:
        """The version with the last stamp among the ancestors of the current rows."""
        at: int | None = self.version
        while at is not None and (commit := self.commit(at)) is not None:
            if commit.stamp is not None:
                return at
            at = commit.parent
        return at


def _cleaned_up(version: int, note: Note | None) -> Commit | None:
    """A commit that Delta has removed from the log; ``None``: it may be newer than the newest stamp.

    If it is older, only a RESTORE leads to it: the table was set back.
    """
    if note is None or note.snapshot is None or version >= note.snapshot:
        return None
    return Commit(id=version, parent=None, sequence=version, operation="replace", stamp=None)


def _note(text: Text, version: int) -> Note:
    return Note(stamp=text.stamp, snapshot=version, sequence=version, changed_by=frozenset(text.changed_by))
