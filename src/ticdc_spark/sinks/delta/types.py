"""The source's types in Delta tables."""

from ticdc_spark.sinks.spark_types import SparkTypes


class DeltaTypes(SparkTypes):
    """See ``sinks.type_map.TypeMap``."""

    def __init__(self, *, widens: bool) -> None:
        """``widens``: Delta widens the type of a column without a rewrite. Not every reader supports that."""
        self._widens = widens

    def promotes(self, old: str, new: str) -> bool:
        return self._widens and super().promotes(old, new)
