"""A command's progress, on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ticdc_spark.cli.output.logging import console

_PLAIN_SECONDS = 5.0
_EVERY = 1000


@contextmanager
def meter(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Give a function that takes the number of messages done: ``inspected 5,000 of 20,000 messages``.

    A bar on a terminal, unless the results go there too; a line every few seconds elsewhere.
    """
    if console.is_terminal and not sys.stdout.isatty():
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda count: bar.update(task, completed=count) if count % _EVERY == 0 else None
        return
    shown = time.monotonic()

    def line(count: int) -> None:
        nonlocal shown
        if count % _EVERY == 0 and time.monotonic() - shown > _PLAIN_SECONDS and not sys.stdout.isatty():
            shown = time.monotonic()
            console.print(f"{what} {count:,}" + (f" of {total:,}" if total is not None else "") + " messages")

    yield line
