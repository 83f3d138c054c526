"""The interface of both sides of a comparison."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from ticdc_spark.verify.cells import Key, Parts, Selection
from ticdc_spark.verify.digests import Digest


class Side(Protocol):
    """A table of one side, as of one moment or in its current state."""

    def digests(self, selection: Parts) -> list[Digest]:
        """The digest of each part. Raises: SourceFault, SinkFault"""

    def checksums(self, selection: Parts) -> Iterator[pa.RecordBatch]:
        """The key and the checksum of each row in some parts: the key's columns, then a column of ``uint64``.

        Raises: SourceFault, SinkFault
        """

    def rows(self, selection: Selection) -> Iterator[pa.RecordBatch]:
        """The rows of a selection, with the columns of ``TablePlan.pairs`` in their order. A last column says why a
        value of the row cannot be read; NULL: all can be read. Raises: SourceFault, SinkFault"""


class Source(Side, Protocol):
    """The side that determines the bounds of ranges."""

    def bounds(self, rows: int) -> Sequence[Key]:
        """Keys that cut the table into ranges of about ``rows`` rows each. Raises: SourceFault"""
