"""What a person asks for, and who watches."""

from __future__ import annotations

import msgspec

from ticdc_spark.verify.report import TableReport


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks for."""

    tables: tuple[str, ...] = ()
    """Rules; none: all."""
    sample: float | None = None
    """Percent of the parts of each table."""
    limit: int = 100
    """Differences of a table with which its comparison ends."""
    wait: float = 120.0
    """Seconds for each look at rows that may be on their way."""
    still: bool = False
    """Nobody writes to the source: no row is on its way."""
    chunk_rows: int = 50_000
    """Of a range."""
    parallel: int = 4
    """Connections to the source."""

    @property
    def named(self) -> str:
        """With what a report must have been begun to go on with it."""
        return f"tables={','.join(self.tables)} sample={self.sample} still={self.still} chunk={self.chunk_rows}"


class Watcher:
    """Who watches a comparison; this one does nothing."""

    def starting(self) -> None:
        """Spark is started, which takes a while."""

    def parts(self, table: str, done: int, total: int) -> None:
        """So many parts of a table are done."""

    def looks(self, table: str, rows: int) -> None:
        """So many rows of a table differ, may be on their way, and are looked at again."""

    def table(self, report: TableReport) -> None:
        """A table is done."""
