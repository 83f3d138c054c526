"""Which columns of a table are compared, and in which form both sides write them as the same text. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.clients.mysql_texts import is_raw
from ticdc_spark.model import Column, ColumnType, Table, TableName
from ticdc_spark.mysql import handle_key, is_bytes, is_integer, is_text
from ticdc_spark.spark.types import LakeColumn, LakeOptions

Form: TypeAlias = Literal["integer", "bool", "decimal", "text", "bytes", "date", "moment", "time"]
"""How a value is written for a checksum. A server and ``digests`` write the same text for it."""
_ORDERED: frozenset[Form] = frozenset({"integer", "decimal", "bytes", "moment"})
"""Forms of keys that all sides sort in the same order."""
NO_KEY = "it has no key, so rows cannot be matched"
NOT_JUDGED = (
    "the source may evaluate [[route]] where differently than the job: it names an ENUM or SET, or has REGEXP or /"
)
_VIRTUAL = "a virtual generated column: no message has its values"


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A column on both sides."""

    name: str
    """The source's name."""
    source: LakeColumn
    """The column at the source, with its name there and the job's mask."""
    target: LakeColumn
    """The column in the target. Its values are already masked."""
    form: Form | None = None
    """``None``: a server cannot write the same text as the other side. Then the values are compared."""
    masked: bool = False


class TablePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared of a table, and how."""

    name: TableName
    """The job's name of it."""
    source: TableName
    target: TableName
    """Without the prefix of a database sink; the same as ``name`` if there are no rules."""
    pairs: tuple[Pair, ...]
    """The compared columns, the key first."""
    keys: int
    """The number of key columns."""
    skipped: dict[str, str]
    """Columns that are not compared, with reasons."""
    lake: LakeOptions
    protocol: str = ""
    where: str = ""
    """The condition, in the source's SQL, of the rows that the target has; ``""``: it has all rows."""

    @property
    def key(self) -> tuple[Pair, ...]:
        return self.pairs[: self.keys]

    @property
    def has_ranges(self) -> bool:
        """Whether both sides sort the key in the same order. If not, rows are divided by a hash of the key."""
        return all(pair.form in _ORDERED for pair in self.key)

    @property
    def has_text_key(self) -> bool:
        """Whether a server can write the key as text. If not, the table is read completely."""
        return all(pair.form is not None for pair in self.key)

    @property
    def pushed(self) -> tuple[int, ...]:
        """Positions of the columns whose checksum a server computes."""
        return tuple(at for at, pair in enumerate(self.pairs) if pair.form is not None) if self.has_text_key else ()

    @property
    def rest(self) -> tuple[int, ...]:
        """Positions of the remaining columns."""
        pushed = set(self.pushed)
        return tuple(at for at in range(len(self.pairs)) if at not in pushed)


def form_of(column: LakeColumn) -> Form | None:
    """The form of a column; ``None``: its values are compared directly."""
    kind = column.column.type
    if column.mask is not None:
        return None
    if kind.name in ("enum", "set"):
        return None if is_raw(ColumnType(name="text", charset=kind.charset)) else "text"
    if is_integer(kind):
        return "bool" if column.type.arrow == "bool" else "integer"
    if kind.name == "decimal":
        return None if kind.zerofill else "decimal"
    if is_text(kind):
        return None if is_raw(kind) else "text"
    if is_bytes(kind):
        return "bytes"
    plain: dict[str, Form] = {"date": "date", "datetime": "moment", "timestamp": "moment", "time": "time"}
    return plain.get(kind.name)


def plan_of(
    tables: tuple[Table, Table],
    columns: tuple[Sequence[LakeColumn], Sequence[LakeColumn]],
    lake: LakeOptions,
    protocol: str = "",
    computed: Collection[str] = (),
) -> TablePlan | str:
    """What is compared of a table; a text instead says why nothing is.

    ``tables``, ``columns``: of the source now, and of the job. ``computed``: the virtual columns that have values.
    """
    table, known = tables
    keys = handle_key(known)
    if not keys:
        return NO_KEY
    if {key.casefold() for key in handle_key(table)} != {key.casefold() for key in keys}:
        return "the source has another key than the target: a DDL is not applied yet, or was skipped. Try again later"
    here = {column.source.casefold(): column for column in columns[0]}
    virtual = {one.name.casefold() for one in known.columns if one.virtual and one.name not in computed}
    pairs, skipped = dict[str, Pair](), dict[str, str]()
    for there in columns[1]:
        folded = there.source.casefold()
        one = here.pop(folded, None)
        if folded in virtual:
            skipped[there.source] = _VIRTUAL
        elif one is None:
            skipped[there.source] = "the source has no such column"
        elif there.mask is not None and there.mask.how != "hash":
            skipped[there.source] = f"masked with a {there.mask.how}"
        else:
            pairs[there.source] = _pair(one, there)
    for folded, one in here.items():
        skipped[one.source] = _VIRTUAL if folded in virtual else "the target has no such column"
    seen = {column.source.casefold() for one in columns for column in one}
    skipped |= {
        column.name: "excluded by drop-columns" for column in table.columns if column.name.casefold() not in seen
    }
    missing = [key for key in keys if key not in pairs]
    if missing:
        return f"its key column `{missing[0]}` is not compared: {skipped.get(missing[0], 'it does not exist')}"
    ordered = [pairs.pop(key) for key in keys]
    return TablePlan(
        name=known.full_name,
        source=table.full_name,
        target=known.full_name,
        pairs=(*ordered, *pairs.values()),
        keys=len(keys),
        skipped=skipped,
        lake=lake,
        protocol=protocol,
    )


def without(plan: TablePlan, skipped: Mapping[str, str]) -> TablePlan | str:
    """The plan without some columns, each with a reason; a text instead says why nothing is compared."""
    for pair in plan.key:
        if pair.name in skipped:
            return f"its key column `{pair.name}` is not compared: {skipped[pair.name]}"
    pairs = tuple(pair for pair in plan.pairs if pair.name not in skipped)
    return msgspec.structs.replace(plan, pairs=pairs, skipped={**plan.skipped, **skipped})


def columns_gone(plan: TablePlan, there: Sequence[str]) -> tuple[Pair, ...]:
    """Columns of the job that the target lacks. ``there``: the target's columns; empty: it has no such table."""
    names = {name.casefold() for name in there}
    return tuple(pair for pair in plan.pairs if names and pair.target.name.casefold() not in names)


def _pair(source: LakeColumn, target: LakeColumn) -> Pair:
    form = form_of(source) if _is_same(source.column.type, target.column.type) else None
    if target.mask is not None:
        text = Column(name=target.source, type=ColumnType(name="char", length=64, charset="ascii"))
        target = msgspec.structs.replace(target, mask=None, column=text)
    return Pair(
        name=source.source,
        source=msgspec.structs.replace(source, name=source.source),
        target=target,
        form=form if source.type.arrow == target.type.arrow else None,
        masked=source.mask is not None,
    )


def _is_same(one: ColumnType, other: ColumnType) -> bool:
    """Whether both sides write a type in the same way. Lengths, collations and display widths do not matter."""
    if (one.name, is_bytes(one), one.unsigned) != (other.name, is_bytes(other), other.unsigned):
        return is_text(one) and is_text(other)
    return one.elements == other.elements and (one.decimal or 0) == (other.decimal or 0)
