"""What both sides of a comparison can do, whatever they are."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from ticdc_spark.verify.cells import Key, Range, Selection
from ticdc_spark.verify.digests import Digest


class Side(Protocol):
    """One table of one side, as of one moment, or as it is now."""

    def digests(self, selection: Selection) -> list[Digest]:
        """Of each part. Raises: SourceFault, SinkFault"""

    def rows(self, selection: Selection) -> Iterator[pa.RecordBatch]:
        """The rows of some parts: the columns of ``TablePlan.pairs`` in their order, and one behind them: why a value
        of the row cannot be read; NULL: all can be. Raises: SourceFault, SinkFault"""


class Source(Side, Protocol):
    """The side that says where ranges end."""

    def bounds(self, of: Range, rows: int) -> Sequence[Key]:
        """Keys that cut a range into some of about ``rows`` rows each. Raises: SourceFault"""
