"""Stamps in Iceberg: properties of the table, written in the transaction that changes it, and the snapshot's summary.

Properties survive whatever other tools do to snapshots (compaction, expiry); a rollback does not undo them, which is
how it is recognised. Spark's own commits carry the mark in their summary only; the properties follow at once.
"""

from typing import Any

from ticdc_spark.sinks.base import Mark, Stamp, TableFound

MARK = "ticdc.applied"
FLOOR = "ticdc.floor"
JOB = "ticdc.job"
ABOUT = "ticdc.table"
SNAPSHOT = "ticdc.snapshot"
"""The snapshot that was current when the properties were written."""
SEQUENCE = "ticdc.sequence-number"
UPKEEP = frozenset({"replace"})
"""Operations that change files and no rows."""


def summary(stamp: Stamp) -> dict[str, str]:
    """The mark as properties of a snapshot."""
    return {MARK: _text(stamp.mark), FLOOR: str(stamp.floor), JOB: stamp.job}


def set_properties(transaction: Any, stamp: Stamp) -> None:
    """Write a stamp into the properties of a transaction's table, beside its newest snapshot."""
    update = transaction.updateProperties()
    for key, value in summary(stamp).items():
        update.set(key, value)
    if stamp.about:
        update.set(ABOUT, stamp.about)
    snapshot = transaction.table().currentSnapshot()
    if snapshot is not None:
        update.set(SNAPSHOT, str(snapshot.snapshotId()))
        update.set(SEQUENCE, str(snapshot.sequenceNumber()))
    update.commit()


def set_about(transaction: Any, stamp: Stamp) -> None:
    """Write only what the table is."""
    transaction.updateProperties().set(ABOUT, stamp.about).commit()


def says_more(loaded: Any, stamp: Stamp) -> bool:
    """Whether a stamp says of a table what its properties do not."""
    return str(loaded.properties().getOrDefault(ABOUT, "")) != stamp.about


def find_stamp(loaded: Any) -> TableFound:
    """What a table says of itself, and what others did to it since."""
    properties = loaded.properties()
    noted = properties.get(MARK)
    kept = None if noted is None else _stamp(properties.get(JOB), noted, properties.get(FLOOR), properties.get(ABOUT))
    about = kept.about if kept is not None else ""
    known = str(properties.getOrDefault(SNAPSHOT, ""))
    others: list[str] = []
    snapshot = loaded.currentSnapshot()
    newest = None if snapshot is None else int(snapshot.sequenceNumber())
    while snapshot is not None:
        held = snapshot.summary()
        text = held.get(MARK)
        carried = None if text is None else _stamp(held.get(JOB), text, held.get(FLOOR), about)
        if str(snapshot.snapshotId()) == known:
            return TableFound(stamp=_newer(kept, carried), changed_by=_changed(others))
        if carried is not None:
            behind = kept is not None and carried.job == kept.job and carried.mark < kept.mark
            return TableFound(stamp=carried, rolled_back=behind, changed_by="" if behind else _changed(others))
        others.append(str(snapshot.operation()))
        parent = snapshot.parentId()
        snapshot = None if parent is None else loaded.snapshot(parent)
    if kept is None:
        return TableFound(stamp=None)
    # No snapshot of ours is left in the history: either it was expired, or the table was set back to before it.
    sequence = int(properties.getOrDefault(SEQUENCE, "0"))
    if newest is None or newest < sequence:
        return TableFound(stamp=_stamp(kept.job, "0:0", "0", about), rolled_back=True)
    return TableFound(stamp=kept, changed_by=_changed(others))


def _newer(kept: Stamp | None, carried: Stamp | None) -> Stamp | None:
    if kept is None or (carried is not None and carried.mark > kept.mark):
        return carried
    return kept


def _changed(operations: list[str]) -> str:
    found = sorted({operation for operation in operations if operation not in UPKEEP})
    return ", ".join(found)


def _stamp(job: Any, mark: Any, floor: Any, about: Any) -> Stamp:
    ts, step = str(mark).split(":")
    return Stamp(str(job), (int(ts), int(step)), int(floor), "" if about is None else str(about))


def _text(mark: Mark) -> str:
    return f"{mark[0]}:{mark[1]}"


__all__ = ["JOB", "MARK", "UPKEEP", "find_stamp", "says_more", "set_about", "set_properties", "summary"]
