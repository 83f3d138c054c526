"""A small shop that changes, as events and as a topic, with the true tables beside it."""

from ticdc_spark.workload.config import DDL_ACTIONS, DdlAction, WorkloadConfig
from ticdc_spark.workload.record import RecordFormat, write_topic
from ticdc_spark.workload.shop import Workload, generate, truth_at
from ticdc_spark.workload.tables import Key, Name, Truth
from ticdc_spark.workload.topic import dispatch

__all__ = [
    "DDL_ACTIONS",
    "DdlAction",
    "Key",
    "Name",
    "RecordFormat",
    "Truth",
    "Workload",
    "WorkloadConfig",
    "dispatch",
    "generate",
    "truth_at",
    "write_topic",
]
