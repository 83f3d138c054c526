"""What has changed in a job since the last notice, and the notice about it. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from ticdc_spark.operate.status import JobStatus, State
from ticdc_spark.replicate.state.table import ConditionName

SHOWN = 20
"""Tables that a notice lists; it counts the rest."""
_NAMED = 3
"""Tables of each condition that the text names."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job at one moment, for notices."""

    state: State
    reason: str = ""
    next: str = ""
    conditions: Mapping[str, ConditionName] = {}
    """Conditions by the names of tables."""
    details: Mapping[str, str] = {}


class ChangedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table whose condition changed."""

    name: str
    condition: ConditionName
    was: ConditionName | None
    """The condition before; ``null``: the table is new."""
    detail: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A notice in the form that is sent: one JSON object."""

    text: str
    """The whole notice in one or two sentences, for people."""
    job: str
    state: State
    was: State
    """The state in the last notice; the same as ``state`` if only tables changed."""
    reason: str
    next: str
    at: float
    """Seconds since the epoch."""
    tables_changed: int
    tables: tuple[ChangedTable, ...]
    """The first changed tables."""


def standing_of(status: JobStatus, is_wanted: Callable[[str, str], bool]) -> Standing:
    """The standing from a status. ``is_wanted``: whether notices cover a table, by schema and name."""
    tables = [table for table in status.tables if is_wanted(table.schema, table.table)]
    return Standing(
        state=status.state,
        reason=status.reason,
        next=status.next,
        conditions={table.name: table.condition for table in tables},
        details={table.name: table.detail for table in tables if table.detail and table.needs_a_look},
    )


def message(job: str, before: Standing, now: Standing, at: float) -> Message | None:
    """The notice about a change; ``None``: nothing relevant has changed.

    A new table, or one that left the job, is only reported if it needs a look: a job begins with many tables.
    """
    changed = [
        ChangedTable(name=name, condition=condition, was=before.conditions.get(name), detail=now.details.get(name, ""))
        for name, condition in now.conditions.items()
        if before.conditions.get(name) != condition and (name in before.conditions or condition in _BAD)
    ]
    if now.state == before.state and not changed:
        return None
    changed.sort(key=lambda table: (table.condition not in _BAD, table.name))
    return Message(
        text=_text(job, before, now, changed),
        job=job,
        state=now.state,
        was=before.state,
        reason=now.reason,
        next=now.next,
        at=at,
        tables_changed=len(changed),
        tables=tuple(changed[:SHOWN]),
    )


_BAD: tuple[ConditionName, ...] = ("quarantined", "diverged")


def _text(job: str, before: Standing, now: Standing, changed: list[ChangedTable]) -> str:
    was = f" (was {before.state})" if before.state != now.state else ""
    parts = [f"{job} is {now.state}{was}: {now.reason}"]
    for condition, number in Counter(table.condition for table in changed).items():
        names = [table.name for table in changed if table.condition == condition][:_NAMED]
        more = f" and {number - len(names):,} more" if number > len(names) else ""
        parts.append(f"{condition}: {', '.join(names)}{more}")
    if now.next:
        parts.append(now.next)
    return ". ".join(parts)
