"""Stamps in Iceberg: properties of the table, written in the transaction that changes it, and the snapshot's summary.

Spark's own commits carry the stamp in their summary only; the properties follow at once, in a commit of their own.
``sinks.history`` interprets them together.
"""

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError

from ticdc_spark.sinks.base import Stamp, TableFound
from ticdc_spark.sinks.history import Commit, Note, judge, unseen_changes

MARK = "ticdc.applied"
APPLIED_BEFORE = "ticdc.floor"
"""``Stamp.applied_before``; tables that exist have this name."""
JOB = "ticdc.job"
JOB_APPLIED = "ticdc.job-applied"
ABOUT = "ticdc.table"
SNAPSHOT = "ticdc.snapshot"
"""The snapshot that was current when the properties were written."""
SEQUENCE = "ticdc.sequence-number"
CHANGED = "ticdc.changed-by"
"""``Note.changed_by``."""


def summary(stamp: Stamp, about: str = "") -> dict[str, str]:
    """A mark as properties of a snapshot; ``about``: what the table is, where its properties do not follow at once."""
    ts, step = stamp.mark
    marked = {
        MARK: f"{ts}:{step}",
        APPLIED_BEFORE: str(stamp.applied_before),
        JOB: stamp.job,
        JOB_APPLIED: str(stamp.job_applied),
    }
    return marked | ({ABOUT: about} if about else {})


def read_note(loaded: Any) -> Note | None:
    """The note in the properties of a table; ``None``: no job has written one."""
    properties = loaded.properties()
    stamp = _stamp(properties)
    if stamp is None:
        return None
    snapshot = properties.get(SNAPSHOT)
    changed = str(properties.getOrDefault(CHANGED, ""))
    return Note(
        stamp=stamp,
        snapshot=None if snapshot is None else int(snapshot),
        sequence=int(properties.getOrDefault(SEQUENCE, "0")),
        changed_by=frozenset(filter(None, changed.split(", "))),
    )


def place_of(loaded: Any) -> tuple[int, int] | None:
    """(id, sequence number) of a table's current snapshot."""
    snapshot = loaded.currentSnapshot()
    return None if snapshot is None else (int(snapshot.snapshotId()), int(snapshot.sequenceNumber()))


def set_properties(transaction: Any, stamp: Stamp, changed_by: frozenset[str]) -> None:
    """Write a stamp into the properties of a transaction's table, beside its newest snapshot."""
    update = transaction.updateProperties()
    for key, value in summary(stamp).items():
        update.set(key, value)
    if stamp.about:
        update.set(ABOUT, stamp.about)
    place = place_of(transaction.table())
    if place is not None:
        update.set(SNAPSHOT, str(place[0]))
        update.set(SEQUENCE, str(place[1]))
    if changed_by:
        update.set(CHANGED, ", ".join(sorted(changed_by)))
    else:
        update.remove(CHANGED)
    update.commit()


def find_stamp(iceberg: Any, loaded: Any) -> TableFound:
    """Find a table's newest stamp, and what other writers did to it since. ``iceberg``: the package, in the JVM."""
    note, place = read_note(loaded), place_of(loaded)
    history = History(iceberg, loaded, old=note is not None)
    return judge(note, None if place is None else place[0], history.commit)


def unseen(iceberg: Any, loaded: Any, note: Note | None, seen: int | None) -> frozenset[str]:
    """See ``history.unseen_changes``."""
    place = place_of(loaded)
    history = History(iceberg, loaded, old=True)
    return unseen_changes(note, None if place is None else place[0], seen, history.commit)


class History:
    """The snapshots of a table, also those that were expired as far as older metadata files still have them."""

    def __init__(self, iceberg: Any, loaded: Any, *, old: bool) -> None:
        self._iceberg = iceberg
        self._loaded = loaded
        self._older: Iterator[Any] = self._metadata() if old else iter(())
        self._read: list[Any] = []

    def commit(self, snapshot_id: int) -> Commit | None:
        """See ``history.Lookup``."""
        found = self._loaded.snapshot(snapshot_id)
        for metadata in self._read if found is None else ():
            found = found or metadata.snapshot(snapshot_id)
        while found is None and (metadata := next(self._older, None)) is not None:
            self._read.append(metadata)
            found = metadata.snapshot(snapshot_id)
        return None if found is None else _commit(found)

    def _metadata(self) -> Iterator[Any]:
        """The files before the current one, newest first; another tool may have removed some."""
        files = [entry.file() for entry in self._loaded.operations().current().previousFiles()]
        for file in reversed(files):
            try:
                yield self._iceberg.TableMetadataParser.read(self._loaded.io().newInputFile(file))
            except Py4JJavaError as error:
                if not str(error.java_exception.getClass().getName()).endswith(".NotFoundException"):
                    raise


def _commit(snapshot: Any) -> Commit:
    parent = snapshot.parentId()
    return Commit(
        id=int(snapshot.snapshotId()),
        parent=None if parent is None else int(parent),
        sequence=int(snapshot.sequenceNumber()),
        operation=str(snapshot.operation()),
        stamp=_stamp(snapshot.summary()),
    )


def _stamp(held: Any) -> Stamp | None:
    """The stamp in a map of properties."""
    mark = None if held is None else held.get(MARK)
    if mark is None:
        return None
    ts, step = str(mark).split(":")
    about, applied = str(held.getOrDefault(ABOUT, "")), int(held.getOrDefault(JOB_APPLIED, "0"))
    return Stamp(str(held.get(JOB)), (int(ts), int(step)), int(held.get(APPLIED_BEFORE)), about, applied)


__all__ = [
    "ABOUT",
    "JOB",
    "MARK",
    "find_stamp",
    "place_of",
    "read_note",
    "set_properties",
    "summary",
    "unseen",
]
