"""Errors of tasks, which are passed back as name and text."""

from __future__ import annotations

from typing import NoReturn

from ticdc_spark.changefeed.producer import ProducerLost
from ticdc_spark.errors import (
    DecisionNeeded,
    EnvironmentFault,
    IncompatibleSchema,
    MessageError,
    RegistryFault,
    SinkFault,
    SourceFault,
    TicdcSparkError,
    UnsendableChange,
    UsageError,
)

_ALL: tuple[type[TicdcSparkError], ...] = (
    DecisionNeeded,
    EnvironmentFault,
    IncompatibleSchema,
    ProducerLost,
    RegistryFault,
    SinkFault,
    SourceFault,
    UnsendableChange,
    UsageError,
)
_KINDS = {kind.__name__: kind for kind in _ALL} | {MessageError.__name__: UnsendableChange}


def raise_fault(name: str, text: str) -> NoReturn:
    """Raise the error of a task. Raises: TicdcSparkError"""
    raise _KINDS.get(name, EnvironmentFault)(text)
