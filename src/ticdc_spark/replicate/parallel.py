"""Look at several tables at a time: a catalog in the network takes long for each."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ticdc_spark.config.job import Job

A = TypeVar("A")
T = TypeVar("T")


def for_each(job: Job, look: Callable[[A], T], tables: Sequence[A]) -> list[T]:
    """Look at ``parallel-tables`` tables at a time. Returns: the results, in the order of ``tables``.

    Raises: what ``look`` raises
    """
    if len(tables) <= 1 or job.parallel_tables == 1:
        return [look(table) for table in tables]
    with ThreadPoolExecutor(job.parallel_tables, "look") as pool:
        return list(pool.map(look, tables))
