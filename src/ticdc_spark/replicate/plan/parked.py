"""Tables that the source dropped or emptied, parked under a hidden name until they can no longer come back. Pure.

A parked table is a kept table. Its last former name is the one it had at the source.
"""

from collections.abc import Iterable

from ticdc_spark.config.job import Job
from ticdc_spark.model import TableName
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.names import shortened
from ticdc_spark.replicate.state.table import TableState

_PREFIX = "_ticdc_dropped_"
_LONGEST = 29
"""Longest part of the table's own name: a name in PostgreSQL has at most 63 bytes, and in MySQL 64 characters."""


def parked_name(name: TableName, ts: int) -> TableName:
    """The hidden name of a table that a DDL at a commit_ts parks."""
    own = shortened(name[1], _LONGEST)
    return name[0], f"{_PREFIX}{ts}_{own}"


def is_parked(name: TableName) -> bool:
    """Whether a name is that of a parked table."""
    return name[1].startswith(_PREFIX)


def parks(job: Job, name: TableName) -> bool:
    """Whether a table is parked when it is dropped or emptied. It is parked in both cases or in none: otherwise the
    parked table might not be the last one of its name."""
    of = job.ddl.of(name)
    return of.keep_dropped > 0 and "keep" not in (of.drop_table, of.truncate_table)


def parked_of(states: Iterable[TableState]) -> dict[TableName, TableState]:
    """The last parked table of each name, by that name. A name whose later table is gone and not parked has none, since
    the older table does not come back."""
    every = list(states)
    gone = {state.full_name: state.ddl_ts for state in every if state.is_gone}
    found = sorted(filter(_is_one, every), key=lambda state: state.ddl_ts)
    return {state.was[-1]: state for state in found if gone.get(state.was[-1], 0) <= state.ddl_ts}


def expired(job: Job, states: Iterable[TableState], applied: int) -> list[TableName]:
    """The parked tables older than ``keep-dropped``. ``applied``: the commit_ts up to which everything is applied."""
    now = tso_physical_ms(applied)
    return [
        state.full_name
        for state in filter(_is_one, states)
        if not parks(job, state.was[-1])
        or now - tso_physical_ms(state.ddl_ts) > 1000 * job.ddl.of(state.was[-1]).keep_dropped
    ]


def _is_one(state: TableState) -> bool:
    return state.is_kept and bool(state.was) and is_parked(state.full_name)
