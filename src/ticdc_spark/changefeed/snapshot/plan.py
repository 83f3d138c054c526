"""Plans which ranges of which tables to read next, and applies the results. Without Kafka, Spark or files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from ticdc_spark.capture.base import CaptureState
from ticdc_spark.capture.snapshot.keys import Range
from ticdc_spark.capture.snapshot.present import Present, PresentTables, end_text, same_rows
from ticdc_spark.changefeed.sent import TableRows
from ticdc_spark.changefeed.snapshot.note import ReadNote
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Table, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.tasks import SourceMoved

WhyNot = Callable[[Table], str]
"""Why a table is not sent, as one sentence; ``""``: it is sent."""


class Part(msgspec.Struct, frozen=True):
    """A range of a table, for one task."""

    found: Present
    of: Range


class PartSent(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a part."""

    rows: int = 0
    """How many rows were sent and acknowledged."""
    messages: int = 0
    bytes: int = 0
    """Of the messages: keys and values."""
    counted: tuple[TableRows, ...] = ()
    """The rows by table and operation."""
    moved: str = ""
    """Why nothing was read: the table has changed; ``""``: it was read."""
    fault: str = ""
    """The name of the error's class."""
    text: str = ""


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a table that a wave reads."""

    name: TableName
    shape: str
    parts: int
    upto: str
    """The key where the next wave continues; ``""``: the table is read to its end."""
    goes_on: bool
    """Whether a part of the table was read before."""


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """Parts that are read in parallel, in the order of the stretches."""

    parts: tuple[Part, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    over: Mapping[TableName, str] = {}
    """Tables that will not be read, and why."""
    later: Mapping[TableName, str] = {}
    """Tables that cannot be read before the changefeed has sent more, and why."""


def plan_wave(
    state: CaptureState,
    note: ReadNote,
    skip: Collection[TableName],
    tables: PresentTables,
    why_not: WhyNot,
    *,
    parts: int,
    chunk_rows: int,
) -> Wave:
    """The next ranges: at most ``parts``, each of about ``chunk_rows`` rows. ``skip``: tables to ignore.

    Raises: SourceFault
    """
    known = {table.full_name: table for table in state.tables}
    identities = dict(note.tables or ())
    planned: list[Part] = []
    stretches: list[Stretch] = []
    over: dict[TableName, str] = {}
    later: dict[TableName, str] = {}
    for name in state.unread:
        if name in skip:
            continue
        if len(planned) >= parts:
            break
        if why := why_never(known.get(name), why_not):
            over[name] = why
            continue
        found, why = readable(name, known[name], tables)
        if found is None:
            later[name] = why
            continue
        if name not in identities:
            later[name] = "a DDL that names it has not been sent yet"
            continue
        if found.identity != identities[name]:
            later[name] = "another table has its name now, or it was emptied or rebuilt"
            continue
        found = replace(found, table=_identified(found.table, known[name], state.commit_ts))
        shape = sha256(f"{found.identity} {found.create}".encode()).hexdigest()[:16]
        goes_on = note.table == name and note.shape == shape
        try:
            ranges = tables.ranges(found, note.upto if goes_on else "", chunk_rows, parts - len(planned))
        except (SourceMoved, UsageError) as error:
            later[name] = str(error)
            continue
        planned += [Part(found, of) for of in ranges]
        upto = end_text(ranges[-1])
        stretches.append(Stretch(name=name, shape=shape, parts=len(ranges), upto=upto, goes_on=goes_on))
    return Wave(parts=tuple(planned), stretches=tuple(stretches), over=over, later=later)


def why_never(known: Table | None, why_not: WhyNot) -> str:
    """Why a table will never be read, as one sentence; ``""``: it may be."""
    if known is None:
        return "there is no such table"
    if why := why_not(known):
        return why
    # rows without a key would come twice: once from this read of their present state, once with their changes
    return "" if handle_key(known) else "it has no key, so rows that change during the read could not be matched"


def readable(name: TableName, known: Table, tables: PresentTables) -> tuple[Present | None, str]:
    """The present table, if its rows have the schema of ``known``; else why not. Raises: SourceFault"""
    try:
        found = tables.look(name)
    except (MessageError, UsageError) as error:
        return None, str(error)
    if found is None:
        return None, "it is gone or has another name now"
    if not same_rows(known, found.table):
        return None, "it was altered"
    return found, ""


def _identified(found: Table, known: Table, base: int) -> Table:
    """The table that was found, with its id in the state and a version for reading its rows."""
    same = replace(found, table_id=known.table_id, version=known.version)
    # the table may already have a DDL that was not sent yet: no other schema has the version of a round
    return same if same == known or known.version is None else replace(same, version=base)


def without(state: CaptureState, names: Collection[TableName]) -> CaptureState:
    """The state after tables need no more reading."""
    return replace(state, unread=tuple(name for name in state.unread if name not in names)) if names else state


def fold_wave(
    state: CaptureState, note: ReadNote, wave: Wave, sent: Sequence[PartSent], now: int
) -> tuple[CaptureState, ReadNote, dict[TableName, str]]:
    """The state and note after a wave without faults, and the tables that have changed, with the reason.

    ``now``: no row that was read is newer.
    """
    moved: dict[TableName, str] = {}
    done: list[TableName] = []
    at = 0
    for stretch in wave.stretches:
        results = sent[at : at + stretch.parts]
        at += stretch.parts
        rows = sum(one.rows for one in results)
        if why := next((one.moved for one in results if one.moved), ""):
            moved[stretch.name] = why
        elif not stretch.upto:
            done.append(stretch.name)
        else:
            before = note.rows if stretch.goes_on else 0
            note = replace(note, table=stretch.name, shape=stretch.shape, upto=stretch.upto, rows=before + rows)
            continue
        if note.table == stretch.name:
            note = replace(note, table=("", ""), shape="", upto="", rows=0)
    total = note.total + sum(one.rows for one in sent)
    note = replace(note, settles=max(note.settles, now), total=total)
    return without(state, done), note, moved
