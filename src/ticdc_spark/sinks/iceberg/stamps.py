"""Stamps in Iceberg: in the table's properties, written by the transaction that changes it, and in the snapshot's
summary.

Spark's own commits carry the stamp only in their summary; a separate commit writes the properties right after it.
``sinks.history`` interprets both.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError

from ticdc_spark.sinks.base import Stamp, TableFound
from ticdc_spark.sinks.history import Commit, Note, judge, unseen_changes
from ticdc_spark.sinks.iceberg.java import Snapshot, to_dict, to_snapshot

MARK = "ticdc.applied"
APPLIED_BEFORE = "ticdc.floor"
"""``Stamp.applied_before``, by the name that existing tables use."""
JOB = "ticdc.job"
JOB_APPLIED = "ticdc.job-applied"
ABOUT = "ticdc.table"
SNAPSHOT = "ticdc.snapshot"
"""The snapshot that was current when the properties were written."""
SEQUENCE = "ticdc.sequence-number"
CHANGED = "ticdc.changed-by"
"""``Note.changed_by``."""


def summary(stamp: Stamp, about: str = "") -> dict[str, str]:
    """A stamp as properties of a snapshot; ``about``: what the table is, if its properties are written later."""
    ts, step = stamp.mark
    marked = {
        MARK: f"{ts}:{step}",
        APPLIED_BEFORE: str(stamp.applied_before),
        JOB: stamp.job,
        JOB_APPLIED: str(stamp.job_applied),
    }
    return marked | ({ABOUT: about} if about else {})


def read_note(iceberg: Any, loaded: Any) -> Note | None:
    """The note in the properties of a table; ``None``: no job has written one. ``iceberg``: the package in the JVM."""
    return note_of(to_dict(iceberg, loaded.properties()))


def note_of(properties: Mapping[str, str]) -> Note | None:
    """The note in a table's properties; ``None``: no job has written one."""
    stamp = _stamp(properties)
    if stamp is None:
        return None
    snapshot = properties.get(SNAPSHOT)
    changed = properties.get(CHANGED, "")
    return Note(
        stamp=stamp,
        snapshot=None if snapshot is None else int(snapshot),
        sequence=int(properties.get(SEQUENCE, "0")),
        changed_by=frozenset(filter(None, changed.split(", "))),
    )


def place_of(loaded: Any) -> tuple[int, int] | None:
    """(id, sequence number) of a table's current snapshot."""
    snapshot = loaded.currentSnapshot()
    return None if snapshot is None else (int(snapshot.snapshotId()), int(snapshot.sequenceNumber()))


def set_properties(transaction: Any, place: tuple[int, int] | None, stamp: Stamp, changed_by: frozenset[str]) -> None:
    """Write a stamp to the properties of a transaction's table, with the ``place`` of its newest snapshot."""
    update = transaction.updateProperties()
    for key, value in summary(stamp, stamp.about).items():
        update.set(key, value)
    if place is not None:
        update.set(SNAPSHOT, str(place[0]))
        update.set(SEQUENCE, str(place[1]))
    if changed_by:
        update.set(CHANGED, ", ".join(sorted(changed_by)))
    else:
        update.remove(CHANGED)
    update.commit()


def append_stamp(transaction: Any, stamp: Stamp) -> None:
    """Add an empty append to a transaction; its snapshot gets the stamp and the schema."""
    append = transaction.newFastAppend()
    for key, value in summary(stamp).items():
        append.set(key, value)
    append.commit()


def find_stamp(iceberg: Any, loaded: Any) -> TableFound:
    """Find a table's newest stamp, and what other writers did since. ``iceberg``: the package in the JVM."""
    note, place = read_note(iceberg, loaded), place_of(loaded)
    history = History(iceberg, loaded, old=note is not None)
    return judge(note, None if place is None else place[0], history.commit)


def unseen(
    iceberg: Any, loaded: Any, current: tuple[int, int] | None, note: Note | None, seen: int | None
) -> frozenset[str]:
    """See ``history.unseen_changes``. ``current``: as from ``place_of``."""
    history = History(iceberg, loaded, old=True)
    return unseen_changes(note, None if current is None else current[0], seen, history.commit)


class History:
    """The snapshots of a table, including expired ones if older metadata files still list them."""

    def __init__(self, iceberg: Any, loaded: Any, *, old: bool) -> None:
        self._iceberg = iceberg
        self._loaded = loaded
        self._older: Iterator[Any] = self._metadata() if old else iter(())
        self._read: list[Any] = []

    def commit(self, snapshot_id: int) -> Commit | None:
        found = self._loaded.snapshot(snapshot_id)
        for metadata in self._read if found is None else ():
            found = found or metadata.snapshot(snapshot_id)
        while found is None and (metadata := next(self._older, None)) is not None:
            self._read.append(metadata)
            found = metadata.snapshot(snapshot_id)
        snapshot = to_snapshot(self._iceberg, found)
        return None if snapshot is None else _commit(snapshot)

    def _metadata(self) -> Iterator[Any]:
        """Earlier metadata files, newest first; another tool may have removed some."""
        files = [entry.file() for entry in self._loaded.operations().current().previousFiles()]
        for file in reversed(files):
            try:
                yield self._iceberg.TableMetadataParser.read(self._loaded.io().newInputFile(file))
            except Py4JJavaError as error:
                if not str(error.java_exception.getClass().getName()).endswith(".NotFoundException"):
                    raise


def _commit(snapshot: Snapshot) -> Commit:
    return Commit(
        id=snapshot.snapshot_id,
        parent=snapshot.parent_snapshot_id,
        sequence=snapshot.sequence_number,
        operation=snapshot.summary.get("operation", ""),
        stamp=_stamp(snapshot.summary),
    )


def _stamp(held: Mapping[str, str]) -> Stamp | None:
    """The stamp in a map of properties."""
    mark = held.get(MARK)
    if mark is None:
        return None
    ts, step = mark.split(":")
    about, applied = held.get(ABOUT, ""), int(held.get(JOB_APPLIED, "0"))
    return Stamp(held[JOB], (int(ts), int(step)), int(held[APPLIED_BEFORE]), about, applied)
