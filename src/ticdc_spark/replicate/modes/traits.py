"""What depends on a job's mode outside of the modes themselves. See ``modes.base``."""

from typing import Literal

from ticdc_spark.config.values import ModeName


def is_resolving(mode: ModeName | Literal[""] | None) -> bool:
    """Whether a batch goes up to a resolved ts, below which everything is known to be read.

    If so, marks have a commitTs, and tables can be read in full, be parked, and lose the rows of partitions. Otherwise
    marks have the number of the batch, and a table has a column that orders the changes of its rows. A mode that
    messages have not shown yet counts as resolving.
    """
    return mode != "arrival"
