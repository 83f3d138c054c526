"""The status of each table of a job, from its progress."""

from collections.abc import Collection

import msgspec

from ticdc_spark.config.routes import Routes, compiled
from ticdc_spark.config.secrets import redact
from ticdc_spark.model import TableName
from ticdc_spark.mysql import tso_time
from ticdc_spark.replicate.plan.names import tables_before_and_after, tables_of
from ticdc_spark.replicate.plan.parked import is_parked
from ticdc_spark.replicate.state.notes import CatchUp
from ticdc_spark.replicate.state.progress import Progress, RefusedLoad
from ticdc_spark.replicate.state.table import ConditionName, TableState, come_back, condition_of, is_unfollowed


class TableStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a table."""

    name: str
    """``schema.table``; since either may contain dots, both are also separate fields."""
    schema: str
    table: str
    applied_ts: int
    applied_ts_text: str
    applied_time: str
    condition: ConditionName
    """As from ``condition_of``, except that a clean table is unverified while it is behind the others."""
    detail: str = ""
    rebuild: bool = False
    """Whether a full read (``ticdc-spark rebuild``) makes it clean."""
    changes: int = 0
    """Row changes that were applied to the table."""
    changes_waiting: int = 0
    snapshot_id: int | None = None
    snapshot_id_text: str | None = None
    target: str = ""
    """Its name in the target, if different."""

    @property
    def needs_a_look(self) -> bool:
        """Whether it differs from the source and will not recover by itself."""
        return self.condition in ("diverged", "quarantined")


def tables_status(progress: Progress) -> tuple[TableStatus, ...]:
    """The status of every table that a job has or waits for, ordered by name."""
    waiting: dict[tuple[str, str], int] = {}
    for one in progress.pending:
        waiting[one.full_name] = waiting.get(one.full_name, 0) + one.waiting
    read = {state.topic for state in progress.partitions}
    behind = {one.full_name: _catches_up(one, read) for one in progress.catching_up}
    if progress.mode != "arrival":
        for table in progress.tables:
            if table.applied < progress.applied:
                behind.setdefault(table.full_name, _WAITS)
    queued = {
        name for ddl in progress.ddls if ddl.change.commit_ts <= progress.applied for name in tables_of(ddl.change)
    }
    known = [
        table_status(
            come_back(table) if name in queued and not table.is_kept else table,
            waiting.pop(name, 0),
            behind=behind.get(name),
            replaced=name in queued,
        )
        for table in progress.tables
        for name in (table.full_name,)
    ]
    seen = {table.full_name for table in progress.tables}
    made = _made_by_waiting_ddls(progress)
    unknown = [
        table_status(
            TableState(schema=name[0], name=name[1]),
            waiting.get(name, 0),
            behind=behind.get(name, _NOT_MADE if name in made else None),
        )
        for name in waiting.keys() | (behind.keys() - seen)
    ]
    wanted = {one.full_name for one in progress.wanted}
    listed = {(table.schema, table.table) for table in (*known, *unknown)}
    unknown += [table_status(TableState(schema=schema, name=name)) for schema, name in wanted - listed]
    every = [_wanted(table) if (table.schema, table.table) in wanted else table for table in (*known, *unknown)]
    # A table that was not read from the source, and that the job knows by now, has begun with its messages.
    refused = {one.full_name: one for one in progress.refused if one.from_topic or one.full_name not in seen}
    every = [_refused(table, refused.get((table.schema, table.table))) for table in every]
    if progress.mode == "arrival":  # there are no full reads
        every = [msgspec.structs.replace(table, rebuild=False) for table in every]
    routes = compiled(progress.routes)
    return tuple(sorted((_routed(table, routes) for table in every), key=lambda table: table.name))


def _routed(table: TableStatus, routes: Routes) -> TableStatus:
    target = ".".join(routes.target((table.schema, table.table)))
    return table if target == table.name else msgspec.structs.replace(table, target=target)


def _made_by_waiting_ddls(progress: Progress) -> set[TableName]:
    """The tables that waiting DDLs create, by CREATE TABLE or RENAME."""
    pairs = [tables_before_and_after(ddl.change) for ddl in progress.ddls]
    return {name for before, after in pairs for name in after - before}


_NOT_MADE = "the DDL that makes it waits, and so do its rows"
_WAITS = "it is behind the others: it shares a DDL with a table that does not advance"


def _catches_up(one: CatchUp, read: Collection[str]) -> str:
    """Why a table is behind the others. ``read``: the topics that the job reads."""
    unread = next((topic for topic, _, _ in one.needs if topic not in read), "")
    if unread:
        return f"it is behind the others: topic {unread}, which it came from, is not read"
    return "it is behind the others, and catches up: its messages arrived later"


def _wanted(table: TableStatus) -> TableStatus:
    """The status of a table that will be read in full."""
    if table.condition != "unverified":
        return table
    return msgspec.structs.replace(
        table, condition="snapshot", detail="it will be read in full; the read has not begun", rebuild=False
    )


def _refused(table: TableStatus, refused: RefusedLoad | None) -> TableStatus:
    """The status of a table whose last full read was refused, if it was."""
    if refused is None:
        return table
    where = "from its topics" if refused.from_topic else "in full"
    parts = (table.detail, f"it could not be read {where}: {redact(refused.why)}")
    return msgspec.structs.replace(table, detail="; ".join(filter(None, parts)))


_UNVERIFIED = {
    "create": "rows came late, were applied again, or stayed at a TRUNCATE (truncate-table), so that it is no longer "
    "known to equal the source",
    "bootstrap": "the job did not see it created, or its topics lost their first messages: older rows may be missing",
    "adopted": "the target had it before this job",
    "snapshot": "rows came late since its full read, or stayed at a TRUNCATE (truncate-table), so that it is no longer "
    "known to equal the source",
}
"""Why a table is unverified, by its origin."""
_UNCERTAIN = "its columns are those of `[schema] file`, or of a table that may lack a DDL, and may not be the source's"


def _why_unverified(table: TableState) -> str:
    why = _UNVERIFIED[table.origin]
    if not table.has_unsure_columns or table.origin == "adopted":
        return why
    return _UNCERTAIN if table.emptied else f"{_UNCERTAIN}; {why}"


_KEPT = "dropped at the source, kept in the target"
_KEPT_AND_REPLACED = (
    f"{_KEPT}; a newer one of its name waits for a table that does not advance, with which it shares a DDL"
)


def _kept(table: TableState, *, replaced: bool) -> str:
    found = _KEPT_AND_REPLACED if replaced else _KEPT
    return found if table.is_clean or table.settles else f"{found}; {_why_unverified(table)}"


def _gathered(table: TableState) -> str:
    load = table.load
    assert load is not None, "a full read of it is under way"
    share = f" of about {load.expected:,} ({min(99, 100 * load.gathered // load.expected)}%)" if load.expected else ""
    return f"a full read of it is under way, at {load.base}: {load.gathered:,} rows{share}"


def _diverged(table: TableState) -> str:
    why = f": {redact(table.diverged_why)}" if table.diverged_why else ""
    assert table.diverged_since is not None, "it has diverged"
    return f"since {table.diverged_since} ({tso_time.utc(table.diverged_since)}){why}"


_UNFOLLOWED = "it was read in full, and no message of it has come since: does the changefeed send it?"


def _unverified(table: TableState, behind: str | None) -> tuple[str, bool]:
    """Why a table is unverified, and whether a full read makes it clean."""
    if table.settles:
        since = f"{table.settles} ({tso_time.utc(table.settles)})"
        found = f"it was read while it changed: it equals the source from {since} on"
        return "; ".join(filter(None, (found, behind))), False
    if behind is not None:
        return behind, False
    if table.cleared is not None:
        return f"it had diverged since {table.cleared}, which a person has looked at and cleared", True
    return _why_unverified(table), True


def table_status(
    table: TableState, waiting: int = 0, *, behind: str | None = None, replaced: bool = False
) -> TableStatus:
    """The status of one table. ``waiting``: its received rows that are not applied; ``behind``: why it is behind the
    others, ``None`` if it is not; ``replaced``: DDLs of its name wait."""
    condition = condition_of(table)
    detail, rebuild = "", False
    match condition:
        case "quarantined":
            detail, rebuild = redact(table.quarantined or ""), True
        case "diverged":
            detail, rebuild = "; ".join(filter(None, (_diverged(table), behind))), True
        case "skipped":
            detail = redact(table.diverged_why)
        case "kept":
            detail = _parked(table) or _kept(table, replaced=replaced)
        case "snapshot":
            detail = _gathered(table)
        case "clean" if behind is not None or is_unfollowed(table):
            condition, detail = "unverified", behind or _UNFOLLOWED
        case "unverified":
            detail, rebuild = _unverified(table, behind)
    return TableStatus(
        name=f"{table.schema}.{table.name}",
        schema=table.schema,
        table=table.name,
        applied_ts=table.applied,
        applied_ts_text=str(table.applied),
        applied_time=tso_time.utc(table.applied),
        condition=condition,
        detail=detail,
        rebuild=rebuild,
        changes=table.rows,
        changes_waiting=waiting,
        snapshot_id=table.snapshot_id,
        snapshot_id_text=None if table.snapshot_id is None else str(table.snapshot_id),
    )


def _parked(table: TableState) -> str:
    """What a parked table was; ``""``: it is not parked."""
    if not table.was or not is_parked(table.full_name):
        return ""
    schema, name = table.was[-1]
    when = f"{table.ddl_ts} ({tso_time.utc(table.ddl_ts)})"
    return f"`{schema}`.`{name}` as it was dropped or emptied at {when}: RECOVER or FLASHBACK TABLE brings it back"
