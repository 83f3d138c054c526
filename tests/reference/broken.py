"""Appliers that break one rule each. A test suite is worth something when it catches every one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from tests.reference.applier import Applier
from ticdc_spark.model import Message, Row, SchemaChange, Value


class DropsBelowHighWater(Applier):
    """Takes the order of a partition for commit order."""

    def land(self, progress: Any, message: Message) -> None:
        place = (message.topic, message.partition)
        highs = self.__dict__.setdefault("highs", {})
        before = len(progress.waiting)
        super().land(progress, message)
        for row in progress.waiting[before:]:
            if row.envelope.commit_ts < highs.get(place, 0):
                progress.waiting.remove(row)
            highs[place] = max(highs.get(place, 0), row.envelope.commit_ts)


class AppliesDdlAtFirstCopy(Applier):
    """Does not wait until every partition has passed a DDL."""

    def due(self, progress: Any, resolved: int) -> list[SchemaChange]:
        return sorted(progress.ddls.values(), key=lambda change: change.commit_ts)


class AppliesEveryCopyOfADdl(Applier):
    """Does not see that copies are one DDL."""

    def queue(self, progress: Any, change: SchemaChange, position: Any) -> None:
        super().queue(progress, change, position)
        if change.commit_ts > progress.applied:
            progress.ddls[change.commit_ts, len(progress.ddls), "copy"] = change


class ForgetsIdlePartitions(Applier):
    """Waits forever for partitions that get no more watermarks."""

    def watermark(self, progress: Any, place: Any) -> int:
        return int(progress.watermarks.get(place, 0))


class TakesTheNewestWatermark(Applier):
    """One partition counts for all."""

    def watermark(self, progress: Any, place: Any) -> int:
        return max(progress.watermarks.values(), default=0)


class ResolvesTheWatermarkItself(Applier):
    """Reads "smaller than W" as "up to W"."""

    def watermark(self, progress: Any, place: Any) -> int:
        return super().watermark(progress, place) + 1


class DefaultReplacesNull(Applier):
    """Takes an explicit NULL for a value that is not there."""

    def read(self, progress: Any, table: Any, due: Any) -> Iterator[Any]:
        columns = {column.name: column for column in table.columns}
        for landed, before, after in super().read(progress, table, due):
            filled = after and {
                name: self.fill(columns[name]) if value is None else value for name, value in after.items()
            }
            yield landed, before, filled


class FillsNothing(Applier):
    """ADD COLUMN with a default leaves NULL in the rows that are there."""

    def fill(self, column: Any) -> Value:
        return None


class OrdersCommitTsAsText(Applier):
    """Compares commit_ts as text."""

    def order(self, landed: Any, image: Row | None) -> tuple[Any, ...]:
        return str(landed.envelope.commit_ts), image is not None, landed.position


class OrdersByOffset(Applier):
    """Lets the offset decide inside a commit."""

    def order(self, landed: Any, image: Row | None) -> tuple[Any, ...]:
        return landed.envelope.commit_ts, landed.position


class LosesTheDeleteOfAKeyChange(Applier):
    """Takes an update for an upsert."""

    def expand(self, key_of: Any, before: Row | None, after: Row | None) -> Iterator[Any]:
        if after is not None:
            yield key_of(after), after
        else:
            yield from super().expand(key_of, before, after)


class ForgetsTheOldNameOfATable(Applier):
    """Treats RENAME as a new table."""

    def apply_ddl(self, effect: Any, mark: Any) -> None:
        if effect.before != effect.after and effect.before and effect.after:
            effect = replace(effect, before=None)
        super().apply_ddl(effect, mark)


class RecordsAppliedEarly(Applier):
    """Commits the progress before the tables."""

    def apply(self, progress: Any, resolved: int) -> None:
        early = progress.copy()
        self.forget(early, resolved)
        self.progress = early
        super().apply(progress, resolved)


class ForgetsItsMarks(Applier):
    """Does a DDL again after a restart."""

    def apply_ddl(self, effect: Any, mark: Any) -> None:
        marks = {name: self.lake.marks.pop(name, mark) for name in (effect.before, effect.after)}
        super().apply_ddl(effect, mark)
        self.lake.marks.update({name: max(mark, old) for name, old in marks.items() if name})


class TrustsTheLogOnly(Applier):
    """Takes every row below what is applied for a replay."""

    def is_replay(self, progress: Any, landed: Any) -> bool:
        return True
