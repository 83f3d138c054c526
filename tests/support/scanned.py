"""What a batch read, for tests of what is decided of it."""

from __future__ import annotations

from collections.abc import Sequence

from ticdc_spark.model import Offsets
from ticdc_spark.replicate.modes.base import ScannedBatch
from ticdc_spark.spark.decode.control import ControlEvent


def scanned(controls: Sequence[ControlEvent], end: Offsets, latest: Offsets) -> ScannedBatch:
    """``end``: where the batch read to; ``latest``: where the topics end."""
    return ScannedBatch(number=1, controls=controls, end_offsets=end, latest_offsets=latest)
