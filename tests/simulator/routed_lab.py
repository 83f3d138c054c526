"""The laboratory of a job whose tables and columns have other names in the target. People and the verdict see the
source's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, cast

import msgspec

from tests.memory_sink.lake import Lake, MemoryTable
from tests.simulator.broker import Broker
from tests.simulator.faults import Injector
from tests.simulator.job_lab import Fence, JobLab
from tests.simulator.lake_of_lab import LakeOfLab
from tests.simulator.seams import Clock, TableName
from tests.simulator.setup import JobSetup
from ticdc_spark.config.job import Job, Route
from ticdc_spark.config.routes import compiled
from ticdc_spark.sinks.base import Sink, TableFound
from ticdc_spark.sinks.routed import routed

_COLUMNS = tuple((f"{letter}{number}", f"{letter}{number}_r") for letter in "acnr" for number in range(0, 400, 2))
"""Every other column has another name in the lake."""
RULES = (
    Route(
        tables=("*./[13579]$/",),
        target_schema="lake_{schema}",
        target_table="{table}_odd",
        rename_columns=_COLUMNS,
    ),
    Route(tables=("*.*",), target_schema="lake_{schema}", target_table="{table}_v1", rename_columns=_COLUMNS),
)
"""A RENAME from an odd number to an even one goes from one rule to the other."""
_TABLE = re.compile(r"(.*)_(?:odd|v1)((?:_dropped_[0-9]+(?:_again)*)?)")


class RoutedLab(JobLab):
    """See ``job_lab.JobLab``."""

    def __init__(self, broker: Broker, clock: Clock, injector: Injector) -> None:
        super().__init__(broker, clock, injector)
        self.lake = _LakeOfLab(cast(Lake, _BySource(self.tables)), self.files)

    def _job(self, setup: JobSetup) -> Job:
        return msgspec.structs.replace(super()._job(setup), routes=RULES)

    def _sink(self, setup: JobSetup, fence: Fence) -> Sink:
        return routed(super()._sink(setup, fence), self._job(setup))


class _LakeOfLab(LakeOfLab):
    def source(self, held: str) -> str:
        return super().source(held).removesuffix("_r")

    def held(self, source: str) -> str:
        return dict(_COLUMNS).get(source.lower(), source)


def source_of(target: TableName) -> TableName:
    """The source's name of a table in the target."""
    found = _TABLE.fullmatch(target[1])
    assert found is not None and target[0].startswith("lake_"), "the rules gave it its name"
    return target[0].removeprefix("lake_"), found[1] + found[2]


class _BySource:
    """The lake in memory by the source's names."""

    def __init__(self, lake: Lake) -> None:
        object.__setattr__(self, "_held", lake)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._held, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "tables":
            value = {compiled(RULES).target(table): one for table, one in value.items()}
        setattr(self._held, name, value)

    @property
    def tables(self) -> MutableMapping[TableName, MemoryTable]:
        return _Tables(self._held.tables)

    def find(self, name: TableName) -> TableFound | None:
        found: TableFound | None = self._held.find(compiled(RULES).target(name))
        return found


class _Tables(MutableMapping[TableName, MemoryTable]):
    def __init__(self, held: Mapping[TableName, MemoryTable]) -> None:
        self._held = cast(MutableMapping[TableName, MemoryTable], held)

    def __getitem__(self, name: TableName) -> MemoryTable:
        return self._held[compiled(RULES).target(name)]

    def __setitem__(self, name: TableName, table: MemoryTable) -> None:
        self._held[compiled(RULES).target(name)] = table

    def __delitem__(self, name: TableName) -> None:
        del self._held[compiled(RULES).target(name)]

    def __iter__(self) -> Iterator[TableName]:
        return map(source_of, list(self._held))

    def __len__(self) -> int:
        return len(self._held)
