"""MODIFY COLUMN as data: how the values of a column follow a change of its type. Pure.

TiCDC's upstream is TiDB: where TiDB and MySQL convert differently, TiDB's result is taken. Values that strict mode
refuses cannot occur; they fail, and never become NULL. A conversion that is not exact has a reason, and the applier
marks the table with it.
"""

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.mysql import Ambiguous
from ticdc_spark.sinks.conversions.route import NO_ZONE, Side, route
from ticdc_spark.sinks.conversions.steps import Cell, Step, literal, render
from ticdc_spark.spark.types import LakeColumn, LakeType

_OLD = "`old\0`"


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """From the values of one column type to those of another, in the lake and in canonical form."""

    before: ColumnType
    old: LakeType
    after: ColumnType
    new: LakeType
    steps: tuple[Step, ...]

    @property
    def reason(self) -> str:
        """Why the values may differ from the source's; ``""`` when they are exact."""
        return next((f"inexact: {step.reason}" for step in self.steps if step.reason), "")

    @property
    def exact(self) -> bool:
        """Whether every value becomes what the source has."""
        return not self.reason

    @property
    def keeps_lake(self) -> bool:
        """Whether the values in the lake do not change, so that nothing is rewritten."""
        return self.exact and self.old.spark == self.new.spark and all(step.sql == "{x}" for step in self.steps)

    def sql(self, old: str) -> str:
        """Spark SQL (session time zone UTC) of the new value; ``old`` is the old column's name, quoted.

        A value that has no result raises an error, or becomes NULL if the conversion is inexact.
        """
        found = render(self.steps, old)
        if not self.steps and self.old.spark != self.new.spark:
            found = f"CAST({old} AS {self.new.spark})"
        if self.keeps_lake or not self.exact:
            return found
        what = f"no {self.after.name} is made of a value of `{self.before.name}`: "
        shown = f"hex({old})" if self.old.spark == "binary" else f"CAST({old} AS string)"
        refuse = f"raise_error(concat({literal(what)}, {shown}))"
        return f"CASE WHEN {old} IS NOT NULL THEN coalesce({found}, {refuse}) END"

    @property
    def template(self) -> str:
        """The same SQL for ``str.format(old=…)``."""
        return self.sql(_OLD).replace("{", "{{").replace("}", "}}").replace(_OLD, "{old}")

    def python(self, value: Value) -> Value:
        """The same for a canonical value.

        Raises: MessageError for a value that the source would have refused, if the conversion is exact.
        """
        if value is None:
            return None
        try:
            return self._converted(value)
        except MessageError:
            if self.exact:
                raise
            return None

    def _converted(self, value: Cell) -> Cell:
        for step in self.steps:
            value = step.python(value)
        return value


def conversion(old: LakeColumn, new: LakeColumn, zone: str | None, ambiguous: Ambiguous = "earlier") -> Conversion:
    """How values of ``old`` become values of ``new``.

    ``zone``: the session time zone of the DDL, for TIMESTAMP; without it these conversions are inexact.
    """
    before: Side = (old.column.type, old.type)
    after: Side = (new.column.type, new.type)
    return Conversion(
        before=before[0],
        old=before[1],
        after=after[0],
        new=after[1],
        steps=route(before, after, zone, ambiguous),
    )


__all__ = ["NO_ZONE", "Conversion", "conversion"]
