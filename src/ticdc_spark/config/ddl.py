"""The section ``[ddl]`` of a job file: what each kind of DDL does to the target, for all tables or for some."""

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.config.toml import Duration, Section
from ticdc_spark.config.values import Patterns, Skips
from ticdc_spark.model import TableName

Keeps: TypeAlias = Literal["apply", "keep", "stop"]
Stops: TypeAlias = Literal["apply", "stop"]
OfPartitions: TypeAlias = Literal["stop", "mark", "rebuild"]


class DdlKinds(Section, frozen=True, kw_only=True):
    """What each kind does. ``keep``: the target does not change. ``stop``: the job stops before it."""

    drop_table: Keeps = "apply"
    """DROP TABLE and DROP DATABASE."""
    truncate_table: Keeps = "apply"
    """TRUNCATE TABLE, and TRUNCATE or DROP PARTITION."""
    drop_column: Keeps = "apply"
    """DROP COLUMN."""
    rename_table: Stops = "apply"
    """RENAME of a table."""
    rename_column: Stops = "apply"
    """RENAME of a column."""
    modify_column: Stops = "apply"
    """A change of a column's type that changes the target's column, or its values."""
    partition_ddl: OfPartitions = "stop"
    """TRUNCATE, DROP or EXCHANGE PARTITION whose rows the job cannot compute."""
    keep_dropped: Duration = 0.0
    """How long a table that was dropped or truncated can come back by RECOVER or FLASHBACK TABLE.

    0: it cannot.
    """


class DdlKeys(DdlKinds, frozen=True, kw_only=True):
    """The section ``[ddl]`` without its rules."""

    allow: Skips = ()
    """DDLs that are applied although their kind is ``stop``."""


class DdlRule(Section, frozen=True, kw_only=True):
    """One of ``[[ddl.rules]]``: for some tables. ``None``: as without the rule."""

    tables: Patterns
    drop_table: Keeps | None = None
    truncate_table: Keeps | None = None
    drop_column: Keeps | None = None
    rename_table: Stops | None = None
    rename_column: Stops | None = None
    modify_column: Stops | None = None
    partition_ddl: OfPartitions | None = None
    keep_dropped: Duration | None = None


class DdlPolicy(DdlKeys, frozen=True, kw_only=True):
    """The whole section."""

    rules: tuple[DdlRule, ...] = ()

    def of(self, table: TableName) -> DdlKinds:
        """The keys in force for a table. For each key, the last matching rule that has it decides."""
        return _in_force(self, table) if self.rules else self

    def section_of(self, table: TableName, key: str) -> str:
        """The section of the job file that sets a key for a table. ``key``: its name in the job file."""
        deciding = [
            at
            for at, rule in enumerate(self.rules, 1)
            if getattr(rule, key.replace("-", "_")) is not None and _matches(rule.tables)(*table)
        ]
        return f"number {deciding[-1]} of [[ddl.rules]]" if deciding else "[ddl]"

    @property
    def rebuilds(self) -> bool:
        """Whether some tables may be read again in full."""
        return "rebuild" in (self.partition_ddl, *(rule.partition_ddl for rule in self.rules))

    @property
    def parks(self) -> bool:
        """Whether some tables that are dropped or emptied can come back."""
        return any((self.keep_dropped, *(rule.keep_dropped for rule in self.rules)))


@functools.lru_cache(1024)
def _in_force(policy: DdlPolicy, table: TableName) -> DdlKinds:
    found: dict[str, Any] = {field: getattr(policy, field) for field in DdlKinds.__struct_fields__}
    for rule in policy.rules:
        if _matches(rule.tables)(*table):
            found |= {field: value for field in found if (value := getattr(rule, field)) is not None}
    return DdlKinds(**found)


@functools.lru_cache(1024)
def _matches(patterns: tuple[str, ...]) -> Callable[[str, str], bool]:
    return table_filter(patterns)
