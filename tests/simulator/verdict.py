"""The verdict: tables equal the source, or the job stopped with what to do, or a table is marked; or a finding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from tests.simulator.columns import half
from tests.simulator.database import Event, Live, Name
from tests.simulator.faults import Fault
from tests.simulator.letters import folded
from tests.simulator.seams import JobView, LakeTable, TableView
from tests.simulator.snapshots import is_under_way
from tests.simulator.topics_gone import is_needless
from tests.simulator.verdict_more import MARKS, in_small_letters, judge_letters, without_unheard_of
from tests.simulator.world import Finding, World
from ticdc_spark.config.row_filters import row_filter
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import (
    EnvironmentFault,
    LeaseHeld,
    RejectedMessage,
    SinkFault,
    TicdcSparkError,
    UnsupportedDdl,
)
from ticdc_spark.model import Column, ColumnType, Row, Value
from ticdc_spark.mysql import INTEGER_BITS, default_value, is_bytes

_WAY_OUT = re.compile(
    r"\[job\]|\[source\]|\[schema\]|skip-ddl|skip-to-known|adopt|on-reject|late-rows|schema-timeout|max-rejects|resume"
    r"|a newer dump|rename or drop|drop it|stop it|stop that|restore|created again|removed before|mend"
    r"|leave it out|exclude it"
    r"|rename (it|them) back|another name|begin a new|start the job again|set `|delete|truncate|rollback|rolled back"
    r"|roll it forward|back up"
    r"|is held by|ticdc-spark rebuild"
    r"|was taken",
    re.IGNORECASE,
)
_SILENT = re.compile(r"s\d+")
"""Names of columns that come without a DDL."""
_ADOPTED = "the target had it before this job"


def judge_stop(world: World, error: TicdcSparkError, fired: Fault | None) -> Finding | None:
    """Whether the job may stop with ``error``; ``fired``: the fault that happened in the batch."""
    name, text, excuses = type(error).__name__, str(error), world.excuses
    injected = (fired is not None and fired.kind in ("refused", "answer_lost")) or world.was_refused
    if (injected and isinstance(error, EnvironmentFault)) or (
        world.overtaken and isinstance(error, LeaseHeld | SinkFault)
    ):
        return None
    if "needs watermarks" in text and not world.lab.view().applied:
        return None  # It waited for the first one.
    where = f"{name}: {_shape(text)}"
    if isinstance(error, LeaseHeld):
        return Finding(kind="lease held by nobody", where=name, detail=text)
    if isinstance(error, SinkFault) and not excuses.lake_touched:
        return Finding(kind="the lake refuses", where=where, detail=text)
    if not _WAY_OUT.search(text):
        return Finding(kind="a stop without a way out", where=where, detail=text)
    if isinstance(error, UnsupportedDdl) and excuses.refused_ddl:
        return None
    if excuses.bad_messages and (isinstance(error, RejectedMessage) or type(error) is EnvironmentFault):
        return None
    if topic := is_needless(world, error):
        return Finding(kind="a stop at a topic that is not needed", where=name, detail=f"{topic}: {text}")
    if not excuses.disturbances:
        return Finding(kind="a stop without cause", where=where, detail=text)
    return None


def judge_tables(world: World, view: JobView, *, final: bool) -> Finding | None:
    """Compare every table with the source as of what the job has as applied. ``final``: it has read everything."""
    if not view.applied:
        return None
    truth = {name: _kept(live, world.lab.where) for name, live in world.database.truth_at(view.applied).items()}
    if (finding := judge_letters(view)) is not None:
        return finding
    view, lake = in_small_letters(view, world.lab.lake.tables())
    world.in_lake.update(lake)
    world.was_clean.update(name for name, seen in view.tables.items() if seen.condition == "clean")
    for name, live in truth.items():
        if (
            not world.is_unknowable(live.uid)
            and world.wanted(name)
            and world.known(live.uid)
            and world.all_read(live.uid)
        ):
            finding = _judge(world, view, name, live, lake.get(name), final=final)
            if finding is not None:
                return finding
    kept = _judge_kept(world, view, lake) if final else None
    return kept or _judge_extra(world, view, lake, truth, final=final)


def _judge(
    world: World, view: JobView, name: Name, live: Live, table: LakeTable | None, *, final: bool
) -> Finding | None:
    uid, seen = live.uid, view.tables.get(name)
    excuses = world.excuses
    if not final and (excuses.rival_deletes or uid in excuses.unsettled):
        return None
    if not final and (_is_ahead(world, table, view) or _is_read(world, view, live)):
        return None
    if _is_behind(world, view, live, final=final):
        return None
    if _is_marked(world, view, live):
        found = _judge_keys(world, live, table, seen.condition if seen else "")
        return found or _judge_mark(world, live, seen, final=final)
    excused = bool(excuses.disturbances) or uid in excuses.may_mark or uid in excuses.weak
    quiet = seen is not None and "no message of it" in seen.detail
    if final and not excused and seen is not None and seen.condition == "unverified" and not quiet:
        return Finding(kind="unverified without cause", where="calm story", detail=f"{name}: {seen}")
    condition = seen.condition if seen else "unknown to the job"
    # Perhaps nothing else of it was read so far, and an older table of its name is there.
    is_unseen = condition in ("unknown to the job", "dropped", "kept") and uid in world.ticdc.mangled
    is_unseen &= not final or world.ticdc.is_silent(uid, name)
    if table is None:
        if not live.rows or (not final and view.applied < world.murky_until):
            return None
        # The RENAME by which it came into the filter was the message that could not be read: nothing else names it.
        past = world.ticdc.sent[uid].names - {name}
        if seen is None and uid in world.ticdc.mangled and past and not any(map(world.wanted, past)):
            return None
        if is_unseen:
            return None
        detail = f"{name} has {len(live.rows)} rows at {view.applied} and is not in the lake; {condition}"
        return Finding(kind="lost table", where=condition, detail=detail)
    table = without_unheard_of(world, view, live, table)
    different = differences(live, table)
    if (
        different is None
        or (is_unseen and condition == "kept")
        or (not final and world.unfinished and _only_has_more_columns(live, table))
    ):
        return None
    what, detail = different
    if what == "columns" and excuses.disturbances and seen is not None and "may not be the source's" in seen.detail:
        return None  # Something was lost, and the status says what that means.
    return Finding(kind="wrong data", where=f"{what}, {condition}", detail=f"{name} at {view.applied}: {detail}")


def _kept(live: Live, where: str) -> Live:
    """A table with those of its rows that the target is to have."""
    if not where:
        return live
    of = row_filter(where, live.table)
    bad: dict[int, str] = {}
    cells = [[row[name] for row in live.rows.values()] for name in of.columns]
    unkept = of.unkept(cells, range(len(live.rows)), bad)
    assert not bad, "each row has the columns"
    return replace(live, rows={key: row for at, (key, row) in enumerate(live.rows.items()) if at not in unkept})


def judge_others(world: World) -> Finding | None:
    """Tables that no job made, and that the job may not adopt, must stay as they are."""
    lake = world.lab.lake.tables() if world.left_alone else {}
    for name, before in world.left_alone.items():
        now = lake.get(name)
        if now is None or now.mark_ts is not None or now.rows != before.rows:
            return Finding(kind="a table of others was touched", where="adopt is not set", detail=f"{name}: {now}")
    return None


def _judge_keys(world: World, live: Live, table: LakeTable | None, condition: str) -> Finding | None:
    """A table has one row a key, whatever else is wrong with it."""
    if table is None or world.excuses.lake_touched or not live.keys or not set(live.keys) <= set(table.columns):
        return None
    twice = _twice(table, live.keys)
    if not twice:
        return None
    # A table that stands still, was kept, or was renamed while it was left out, may be an older one of that name, or of
    # one that this one had before, which had another key.
    had = world.database.names[live.uid]
    older = {held.keys for event in world.database.events for name in had if (held := _held_before(world, event, name))}
    lost_key = any(not set(keys) <= set(table.columns) for keys in older)
    left_out = "filter" in world.excuses.weak.get(live.uid, "")
    if lost_key and (world.job.skip_ddl or left_out):
        return None  # An older one, which lost its key's columns by a DDL that was meant for this one.
    if () in older:
        return None  # One without a key.
    if any(keys != live.keys and set(keys) <= set(table.columns) and not _twice(table, keys) for keys in older):
        return None
    return Finding(kind="two rows of one key", where=condition, detail=f"{live.name}: {twice[:3]} ({live.keys})")


def _twice(table: LakeTable, keys: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Keys of several rows. Where a part is NULL it is not known, as the column came by another table's DDL."""
    found = Counter(tuple(row[name] for name in keys) for row in table.rows)
    return [key for key, n in found.items() if n > 1 and None not in key]


def _held_before(world: World, event: Event, name: Name) -> Live | None:
    return world.database.truth_before(event.ts).get(name) if event.change is not None else None


def _judge_mark(world: World, live: Live, seen: TableView | None, *, final: bool) -> Finding | None:
    name, uid = live.name, live.uid
    if not final and _is_older(world, seen, live):
        return None
    # That a schema comes late is a reason to wait, and none to leave rows out.
    cause = set(world.excuses.disturbances) - {"no schema file", "schema_file"}
    if cause or world.excuses.bad_messages or uid in world.excuses.may_mark:
        return None
    if world.excuses.refused_ddl or seen is None or seen.condition not in MARKS:
        return None
    # Simple says of a table which columns are generated only in the SQL that made it; and CHANGE may change the values.
    generated = "they are generated columns and no message said so", "older rows have the values of generated column"
    if world.setup.generated and any(text in seen.detail for text in generated):
        return None
    now = world.database.now.get(name)
    if "and was given up" in seen.detail and (not final or now is None or now.uid != uid):
        return None  # It is read again once the DDL that took its name is applied. At the end it was.
    return Finding(kind="marked without cause", where=seen.condition, detail=f"{name}: {seen.detail}")


def _is_older(world: World, seen: TableView | None, live: Live) -> bool:
    """Whether what the status shows is an older table of the name, whose DDLs wait."""
    born = next((event.ts for event in world.database.events if live.uid in dict(event.live)), 0)
    return seen is not None and "behind the others" in seen.detail and seen.applied < born


def _judge_extra(
    world: World, view: JobView, lake: Mapping[Name, LakeTable], truth: Mapping[Name, Live], *, final: bool
) -> Finding | None:
    """Tables of the lake that the source does not have."""
    partly = {
        name
        for uid, sent in world.ticdc.sent.items()
        if not world.all_read(uid) or (not final and uid in world.excuses.unsettled) or world.is_unknowable(uid)
        for name in sent.names
    }
    if not final and view.applied < world.murky_until:
        return None
    for name, table in lake.items():
        seen = view.tables.get(name)
        condition = seen.condition if seen else "unknown to the job"
        if (
            name in truth
            or name in world.excuses.foreign
            or name in partly
            or not world.wanted(name)
            or "_dropped_" in name[1]
            or condition in ("diverged", "quarantined", "snapshot", "kept")
            or (seen is not None and ("behind the others" in seen.detail or "no message of it" in seen.detail))
            or (name in world.excuses.weak_names and condition != "clean")
            or (not final and (_is_ahead(world, table, view) or is_under_way(seen)))
        ):
            continue
        detail = (
            f"{name} is in the lake with {len(table.rows)} rows, and not in the source at {view.applied}; {condition}"
        )
        return Finding(kind="a table that is gone", where=condition, detail=detail)
    return None


def _judge_kept(world: World, view: JobView, lake: Mapping[Name, LakeTable]) -> Finding | None:
    """Tables whose DROP was skipped: the operator keeps what the table was just before."""
    for event in world.database.events:
        change = event.change
        if change is None or change.kind != "ERASE" or not world.murky_until < event.ts <= view.applied:
            continue
        name = folded((change.schema, change.name))
        live = world.database.truth_before(event.ts).get(name)
        seen = view.tables.get(name)
        if (
            live is None
            or not _is_skipped(world, event)
            or any(_is_skipped(world, other) for other in world.database.events if other.ts < event.ts)
            or any(name in dict(other.live).values() for other in world.database.events if other.ts > event.ts)
            or not (world.wanted(name) and world.known(live.uid) and world.all_read(live.uid))
            or {live.uid} & {*world.excuses.weak, *world.excuses.unsettled, *world.excuses.may_mark}
            or (seen is not None and (seen.condition == "quarantined" or "rows may be missing" in seen.detail))
            or world.excuses.bad_messages
        ):
            continue
        table = lake.get(name)
        if table is None and world.setup.job.snapshot and name not in world.in_lake:
            continue  # It was dropped before it could be read in full.
        if world.setup.job.snapshot and name not in world.was_clean:
            continue  # The same, and rows of it had come.
        if table is None and live.rows:
            return Finding(kind="lost table", where="its DROP was skipped", detail=f"{name} had {len(live.rows)} rows")
        different = differences(live, table) if table is not None else None
        if different is not None:
            detail = f"{name} just before {event.ts}: {different[1]}"
            return Finding(kind="wrong data", where=f"{different[0]}, its DROP was skipped", detail=detail)
    return None


def _is_skipped(world: World, event: Event) -> bool:
    change = event.change
    return change is not None and any(skip.matches(event.ts, change.query) for skip in world.job.skip_ddl)


def _is_ahead(world: World, table: LakeTable | None, view: JobView) -> bool:
    """Whether a table's own commits have passed what the job has committed, as they may until a batch that was
    interrupted is done again."""
    if not world.unfinished and not world.excuses.disturbances:
        return False
    return table is not None and table.mark_ts is not None and table.mark_ts > view.applied


def _is_read(world: World, view: JobView, live: Live) -> bool:
    """Whether status says that a table, under a name that it has or had, is not read in full yet; or it was renamed to
    and fro since the source's tables were listed, and comes to its name again by a DDL that waits."""
    names = world.database.names[live.uid]
    renamed = bool(world.setup.job.snapshot) and len(names) > 1 and live.name not in view.tables
    return renamed or any(is_under_way(view.tables.get(name)) for name in names)


def _is_behind(world: World, view: JobView, live: Live, *, final: bool) -> bool:
    """Whether status shows that a table, under a name that it has or had, is behind the others: for good only where
    another one stands still, or waits for a topic that the job does not read."""
    if final and not any(map(_stands_still, view.tables.values())):
        return False
    listed = (view.tables.get(name) for name in world.ticdc.sent[live.uid].names)
    return any(seen and seen.condition in ("unverified", "snapshot") and seen.applied < view.applied for seen in listed)


def _stands_still(seen: TableView) -> bool:
    return seen.condition == "quarantined" or seen.detail.endswith("which it came from, is not read")


def _is_marked(world: World, view: JobView, live: Live) -> bool:
    seen = view.tables.get(live.name)
    if seen is not None and seen.condition in MARKS:
        return True
    if seen is not None and seen.condition in ("unverified", "kept") and live.uid in world.excuses.weak:
        return True
    if seen is not None and seen.condition == "kept" and "a newer one" in seen.detail:
        return True
    if seen is not None and live.uid in world.ticdc.mangled and "may not be the source's" in seen.detail:
        return True  # its CREATE could not be read before the job knew any table
    only = world.setup.job.snapshot_tables
    is_open = live.uid in world.ticdc.mangled or world.excuses.lake_touched
    if seen is not None and seen.condition == "unverified" and is_open and only and not table_filter(only)(*live.name):
        return True  # Its CREATE could not be read, or the lake lost it, and it got a name that is not read in full.
    past = world.ticdc.sent[live.uid].names - {live.name}
    came = live.uid in world.ticdc.mangled and past and not any(map(world.wanted, past))
    if seen is not None and seen.condition == "unverified" and came:
        return True  # The RENAME by which it came into the filter could not be read.
    now = world.database.now.get(live.name)
    if world.setup.job.snapshot and (now is None or now.uid != live.uid):
        # It was dropped or renamed before it could be read in full.
        return seen is None or seen.condition == "unverified"
    if (seen is None or seen.condition == "dropped") and live.uid in world.excuses.weak:
        return True  # An older table of the name was dropped, or renamed: status does not list it any more.
    names = {live.name, *world.database.names[live.uid]}
    if seen is not None and names & world.excuses.foreign and (seen.detail == _ADOPTED or _stands_still(seen)):
        return True  # also a table that is made anew under the name: the rows that were there stay, also when renamed
    # A mark may stand under a name that the table had when it was made.
    return any(name in view.tables and view.tables[name].condition in MARKS for name in past)


def differences(live: Live, table: LakeTable) -> tuple[str, str] | None:
    """How a table of the lake differs from the source's: its kind, and a sentence; ``None``: it equals."""
    held = [name for name in table.columns if not name.startswith("_ticdc")]
    columns = [column for column in live.table.columns if column.name in held or not _is_unheard_of(live, column)]
    names = [column.name for column in columns]
    if set(names) != set(held):
        return "columns", f"columns {sorted(held)}, and should be {sorted(names)}"
    reads = [_reader(column.type) for column in columns]
    computed = {one.name for one in columns if one.virtual and any(row.get(one.name) is not None for row in table.rows)}
    virtual = {one.name for one in columns if one.virtual}

    def value(row: Row, name: str) -> Value:
        """A virtual column has its value in each row, or in none."""
        return half(row["id"]) if name in computed else None if name in virtual else row[name]

    wanted = Counter(
        [tuple([read(value(row, name)) for name, read in zip(names, reads, strict=True)]) for row in live.rows.values()]
    )
    found = Counter(
        [tuple([read(row.get(name)) for name, read in zip(names, reads, strict=True)]) for row in table.rows]
    )
    if wanted == found:
        return None
    missing, extra = list((wanted - found).elements()), list((found - wanted).elements())
    what = "other rows" if missing and extra else "rows missing" if missing else "rows too many"
    return what, f"missing {missing[:3]}, too many {extra[:3]} of {len(live.rows)} ({', '.join(names)})"


def _only_has_more_columns(live: Live, table: LakeTable) -> bool:
    """Whether a table differs by new columns without a value: a batch that was interrupted had added them."""
    names = {column.name for column in live.table.columns}
    more = {name for name in table.columns if name not in names and not name.startswith("_ticdc")}
    if any(row.get(name) is not None for row in table.rows for name in more):
        return False
    left = tuple(name for name in table.columns if name not in more)
    return differences(live, LakeTable(columns=left, rows=table.rows)) is None


def _is_unheard_of(live: Live, column: Column) -> bool:
    """Whether a column came without a DDL, and no row since has had a value of its own in it: no message names it."""
    value = default_value(column)
    return _SILENT.fullmatch(column.name) is not None and all(
        row[column.name] is None or row[column.name] == value for row in live.rows.values()
    )


def _reader(kind: ColumnType) -> Callable[[Any], Any]:
    """Brings a cell, in normal form or as the lake has it, to one form."""
    if kind.name == "enum":
        names = {str(at): name for at, name in enumerate(kind.elements, 1)}
        return lambda value: names.get(str(value), value)
    if kind.name in INTEGER_BITS or kind.name == "decimal":
        return _number
    if kind.name in ("float", "double"):
        return _float
    if kind.name in ("datetime", "timestamp"):
        return _moment
    if is_bytes(kind):
        return _bytes
    return _same


def _number(value: Any) -> Any:
    try:
        return None if value is None else Decimal(value).normalize() + 0
    except (ArithmeticError, TypeError, ValueError):
        return value  # another column's value: it equals none


def _float(value: Any) -> Any:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return value


def _moment(value: Any) -> Any:
    if isinstance(value, datetime):
        value = (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat(" ")
    if isinstance(value, str) and "." in value:
        return value.rstrip("0").rstrip(".")
    return value


def _bytes(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _same(value: Any) -> Any:
    return value


def _shape(text: str) -> str:
    """An error's text without what differs from story to story."""
    text = re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"", "…", text.splitlines()[0])
    return re.sub(r"\d+", "0", text)[:48]
