"""A small shop that changes, as events and as a topic, with the true tables beside it."""

from tests.workload.config import DDL_ACTIONS, DdlAction, WorkloadConfig
from tests.workload.record import write_topic
from tests.workload.shop import Workload, generate, truth_at
from tests.workload.tables import Key, Name, Truth
from tests.workload.topic import dispatch

__all__ = [
    "DDL_ACTIONS",
    "DdlAction",
    "Key",
    "Name",
    "Truth",
    "Workload",
    "WorkloadConfig",
    "dispatch",
    "generate",
    "truth_at",
    "write_topic",
]
