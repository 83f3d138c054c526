"""What tasks have staged in a table beside another one. Spark may run a task more than once."""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec
import pyarrow as pa

ATTEMPT = "_ticdc_attempt"
"""The column of a staging table that says which run of a task has staged a row."""


class Staged(msgspec.Struct, frozen=True):
    """What tasks have staged. Spark may run a task more than once, and its answer is that of one run: only the rows of
    such runs count."""

    place: str
    """The table, for SQL."""
    done: tuple[tuple[int, int], ...] = ()
    """Of each run that counts: its number in the column ``ATTEMPT``, and its rows."""

    def with_answers(self, answers: Iterable[bytes]) -> "Staged":
        """The same with what the tasks have answered."""
        done = [tuple(map(int, one.split())) for one in answers]
        return Staged(self.place, tuple((attempt, rows) for attempt, rows in done))

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(rows for _, rows in self.done)

    @property
    def counts(self) -> str:
        """Whether a row counts, for SQL."""
        return f"{ATTEMPT} IN ({', '.join(str(attempt) for attempt, _ in self.done)})"


def answer(attempt: int, rows: int) -> pa.RecordBatch:
    """What a run of a task gives for ``Staged.with_answers``."""
    return pa.record_batch([pa.array([b"%d %d" % (attempt, rows)], pa.binary())], ["rows"])


def digest(*names: str) -> str:
    """A short name for names."""
    return blake2b("\0".join(names).encode(), digest_size=16).hexdigest()
