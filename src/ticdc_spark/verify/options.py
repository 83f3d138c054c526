"""A person's options, and the watcher of a comparison."""

from __future__ import annotations

import msgspec

from ticdc_spark.verify.report import TableReport


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """A person's options."""

    tables: tuple[str, ...] = ()
    """Rules; empty: all tables."""
    sample: float | None = None
    """Percentage of the parts of each table."""
    limit: int = 100
    """After this many differences, the comparison of a table ends."""
    wait: float = 120.0
    """Seconds to wait at each look at rows that may not be applied yet."""
    still: bool = False
    """No one writes to the source, so no row is on its way."""
    chunk_rows: int = 50_000
    """Rows per range."""
    parallel: int = 4
    """Connections to the source."""

    @property
    def named(self) -> str:
        """The options that must be the same to continue a report."""
        return f"tables={','.join(self.tables)} sample={self.sample} still={self.still} chunk={self.chunk_rows}"


class Watcher:
    """Receives the events of a comparison. This one does nothing."""

    def starting(self) -> None:
        """Spark starts, which takes a while."""

    def parts(self, table: str, done: int, total: int) -> None:
        """The parts of a table that are done."""

    def looks(self, table: str, rows: int) -> None:
        """A number of rows of a table differ, may not be applied yet, and are looked at again."""

    def table(self, report: TableReport) -> None:
        """A table is done."""
