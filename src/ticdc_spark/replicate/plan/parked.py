"""Tables that the source dropped or emptied, parked under a hidden name until they cannot come back any more. Pure.

A parked table is one that is kept, and whose last former name is that of the source.
"""

from collections.abc import Iterable

from ticdc_spark.config.job import Job
from ticdc_spark.model import TableName
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.names import shortened
from ticdc_spark.replicate.state.table import TableState

_PREFIX = "_ticdc_dropped_"
_LONGEST = 29
"""Of the part that has the table's own name: MySQL's names have 64 characters at most."""


def parked_name(name: TableName, ts: int) -> TableName:
    """Where a table is parked by a DDL at a commit_ts."""
    own = shortened(name[1], _LONGEST)
    return name[0], f"{_PREFIX}{ts}_{own}"


def is_parked(name: TableName) -> bool:
    """Whether a name is one of a parked table."""
    return name[1].startswith(_PREFIX)


def parks(job: Job, name: TableName) -> bool:
    """Whether a table is parked when it is dropped or emptied: either way, or what is parked might not be the last."""
    of = job.ddl.of(name)
    return of.keep_dropped > 0 and "keep" not in (of.drop_table, of.truncate_table)


def parked_of(states: Iterable[TableState]) -> dict[TableName, TableState]:
    """The parked tables by the names that they had, of each name the last one. Where a later table of the name is gone
    and is not parked, none comes back."""
    every = list(states)
    gone = {state.full_name: state.ddl_ts for state in every if state.is_gone}
    found = sorted(filter(_is_one, every), key=lambda state: state.ddl_ts)
    return {state.was[-1]: state for state in found if gone.get(state.was[-1], 0) <= state.ddl_ts}


def expired(job: Job, states: Iterable[TableState], applied: int) -> list[TableName]:
    """The parked tables that are older than ``keep-dropped``. ``applied``: the commit_ts up to which all is applied."""
    now = tso_physical_ms(applied)
    return [
        state.full_name
        for state in filter(_is_one, states)
        if not parks(job, state.was[-1])
        or now - tso_physical_ms(state.ddl_ts) > 1000 * job.ddl.of(state.was[-1]).keep_dropped
    ]


def _is_one(state: TableState) -> bool:
    return state.is_kept and bool(state.was) and is_parked(state.full_name)
