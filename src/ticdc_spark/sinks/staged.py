"""Rows that tasks have staged in a table beside another one. Spark may run a task more than once."""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec
import pyarrow as pa

ATTEMPT = "_ticdc_attempt"
"""The column of a staging table that names the run of the task that staged a row."""


class Staged(msgspec.Struct, frozen=True):
    """Rows that tasks have staged. Spark may run a task more than once but returns the answer of one run: only the rows
    of that run count."""

    place: str
    """The table, for SQL."""
    done: tuple[tuple[int, int], ...] = ()
    """For each run that counts: its number in the column ``ATTEMPT``, and its number of rows."""

    def with_answers(self, answers: Iterable[bytes]) -> "Staged":
        """A copy with the answers of the tasks."""
        done = [tuple(map(int, one.split())) for one in answers]
        return Staged(self.place, tuple((attempt, rows) for attempt, rows in done))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(rows for _, rows in self.done)

    @property
    def counts(self) -> str:
        """SQL of whether a row counts."""
        return f"{ATTEMPT} IN ({', '.join(str(attempt) for attempt, _ in self.done)})"


def answer(attempt: int, rows: int) -> pa.RecordBatch:
    """The answer of a task's run, for ``Staged.with_answers``."""
    return pa.record_batch([pa.array([b"%d %d" % (attempt, rows)], pa.binary())], ["rows"])


def digest(*names: str) -> str:
    """A short name derived from other names."""
    return blake2b("\0".join(names).encode(), digest_size=16).hexdigest()
