"""Types in Iceberg's schemas."""

from ticdc_spark.spark.types import LakeType

_SPELT = {"bigint": "long", "timestamp_ntz": "timestamp", "timestamp": "timestamptz"}
"""Iceberg's names of types that have another name in Spark."""


def iceberg_type(kind: LakeType) -> str:
    """The name of a primitive type in Iceberg's schemas."""
    if kind.arrow == "decimal":
        return f"decimal({kind.precision}, {kind.scale})"
    return _SPELT.get(kind.spark, kind.spark)
