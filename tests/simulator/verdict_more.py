"""What the verdict looks at because of what ``draw_more`` draws: letters of names, files, columns that rows lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from tests.simulator.database import Live, Name, Uid
from tests.simulator.letters import folded
from tests.simulator.seams import JobView, LakeTable
from tests.simulator.world import Finding, World

MARKS = ("diverged", "quarantined")


def in_small_letters(view: JobView, lake: Mapping[Name, LakeTable]) -> tuple[JobView, dict[Name, LakeTable]]:
    """Status and lake by names in small letters. Of two tables, the job's counts: others make tables, too."""
    seen = {folded(name): one for name, one in view.tables.items()}
    others_first = sorted(lake.items(), key=lambda item: item[0] in view.tables)
    return msgspec.structs.replace(view, tables=seen), {folded(name): table for name, table in others_first}


def judge_letters(view: JobView) -> Finding | None:
    """The source never has two tables whose names differ by their letters alone: the job has none, too."""
    for name, count in Counter(map(folded, view.tables)).items():
        if count > 1:
            return Finding(kind="two tables of one name", where="", detail=str(name))
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
