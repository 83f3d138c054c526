"""Compute the changes that give a table of the target the columns of the source's table. Pure."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ticdc_spark.ddl import is_moment
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.mysql import NO_CONSTANT, Ambiguous, default_value, fsp, utc_timestamp
from ticdc_spark.sinks.base import ColumnChanges
from ticdc_spark.sinks.type_map import ColumnConversion, TypeMap
from ticdc_spark.spark.types import LakeColumn


class Rewrite(msgspec.Struct, frozen=True):
    """A type change that the target cannot do by itself: every value is converted the way MySQL does it."""

    column: LakeColumn
    conversion: ColumnConversion


class Fill(msgspec.Struct, frozen=True):
    """A new column that is not NULL in old rows."""

    column: LakeColumn
    value: str | bytes | None
    """In canonical form; ``None`` with ``moment``: the DDL's own time."""
    moment: bool = False


class SessionZone(msgspec.Struct, frozen=True):
    """The time zone of the sessions that run DDLs: ``[job] ddl-timezone``, else ``source-timezone``."""

    name: str | None
    """``None``: neither key is set."""
    ambiguous: Ambiguous = "earlier"


class ColumnDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """How to find the value of a new column in older rows."""

    session: SessionZone = SessionZone(None)
    local: bool = False
    """The schema came from SQL, so a TIMESTAMP default is local time of ``session`` (Simple: UTC)."""
    literal: bool = False
    """The schema came from the schemas of rows, so a TEXT or BLOB may have any default; see ``mysql.default_value``."""
    computed: Collection[str] = ()
    """New columns, by their names at the source, for which its server computed the values of old rows."""


_PLAIN = ColumnDefaults()


class ColumnDiff(msgspec.Struct, frozen=True):
    """The changes that bring a table from its live columns to the wanted ones."""

    changes: ColumnChanges
    fills: tuple[Fill, ...]
    rewrites: tuple[Rewrite, ...]
    """These include columns whose values change while their lake type stays (DATETIME(6) to DATETIME)."""
    inexact: tuple[str, ...] = ()
    """One sentence for each rewrite or new column whose values may be wrong: the table must be marked."""
    order: tuple[str, ...] = ()
    """All lake names in the source's order."""


def column_diff(
    live: Mapping[str, str],
    wanted: tuple[LakeColumn, ...],
    renames: Mapping[str, str],
    types: TypeMap,
    *,
    old: Sequence[LakeColumn] = (),
    defaults: ColumnDefaults = _PLAIN,
) -> ColumnDiff:
    """Compare the live columns of a table (name to the sink's type, in the table's order) with the wanted columns.

    ``renames``: names in the target, old to new. ``types``: the sink's. ``old``: the table's columns before, whose
    source types decide the conversion. A live column that is not in ``old``, or has another type there, is converted
    by its type in the target alone.

    Raises: UsageError when old rows need a local TIMESTAMP default and no time zone is set.
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
    # The statement drops a column if another column takes its name.
    drop = tuple(
        name for name in live if name not in moved and (name.casefold() not in after or name.casefold() in taken)
    )
    kept = {name: kind for name, kind in live.items() if name not in moved and name not in drop}
    origins = {new.casefold(): name for name, new in rename} | {name.casefold(): name for name in kept}
    # A change of letter case alone is a rename, too.
    rename += [(name, after[name.casefold()].name) for name in kept if after[name.casefold()].name != name]
    add = tuple(column for column in wanted if column.name.casefold() not in origins)
    before = {column.name: column for column in old}
    promote, rewrites = [], []
    for column in wanted:
        origin = origins.get(column.name.casefold())
        if origin is None:
            continue
        kind, source = live[origin], before.get(origin)
        if kind != column.type.name and types.promotes(kind, column.type.name):
            promote.append(column)
        elif (changed := _conversion(types, kind, source, column, defaults.session)) is not None:
            rewrites.append(Rewrite(column, changed))
    unknown = {column.name for column in add if _is_unknown(column, defaults)}
    found = (_fill(column, defaults) for column in add if column.name not in unknown)
    fills = tuple(fill for fill in found if fill is not None)
    order = _order(live, wanted, dict(rename), drop)
    return ColumnDiff(
        ColumnChanges(rename=tuple(rename), add=add, drop=drop, promote=tuple(promote), order=order),
        fills,
        tuple(rewrites),
        (
            *(f"column `{one.column.source}`: {one.conversion.inexact}" for one in rewrites if one.conversion.inexact),
            *(_unknown_default(column) for column in add if column.name in unknown),
            *(_about_moment(fill.column) for fill in fills if fill.moment),
        ),
        tuple(column.name for column in wanted),
    )


def _conversion(
    types: TypeMap, kind: str, source: LakeColumn | None, column: LakeColumn, session: SessionZone
) -> ColumnConversion | None:
    """``None``: the table has the new values already."""
    if source is None or source.type.name != kind:
        return None if kind == column.type.name else types.cast(kind, column)
    if source.column.type == column.column.type and source.type == column.type:
        return None
    return types.conversion(source, column, session.name, session.ambiguous)


def _order(
    live: Mapping[str, str], wanted: tuple[LakeColumn, ...], renamed: Mapping[str, str], dropped: tuple[str, ...]
) -> tuple[str, ...]:
    """The wanted names in order; empty if renames, drops and additions at the end give that order anyway."""
    found = [renamed.get(name, name) for name in live if name not in dropped]
    names = tuple(column.name for column in wanted)
    return () if (*found, *(name for name in names if name not in found)) == names else names


def set_aside(rewrite: Rewrite, evolved: ColumnDiff, aside: str) -> ColumnChanges:
    """The first changes of a rewrite: rename the old column to ``aside``, and add the new column in its place."""
    name = rewrite.column.name
    order = tuple(one for other in evolved.order for one in ((other, aside) if other == name else (other,)))
    return ColumnChanges(rename=((name, aside),), add=(rewrite.column,), order=order)


def _fill(column: LakeColumn, defaults: ColumnDefaults) -> Fill | None:
    if column.mask is not None and column.mask.how != "hash":
        return Fill(column, None) if column.mask.how == "constant" else None  # whatever value the source has
    value = default_value(column.column, literal=defaults.literal)
    if value is NO_CONSTANT:
        return Fill(column, None, moment=True) if _is_moment(column) else None
    if value is None:
        return None
    return Fill(column, local_default(column, value, defaults.session) if defaults.local else value)


def _is_moment(column: LakeColumn) -> bool:
    """Whether older rows get the time of the DDL."""
    default = str(column.column.default)
    return column.type.arrow in {"date", "local", "instant"} and is_moment(default)


def _is_unknown(column: LakeColumn, defaults: ColumnDefaults) -> bool:
    """Whether only the source knows the values of a new column in older rows."""
    if column.mask is not None and column.mask.how != "hash":
        return False
    if column.column.stored or column.source in defaults.computed:
        return True
    return default_value(column.column, literal=defaults.literal) is NO_CONSTANT and not _is_moment(column)


def _unknown_default(column: LakeColumn) -> str:
    if column.column.default is None:
        return f"column `{column.source}`: rows from before it have NULL in place of what the server made"
    default = f"{column.column.default}"[:80]
    return f"column `{column.source}`: rows from before it have NULL in place of its default, {default!r}"


def _about_moment(column: LakeColumn) -> str:
    """No message has the server's clock at the time of the statement, in its session's zone."""
    default = column.column.default
    return f"column `{column.source}`: rows from before it have the DDL's commitTs in place of its default, {default!r}"


def local_default(column: LakeColumn, value: str | bytes, session: SessionZone) -> str | bytes:
    """Convert a default that SQL gives as local text to its canonical value in UTC. Only TIMESTAMP has a zone.

    Raises: UsageError when no zone is set, or the default is not a valid time in the zone.
    """
    kind = column.column.type
    if kind.name != "timestamp" or isinstance(value, bytes) or value.startswith("0000-00-00"):
        return value
    if session.name is None:
        message = (
            f"[job] ddl-timezone: missing; the new TIMESTAMP column `{column.source}` has the default {value!r}, in "
            f"local time of the session that ran the DDL: set the time zone of that session, or set source-timezone"
        )
        raise UsageError(message)
    try:
        return utc_timestamp(value, session.name, fsp(kind), session.ambiguous)
    except MessageError as error:
        message = f"[job] ddl-timezone: the default of the new column `{column.source}`: {error}"
        raise UsageError(message) from error
