"""What the verdict looks at because of what ``draw_more`` draws: letters of names, files, columns that rows lack."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tests.simulator.database import Live, Name, Uid
from tests.simulator.letters import folded
from tests.simulator.seams import JobView, LakeTable, TableView
from tests.simulator.world import Finding, World

MARKS = ("diverged", "quarantined")


def in_any_letters(
    view: JobView, lake: Mapping[Name, LakeTable]
) -> tuple[JobView, Mapping[Name, LakeTable], dict[Name, TableView]]:
    """Status and lake by names in small letters, and what the source cannot have: other tables whose names differ from
    those by their letters alone."""
    if all(name == folded(name) for names in (lake, view.tables) for name in names):
        return view, lake, {}
    seen, found, twins = dict[Name, TableView](), dict[Name, LakeTable](), dict[Name, TableView]()
    # Of two, the one that is not marked is to be the source's: what took the other one away could not be read. Of two
    # that are not, it is the one that came later: the RENAME of the other may be in a topic that is not read.
    latest_first = [*view.tables.items()]
    latest_first.reverse()
    for name, one in sorted(
        latest_first,
        key=lambda item: (item[1].condition == "dropped", item[0] not in lake, item[1].condition in MARKS),
    ):
        if seen.setdefault(folded(name), one) is not one and one.condition != "dropped" and name in lake:
            twins[name] = one
    for name, table in sorted(lake.items(), key=lambda item: item[0] not in view.tables):
        if name not in twins:
            found.setdefault(folded(name), table)
    return msgspec.structs.replace(view, tables=seen), found, twins


def is_at_twin(world: World, text: str) -> bool:
    """Whether a stop is at a name of a table of which nothing is sent, or of a table that has had such a name: the job
    may know the first by a schema file, and take the other one, in other letters, for a second table."""
    if world.database.letters is None:
        return False
    had = {uid: set(map(folded, names)) for uid, names in world.database.names.items()}
    hidden = {name for uid, names in had.items() if world.ticdc.is_withheld(uid) for name in names}
    twins = {name for names in had.values() if names & hidden for name in names}
    return any(f"`{schema}`.`{table}`" in text.lower() for schema, table in twins)


def came_as_twin(world: World, name: Name) -> bool:
    """Whether a job took a table for a second one of a name, as it got the name in other letters before the job had
    read, in another topic, who gives it up (``docs/reference/limits.md``)."""
    return world.setup.feed.topic_per_table and sum(folded(one) == name for one in world.lab.view().tables) > 1


def judge_twins(world: World, twins: Mapping[Name, TableView], *, final: bool) -> Finding | None:
    """Two tables that differ by the letters of their names: the source has one of them at most. The DROP or RENAME of
    the other may be in a topic that is not read. Where a schema file alone names one, the job takes the server for one
    that has both. ``final``: the job has read everything; before, it may not know who gives the name up."""
    excused = {name for uid, sent in world.ticdc.sent.items() if not world.all_read(uid) for name in sent.names}
    for uid, names in world.database.names.items():
        excused |= {folded(name) for name in names} if world.ticdc.is_withheld(uid) else set()
    for name, seen in twins.items():
        if not final and came_as_twin(world, folded(name)):
            continue
        if seen.condition == "clean" and folded(name) not in world.excuses.foreign | excused:
            return Finding(kind="two tables of one name", where=seen.condition, detail=f"{name}: {seen.detail}")
    return None


def judge_files(world: World) -> Finding | None:
    """What the job makes of files: it removes none that a table has, and none has NULL where no NULL can be."""
    files = getattr(world.lab, "files", None)
    if files is None:
        return None
    if files.lost:
        return Finding(kind="files of a table are removed", where="a commit", detail=", ".join(files.lost[:3]))
    view = world.lab.view()
    for name, table in world.lab.lake.tables().items() if files.required else ():
        seen = view.tables.get(name)
        if table.made_up and seen is not None and seen.condition not in (*MARKS, "dropped"):
            detail = f"{name}: NULL in {', '.join(table.made_up)}, which hold none; {seen.detail}"
            return Finding(kind="wrong data", where=f"a NULL reads as a value, {seen.condition}", detail=detail)
    return None


def without_unheard_of(world: World, view: JobView, live: Live, table: LakeTable) -> LakeTable:
    """A table without the columns of a DROP COLUMN that was not sent, as long as no row has come that lacks them."""
    drops = world.database.hidden_drops.get(live.uid)
    if not drops:
        return table
    gone = {name for ts, name in drops if ts <= view.applied and not _is_heard(world, live.uid, ts, view.applied)}
    left = tuple(name for name in table.columns if name not in gone)
    return LakeTable(columns=left, rows=table.rows, mark_ts=table.mark_ts)


def _is_heard(world: World, uid: Uid, since: int, upto: int) -> bool:
    """Whether a row of a table shows what columns it has, in the range of a commit_ts, and behind the last TRUNCATE, by
    which a table counts as whole again."""
    heard = False
    for event in world.database.events:
        if not since < event.ts <= upto:
            continue
        if event.change is not None and uid in event.uids and event.change.kind == "TRUNCATE":
            heard = False
        heard |= any(of == uid and row.after is not None for of, row in event.rows)
    return heard
