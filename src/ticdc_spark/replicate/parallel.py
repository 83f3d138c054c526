"""Look at several tables at a time: a catalog in the network takes long for each."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ticdc_spark.config.job import Job

A = TypeVar("A")
T = TypeVar("T")


def looks(job: Job, look: Callable[[A], T], tables: Sequence[A]) -> Iterator[T]:
    """Look at ``parallel-tables`` tables at a time. Yields: the results, in the order of ``tables``

    Raises: what ``look`` raises
    """
    if len(tables) <= 1 or job.parallel_tables == 1:
        yield from map(look, tables)
        return
    with ThreadPoolExecutor(job.parallel_tables, "look") as pool:
        yield from pool.map(look, tables)


def for_each(job: Job, look: Callable[[A], T], tables: Sequence[A]) -> list[T]:
    """The results of ``looks``, once all of them are there."""
    return list(looks(job, look, tables))
