"""What was rejected, printed at the end."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ticdc_spark.cli.output.logging import console
from ticdc_spark.cli.output.text import noun

_REASONS = 10
"""How many different reasons are printed."""


@contextmanager
def report_rejects(counts: Counter[str]) -> Iterator[None]:
    """Print at the end, also after an error, how often each reason occurred."""
    try:
        yield
    finally:
        if counts:
            console.print(f"{noun(counts.total(), 'event')} rejected")
        for reason, count in counts.most_common(_REASONS):
            console.print(f"  {count:,} × {reason}")
        if len(counts) > _REASONS:
            console.print(f"  and {noun(len(counts) - _REASONS, 'other reason')}")
