"""What follows from a job's mode wherever it does not matter how far a batch goes. See ``modes.base``."""

from typing import Literal

from ticdc_spark.config.values import ModeName


def is_resolving(mode: ModeName | Literal[""] | None) -> bool:
    """Whether a batch goes to a resolved ts, below which everything is known to be there.

    Then marks are commitTs, and tables can be read in full, parked, and cut by their partitions. Otherwise marks are
    numbers of batches, and a table has a column that orders the changes of its rows. A mode that messages have not
    shown yet counts as one that resolves.
    """
    return mode != "arrival"
