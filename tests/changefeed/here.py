"""Tasks of a backlog without Spark."""

from collections.abc import Callable
from typing import TypeVar

J = TypeVar("J")
R = TypeVar("R")


class Here:
    """Runs the tasks in this process, one after the other."""

    parallelism = 1

    def run(self, task: Callable[[J, int], R], job: J, count: int, kind: type[R]) -> list[R]:
        return [task(job, number) for number in range(count)]

    def close(self) -> None: ...
