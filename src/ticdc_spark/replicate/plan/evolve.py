"""Evolve: what a DDL does to the lake. Pure: from a DDL and the tables as they are, to actions.

The schemas before and after come from the message where it carries them; the SQL shows what two schemas cannot: that
a column was renamed and not replaced, and that rows move without row messages.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, assert_never

import msgspec

from ticdc_spark.ddl import column_renames
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import (
    AlterTable,
    CreateTable,
    DatabaseDdl,
    DropTables,
    MoveRows,
    OtherDdl,
    RenameTables,
    RenameTo,
    RestoreTable,
    Statement,
    TruncateTable,
    Unsupported,
)
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import SchemaChange, Table, TableName
from ticdc_spark.mysql import NO_CONSTANT, Ambiguous, default_value, fsp, utc_timestamp
from ticdc_spark.replicate.plan.conversions import Conversion, conversion
from ticdc_spark.sinks.base import ColumnChanges
from ticdc_spark.spark.types import LakeColumn

NAMED_OTHERWISE = "named otherwise"
"""Kind of a DDL whose names are not those of the rows."""
LIKE_A_FILE = "like a table of a file"
"""Kind of a CREATE TABLE … LIKE a table of which only a schema file is known: its columns are not certain."""
ENTERS, LEAVES = "enters the filter", "leaves the filter"
"""Kinds of a RENAME by which a table comes into what ``tables`` under [job] names, or goes out of it."""


_NO_SCHEMA = "no schema comes with it, and none is known ([schema] file may have its CREATE TABLE)"


class Create(msgspec.Struct, frozen=True):
    """CREATE TABLE."""

    table: Table
    certain: bool = True
    """Whether its columns are known to be those of the source."""


class Drop(msgspec.Struct, frozen=True):
    """DROP TABLE."""

    names: tuple[TableName, ...]


class Truncate(msgspec.Struct, frozen=True):
    """TRUNCATE TABLE: the same columns, no rows."""

    table: Table


class Alter(msgspec.Struct, frozen=True):
    """ALTER TABLE, and a RENAME of the table when ``old`` is another name."""

    old: TableName
    table: Table
    renames: dict[str, str]
    """Columns, old name to new."""


class Enter(msgspec.Struct, frozen=True):
    """A table comes under a name that the job replicates, with rows that the job has never read."""

    table: Table


class Leave(msgspec.Struct, frozen=True):
    """A table goes on under a name that the job leaves out."""

    name: TableName


class CreateDatabase(msgspec.Struct, frozen=True):
    """CREATE DATABASE."""

    name: str


class DropDatabase(msgspec.Struct, frozen=True):
    """DROP DATABASE: drops the tables that this job owns there."""

    name: str


class Nothing(msgspec.Struct, frozen=True):
    """No effect on the lake: index, comment, view, TTL …"""

    why: str


class Refused(msgspec.Struct, frozen=True):
    """A DDL that this version does not replay."""

    why: str
    rows_only: bool = False
    """Whether it leaves the columns of its tables as they are."""


Action: TypeAlias = Create | Drop | Truncate | Alter | Enter | Leave | CreateDatabase | DropDatabase | Nothing | Refused


def action(change: SchemaChange) -> Action:
    """What a DDL does to the lake."""
    if change.kind == NAMED_OTHERWISE:
        return Refused("it has names with characters that Avro does not allow, which rows have in another form")
    try:
        statement = parse(change.query)
    except MessageError as error:
        return Refused(f"the SQL cannot be read: {error}")
    return _of(statement, change)


def _of(statement: Statement, change: SchemaChange) -> Action:
    match statement:
        case DatabaseDdl(what="create"):
            return CreateDatabase(statement.name or change.schema)
        case DatabaseDdl(what="drop"):
            return DropDatabase(statement.name or change.schema)
        case DatabaseDdl() | OtherDdl():
            return Nothing(statement.what)
        case CreateTable():
            return Refused(_NO_SCHEMA) if change.table is None else Create(change.table, change.kind != LIKE_A_FILE)
        case DropTables():
            gone = change.pre_table or change.table
            if gone is not None:
                return Drop(((gone.schema, gone.name),))
            return Drop(tuple((schema or change.schema, name) for schema, name in statement.names))
        case TruncateTable():
            return Refused(_NO_SCHEMA) if change.table is None else Truncate(change.table)
        case RestoreTable():
            return Refused("rows come back without row messages")
        case RenameTables() | AlterTable():
            return _at_the_filter(_alter(statement, change), change.kind)
        case Unsupported(reason):
            return Refused(reason)
        case _:
            assert_never(statement)


def _at_the_filter(act: Action, kind: str) -> Action:
    """What a RENAME is to a job that replicates only one of its names."""
    if isinstance(act, Alter) and kind == ENTERS:
        return Enter(act.table)
    return Leave(act.old) if isinstance(act, Alter) and kind == LEAVES else act


def _alter(statement: RenameTables | AlterTable, change: SchemaChange) -> Action:
    if change.table is None:
        return Refused(_NO_SCHEMA)
    old = (change.table.schema, change.table.name)
    if isinstance(statement, AlterTable):
        moves = [part.what for part in statement.parts if isinstance(part, MoveRows) and not part.lossless]
        if moves:
            rows_only = all(isinstance(part, MoveRows) for part in statement.parts)
            return Refused(f"{moves[0]} changes rows without row messages", rows_only)
        if not any(isinstance(part, RenameTo) for part in statement.parts):
            return Alter(old, change.table, column_renames(change.query))
    if change.pre_table is not None:
        old = (change.pre_table.schema, change.pre_table.name)
    else:
        schema, name = statement.name if isinstance(statement, AlterTable) else statement.pairs[0][0]
        old = (schema or change.schema, name)
    return Alter(old, change.table, column_renames(change.query))


def names(act: Action, tables: Mapping[TableName, object]) -> tuple[TableName, ...]:
    """The tables whose timelines an action binds together; ``tables`` are all that are known."""
    match act:
        case Create(table) | Truncate(table) | Enter(table):
            return ((table.schema, table.name),)
        case Drop(gone):
            return gone
        case Leave(name):
            return (name,)
        case Alter():
            return tuple(dict.fromkeys((act.old, (act.table.schema, act.table.name))))
        case DropDatabase(schema):
            return tuple(name for name in tables if name[0] == schema)
        case CreateDatabase() | Nothing() | Refused():
            return ()
        case _:
            assert_never(act)


class Rewrite(msgspec.Struct, frozen=True):
    """A type change that the lake cannot promote: every value is converted, as MySQL converts."""

    column: LakeColumn
    old_type: str
    expression: str
    """Spark SQL over ``{old}``, the column's old values."""
    conversion: Conversion | None = None
    """The same for canonical values; ``None`` where the source's type before is not known."""

    @property
    def inexact(self) -> str:
        """Why the new values may differ from the source's, as ``inexact: …``; ``""`` when they are exact."""
        return self.conversion.reason if self.conversion is not None else ""


class Fill(msgspec.Struct, frozen=True):
    """A new column whose old rows are not NULL."""

    column: LakeColumn
    value: str | bytes | None
    """Canonical; ``None`` with ``moment``: the DDL's own time."""
    moment: bool = False


class SessionZone(msgspec.Struct, frozen=True):
    """The time zone of the session in which DDLs run: ``[job] ddl-timezone``, else ``source-timezone``."""

    name: str | None
    """``None``: neither key is set."""
    ambiguous: Ambiguous = "earlier"


_NO_SESSION = SessionZone(None)


class Evolution(msgspec.Struct, frozen=True):
    """How one table gets from its live columns to the wanted ones."""

    changes: ColumnChanges
    fills: tuple[Fill, ...]
    rewrites: tuple[Rewrite, ...]
    """Also of columns whose lake type stays while their values change (DATETIME(6) to DATETIME)."""
    inexact: tuple[str, ...] = ()
    """One sentence for each rewrite whose values may differ from the source's: the table is to be marked."""
    order: tuple[str, ...] = ()
    """All lake names in the source's order."""


def evolution(
    live: Mapping[str, str],
    wanted: tuple[LakeColumn, ...],
    renames: Mapping[str, str],
    *,
    old: Sequence[LakeColumn] = (),
    session: SessionZone = _NO_SESSION,
    local_defaults: bool = False,
    literal_defaults: bool = False,
) -> Evolution:
    """Compare the live columns of a table (name to Spark type, in the lake's order) with the wanted ones.

    ``renames``: lake names, old to new. ``old``: the table's columns before, whose source types decide the conversion;
    a live column that is not among them, or has another type there, is converted by its lake type alone.
    ``local_defaults``: the schema came from SQL, so a TIMESTAMP default is local time of ``session`` (Simple: UTC).
    ``literal_defaults``: it came from the schemas of rows, so a TEXT or BLOB may have any default; see
    ``mysql.default_value``.

    Raises: UsageError when such a default is needed for old rows and no zone is set.
    """
    folded = {name.casefold(): new for name, new in renames.items()}
    after = {column.name.casefold(): column for column in wanted}
    rename = [
        (name, after[folded[name.casefold()].casefold()].name)
        for name in live
        if name.casefold() in folded and folded[name.casefold()].casefold() in after
    ]
    moved = {name for name, _ in rename}
    taken = {new.casefold() for _, new in rename}
    # A column whose name another one takes is dropped by the same statement.
    drop = tuple(
        name for name in live if name not in moved and (name.casefold() not in after or name.casefold() in taken)
    )
    kept = {name: kind for name, kind in live.items() if name not in moved and name not in drop}
    origins = {new.casefold(): name for name, new in rename} | {name.casefold(): name for name in kept}
    # A change of case alone is a rename too.
    rename += [(name, after[name.casefold()].name) for name in kept if after[name.casefold()].name != name]
    add = tuple(column for column in wanted if column.name.casefold() not in origins)
    before = {column.name: column for column in old}
    promote, rewrites = [], []
    for column in wanted:
        origin = origins.get(column.name.casefold())
        if origin is None:
            continue
        kind, source = live[origin], before.get(origin)
        rewrite = _rewrite(kind, source, column, session)
        if rewrite is not None and _promotes(kind, column.type.spark):
            promote.append(column)
        elif rewrite is not None:
            rewrites.append(rewrite)
    found = (_fill(column, session, local_defaults, literal_defaults) for column in add)
    fills = tuple(fill for fill in found if fill is not None)
    order = _order(live, wanted, dict(rename), drop)
    return Evolution(
        ColumnChanges(rename=tuple(rename), add=add, drop=drop, promote=tuple(promote), order=order),
        fills,
        tuple(rewrites),
        tuple(f"column `{one.column.source}`: {one.inexact}" for one in rewrites if one.inexact),
        tuple(column.name for column in wanted),
    )


def _rewrite(kind: str, source: LakeColumn | None, column: LakeColumn, session: SessionZone) -> Rewrite | None:
    """``None``: the lake has the new values already."""
    if source is None or source.type.spark != kind:
        return None if kind == column.type.spark else Rewrite(column, kind, _conversion(kind, column))
    if source.column.type == column.column.type and source.type == column.type:
        return None
    change = conversion(source, column, session.name, session.ambiguous)
    if change.keeps_lake:
        return None
    return Rewrite(column, kind, change.template, change)


def _order(
    live: Mapping[str, str], wanted: tuple[LakeColumn, ...], renamed: Mapping[str, str], dropped: tuple[str, ...]
) -> tuple[str, ...]:
    """The wanted names in order; empty when additions at the end, renames and drops leave them so anyway."""
    found = [renamed.get(name, name) for name in live if name not in dropped]
    names = tuple(column.name for column in wanted)
    return () if (*found, *(name for name in names if name not in found)) == names else names


def set_aside(rewrite: Rewrite, evolved: Evolution, aside: str) -> ColumnChanges:
    """The changes that begin a rewrite: the old column is renamed ``aside``, the new one comes where it stood."""
    name = rewrite.column.name
    order = tuple(one for other in evolved.order for one in ((other, aside) if other == name else (other,)))
    return ColumnChanges(rename=((name, aside),), add=(rewrite.column,), order=order)


def _fill(column: LakeColumn, session: SessionZone, local_defaults: bool, literal_defaults: bool) -> Fill | None:
    value = default_value(column.column, literal=literal_defaults)
    if value is NO_CONSTANT:
        return Fill(column, None, moment=True) if column.type.arrow in {"date", "local", "instant"} else None
    if value is None:
        return None
    return Fill(column, local_default(column, value, session) if local_defaults else value)


def local_default(column: LakeColumn, value: str | bytes, session: SessionZone) -> str | bytes:
    """The canonical value, in UTC, of a default that SQL gives as local text; only TIMESTAMP has a zone.

    Raises: UsageError when no zone is set, or the default is no time there.
    """
    kind = column.column.type
    if kind.name != "timestamp" or isinstance(value, bytes) or value.startswith("0000-00-00"):
        return value
    if session.name is None:
        message = (
            f"[job] ddl-timezone: missing; the new TIMESTAMP column `{column.source}` has the default {value!r}, which "
            f"is local time of the session that ran the DDL: name its time zone, or set source-timezone"
        )
        raise UsageError(message)
    try:
        return utc_timestamp(value, session.name, fsp(kind), session.ambiguous)
    except MessageError as error:
        message = f"[job] ddl-timezone: the default of the new column `{column.source}`: {error}"
        raise UsageError(message) from error


def _promotes(old: str, new: str) -> bool:
    """What Iceberg changes in metadata alone."""
    if (old, new) in {("int", "bigint"), ("float", "double")}:
        return True
    if old.startswith("decimal(") and new.startswith("decimal("):
        (old_precision, old_scale), (precision, scale) = (map(int, kind[8:-1].split(",")) for kind in (old, new))
        return scale == old_scale and precision > old_precision
    return False


def _conversion(old: str, column: LakeColumn) -> str:
    """Spark SQL that converts as MySQL does; it fails on a value that does not fit, it never makes a NULL of it."""
    new = column.type.spark
    if old == "string" and new == "binary":
        return "encode({old}, 'UTF-8')"
    if old == "binary" and new == "string":
        return "decode({old}, 'UTF-8')"
    if old in {"float", "double", "string"} and new in {"int", "bigint"}:
        return f"CAST(round(CAST({{old}} AS double)) AS {new})"
    if old.startswith("decimal") and new in {"int", "bigint"}:
        return f"CAST(round({{old}}) AS {new})"
    if old == "boolean" and new != "string":
        return f"CAST(CAST({{old}} AS int) AS {new})"
    if old == "boolean":
        return "CAST(CAST({old} AS int) AS string)"
    return f"CAST({{old}} AS {new})"
