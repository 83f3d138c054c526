"""What a job's topics still have of one table. This is the CREATE or TRUNCATE that it last began with, the DDLs since,
and the places of its rows. Pure.

TiCDC sends the rows of a table after the DDL that begins it. So a partition has all of them if it is read from offset
0, or if its remaining messages show a watermark or a DDL that is not above that DDL.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ticdc_spark.ddl import Charsets, Comments, statement_of
from ticdc_spark.ddl.statements import (
    AlterTable,
    CreateTable,
    DropTables,
    RenameTables,
    RenameTo,
    Statement,
    TruncateTable,
)
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Offsets, SchemaChange, Table, TableName
from ticdc_spark.replicate.modes.watermark import waiting_rows
from ticdc_spark.replicate.plan.catch_up import database_of
from ticdc_spark.replicate.plan.ddl_actions import UNCERTAIN, Action, Alter, Create, Nothing, Refused, Thin, action
from ticdc_spark.replicate.plan.names import tables_before_and_after, tables_of
from ticdc_spark.replicate.plan.order import in_order
from ticdc_spark.replicate.plan.reach import NOT_YET, by_place, partitions_at, reached
from ticdc_spark.replicate.plan.timeline import identity
from ticdc_spark.replicate.schemas.history import VALID_THEN, known_schemas
from ticdc_spark.replicate.schemas.partitioned import without_partitions
from ticdc_spark.replicate.schemas.sql_ddl import SchemaRules, with_schemas
from ticdc_spark.replicate.state.progress import (
    KnownSchema,
    PartitionState,
    PendingRows,
    Progress,
    QueuedDdl,
)
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.spark.decode.control import (
    ControlEvent,
    DdlRead,
    MessageRejected,
    MessageSkipped,
    RowsRead,
    WatermarkRead,
)


class NotInTopics(Exception):
    """One sentence: why a table cannot be read from its topics. It is caught, not raised to the user."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What the topics have of one table, up to where they are read."""

    name: TableName
    partitions: tuple[PartitionState, ...]
    """Each with how far back it reaches (``plan.reach``)."""
    ddls: tuple[QueuedDdl, ...] = ()
    """DDLs that name the table, or drop its database, each once."""
    rows: tuple[PendingRows, ...] = ()
    schemas: tuple[KnownSchema, ...] = ()
    """The schemas of the table's versions, if rows name them."""
    unreadable: str = ""
    """The place of the first message that may be of the table and that is not read."""


class Altered(msgspec.Struct, frozen=True):
    """An ALTER of the table."""

    ts: int
    alter: Alter
    query: str


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that makes a table, from the moment when it was empty."""

    start: int
    """commit_ts of its CREATE or TRUNCATE."""
    first: Table
    """The table at ``start``."""
    altered: tuple[Altered, ...]
    """In order."""
    last_ddl: int
    """commit_ts of its last DDL."""
    rows: tuple[PendingRows, ...]
    """The places of its rows after ``start``, up to the base."""
    counted: int
    """A lower bound of their number."""
    schemas: Mapping[str, Table]
    """Schemas by the schema key in rows."""
    comments: Comments
    """The comments at the base, as far as its DDLs write them. Columns have names in lower case."""

    @property
    def table(self) -> Table:
        """The table at the base."""
        return self.altered[-1].alter.table if self.altered else self.first


def nothing_found(name: TableName, starts: Offsets) -> Found:
    """The value before anything is read. ``starts``: the first message of each partition."""
    return Found(name=name, partitions=partitions_at(starts))


def with_read(found: Found, controls: Sequence[ControlEvent]) -> Found:
    """Add the events of the next messages."""
    ordered = sorted(controls, key=lambda event: (event.topic, event.partition, event.offset, event.seq))
    places = by_place(ordered)
    partitions = tuple(_read_on(one, places.get((one.topic, one.partition), ())) for one in found.partitions)
    ddls = {identity(ddl.change): ddl for ddl in found.ddls}
    mine: list[ControlEvent] = []
    unreadable = found.unreadable
    for event in ordered:
        match event:
            case DdlRead() if _is_about(event.change, found.name):
                ddl = QueuedDdl(change=event.change, topic=event.topic, partition=event.partition, offset=event.offset)
                ddls.setdefault(identity(event.change), ddl)
            case RowsRead() if (event.schema, event.table) == found.name:
                mine.append(event)
            case MessageRejected():
                unreadable = unreadable or _place(event)
            case MessageSkipped() if not event.tables or found.name in event.tables:
                unreadable = unreadable or _place(event)
    nobody = Progress(job="", schemas=found.schemas)
    schemas = (one for one in known_schemas(nobody, ordered) if one.full_name == found.name)
    return msgspec.structs.replace(
        found,
        partitions=partitions,
        ddls=tuple(ddls.values()),
        rows=(*found.rows, *waiting_rows(Progress(job=""), mine)[0]),
        schemas=tuple(one for one in schemas if one.key != VALID_THEN),
        unreadable=unreadable,
    )


def history_of(found: Found, state: TableState, base: int, charsets: Charsets) -> History:
    """The history of the table up to ``base``, after checking that the topics have all of it. ``state``: the job's
    state of the table. ``charsets``: the present defaults of databases.

    Raises: NotInTopics
    """
    if state.is_gone:
        raise NotInTopics("the source has dropped it")
    ddls = in_order(ddl for ddl in found.ddls if ddl.change.commit_ts <= base)
    created, began = _began(ddls, found)
    start = ddls[began].change.commit_ts
    if state.was and state.emptied != start:
        raise NotInTopics(f"it had another name before: a RENAME came after its CREATE or TRUNCATE at {start}")
    if state.ddl_ts > start and state.ddl_ts not in {ddl.change.commit_ts for ddl in ddls}:
        raise NotInTopics(f"the job has applied a DDL at {state.ddl_ts} to it, which its topics do not have")
    for one in found.partitions:
        if one.reaches > start:
            raise NotInTopics(_cut_off(one, start))
    if found.unreadable:
        raise NotInTopics(f"a message that may be of it cannot be read, or was left out: {found.unreadable}")
    first, altered, comments = _schemas(ddls, created, began, state, charsets)
    rows = tuple(one for one in found.rows if one.max_ts > start and one.min_ts <= base)
    known = {one.key: one.table for one in found.schemas}
    for key in dict.fromkeys(one.schema_key for one in rows):
        if key == VALID_THEN:
            continue
        if key not in known:
            raise NotInTopics(f"its topics have rows of the schema version {key}, and not that schema")
        if not any(_has_columns_of(table, known[key]) for table in (first, *(one.alter.table for one in altered))):
            raise NotInTopics(
                f"its topics have rows of the schema version {key}, whose columns no DDL in the topics has made; an "
                "event filter may have left the DDL out"
            )
    return History(
        start=start,
        first=first,
        altered=altered,
        last_ddl=max((one.ts for one in altered), default=start),
        rows=rows,
        counted=sum(one.rows for one in rows if start < one.min_ts and one.max_ts <= base),
        schemas=known,
        comments=comments,
    )


def _has_columns_of(one: Table, other: Table) -> bool:
    looks = ({(column.name.casefold(), column.type) for column in table.columns} for table in (one, other))
    return next(looks) == next(looks)


def _read_on(state: PartitionState, events: Sequence[ControlEvent]) -> PartitionState:
    marks = (event.commit_ts for event in events if isinstance(event, WatermarkRead))
    reaches = reached(events, state) if state.reaches else 0
    return msgspec.structs.replace(state, reaches=reaches, watermark=max([state.watermark, *marks]))


def _is_about(change: SchemaChange, name: TableName) -> bool:
    return name in tables_of(change) or database_of(change) == name[0]


def _place(event: MessageRejected | MessageSkipped) -> str:
    return f"topic {event.topic}, partition {event.partition}, offset {event.offset}: {event.reason}"


def _cut_off(one: PartitionState, start: int) -> str:
    where = f"topic {one.topic}, partition {one.partition} begins at offset {one.offset}"
    what = "without a watermark" if one.reaches == NOT_YET else f"at commitTs {one.reaches}"
    return f"{where}, {what}: rows since its CREATE or TRUNCATE at {start} may be removed from there"


def _began(ddls: Sequence[QueuedDdl], found: Found) -> tuple[int | None, int]:
    """Two indexes in ``ddls``: of the table's CREATE, if it is known and later DDLs continue from it; and of the DDL
    that the table last began with. Raises: NotInTopics"""
    created = began = None
    live, why = False, ""
    first_row = min((one.min_ts for one in found.rows), default=0)
    for at, ddl in enumerate(ddls):
        change = ddl.change
        match _statement(change):
            case CreateTable(if_not_exists=maybe):
                # Some senders also send one that did nothing, because the table existed.
                if live or (maybe and 0 < first_row < change.commit_ts and not why):
                    created = began = None
                    why = f"a second CREATE TABLE comes at {change.commit_ts}, without a DROP before it"
                else:
                    created = began = at
                live = True
            case TruncateTable():
                began, live = at, True
            case DropTables():
                created = began = None
                live, why = False, f"the last DDL on it is its DROP at {change.commit_ts}"
            case _ if database_of(change):
                created = began = None
                live, why = False, f"its database was dropped at {change.commit_ts}"
            case statement if _renames(statement):
                created = began = None
                live = found.name in tables_before_and_after(change)[1]
                why = f"a RENAME at {change.commit_ts} came after its CREATE or TRUNCATE"
            case AlterTable():
                live = True
    if began is None:
        removed = [one for one in found.partitions if one.offset > 0]
        lost = f". Topic {removed[0].topic} begins at offset {removed[0].offset} by now" if removed else ""
        raise NotInTopics(f"{why or 'its topics have neither its CREATE TABLE nor a TRUNCATE'}{lost}")
    return created, began


def _renames(statement: Statement | None) -> bool:
    if isinstance(statement, AlterTable):
        return any(isinstance(part, RenameTo) for part in statement.parts)
    return isinstance(statement, RenameTables)


def _statement(change: SchemaChange) -> Statement | None:
    try:
        return statement_of(change)
    except MessageError:
        return None


def _schemas(
    ddls: Sequence[QueuedDdl], created: int | None, began: int, state: TableState, charsets: Charsets
) -> tuple[Table, tuple[Altered, ...], Comments]:
    """The table when it last began empty, the ALTERs since, and the comments after all of them. Raises: NotInTopics"""
    first = began if created is None else created
    name = state.full_name
    if state.table is not None and len(ddls) > first + 1:  # Only its present partitions are known.
        state = msgspec.structs.replace(state, table=without_partitions(state.table))
    filled = with_schemas(ddls[first:], {name: state} if created is None else {}, (), SchemaRules(charsets=charsets))
    comments = Comments()
    before, later = filled[: began - first + 1], filled[began - first + 1 :]
    for ddl in before:
        act = action(ddl.change)
        if isinstance(act, Refused) and not act.rows_only:
            raise NotInTopics(_not_followed(ddl, act.why))
        comments = _commented(comments, act)
    table = before[-1].change.table
    if table is None or any(ddl.change.kind == UNCERTAIN for ddl in filled):
        raise NotInTopics("its topics do not show with which columns it began")
    query = ddls[began].change.query
    if created is None and ddls[began].change.table is None and any(_is_of_effect(ddl.change) for ddl in later):
        # Only its present columns are known.
        raise NotInTopics(f"its topics do not show which columns it had when {query} emptied it")
    altered = tuple(_altered(later))
    for one in altered:
        comments = _commented(comments, one.alter)
    return table, altered, comments


def _commented(comments: Comments, act: Action) -> Comments:
    """The comments after a DDL."""
    if isinstance(act, Alter):
        renames = {old.casefold(): new.casefold() for old, new in act.renames.items()}
        replaced = {name.casefold() for name in act.replaced}
        kept = {renames.get(name, name): text for name, text in comments.columns.items() if name not in replaced}
        told = kept | _folded(act.comments.columns)
        columns = {name: told[name] for column in act.table.columns if (name := column.name.casefold()) in told}
        return Comments(columns, comments.table if act.comments.table is None else act.comments.table)
    return Comments(_folded(act.comments.columns), act.comments.table) if isinstance(act, Create) else comments


def _folded(comments: Mapping[str, str]) -> dict[str, str]:
    return {name.casefold(): text for name, text in comments.items()}


def _is_of_effect(change: SchemaChange) -> bool:
    return not isinstance(action(change), Nothing)


def _altered(ddls: Iterable[QueuedDdl]) -> Iterable[Altered]:
    for ddl in ddls:
        match action(ddl.change):
            case Alter() as alter:
                yield Altered(ddl.change.commit_ts, alter, ddl.change.query)
            case Nothing():
                pass
            case Refused(why):
                raise NotInTopics(_not_followed(ddl, why))
            case Thin():
                raise NotInTopics(_not_followed(ddl, "it removes rows of partitions"))
            case _:
                raise NotInTopics(_not_followed(ddl, "it is no ALTER TABLE"))


def _not_followed(ddl: QueuedDdl, why: str) -> str:
    return f"the DDL at {ddl.change.commit_ts} cannot be followed: {why}: {ddl.change.query}"
