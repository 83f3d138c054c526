"""MODIFY COLUMN as data: how the values of a column follow a change of its type. Pure.

TiCDC's upstream is TiDB, so where TiDB and MySQL convert differently, TiDB's way is taken. Values that strict mode
refuses cannot occur; they fail, and never become NULL. What cannot be converted exactly has a reason, with which
the applier marks the table.
"""

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.mysql import Ambiguous
from ticdc_spark.sinks.conversions.route import NO_ZONE, Side, family, route
from ticdc_spark.sinks.conversions.steps import Cell, Step, literal, render
from ticdc_spark.spark.types import LakeColumn, LakeType

_CALENDAR = ("date", "datetime", "timestamp")
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
        """Whether the lake's values stay as they are, so that nothing is rewritten."""
        return self.exact and self.old.spark == self.new.spark and all(step.sql == "{x}" for step in self.steps)

    @property
    def hides_zero_dates(self) -> bool:
        """Whether a NULL of the lake may be a zero date, of which the source makes text or a number."""
        return family(self.before) in _CALENDAR and family(self.after) not in _CALENDAR

    def sql(self, old: str) -> str:
        """Spark SQL (session time zone UTC) of the new value; ``old`` is the old column's name, quoted.

        A value without a new one raises, or is NULL when the conversion is inexact.
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
        """The same of a canonical value.

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

    ``zone`` is the time zone of the session in which the DDL ran, for TIMESTAMP; without it these are inexact.
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
