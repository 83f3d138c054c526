"""What the loop reports to its caller."""

import msgspec

from ticdc_spark.mysql import tso_time
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl
from ticdc_spark.replicate.state.table import is_without_rows

NOT_ALL_APPLIED = 3
"""Exit code of a run that finished while tables stand still or rows wait: the answer to "is it all there?" is no."""


class KeptLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter as it was kept, without the message."""

    stage: str
    """See ``DeadLetters.keep``."""
    topic: str
    partition: int
    offset: int
    reason: str
    at: float
    """Seconds since the epoch."""


class BatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """One committed batch, or one poll that found nothing new."""

    progress: Progress
    """As committed."""
    messages: int = 0
    """Messages that the batch read."""
    left: int | None = None
    """Messages that are there and not read yet; ``None`` when that is not known."""
    full: bool = False
    """More was there than one batch takes."""
    looked_at: float = 0.0
    """When the batch was planned, seconds since the epoch. Unless it is ``full``, it read all that was there then."""
    changes: int = 0
    """Row changes that the batch applied."""
    seconds: float = 0.0
    phases: dict[str, float] = {}
    """Seconds of this batch, by phase."""
    rate: float | None = None
    """Messages a second over the last batches; ``None``: not known yet."""
    retention: dict[str, float] = {}
    """For how many seconds the topics keep messages, see ``Source.retention``."""
    ddls: tuple[QueuedDdl, ...] = ()
    """Those that the batch took from the queue: it applied them, or left them out as the job file says."""
    letters: tuple[KeptLetter, ...] = ()
    """The newest dead letters of this process, the oldest first."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run, when it ended without an error."""

    progress: Progress
    batches: int = 0
    changes: int = 0
    """Row changes that the run applied."""
    ddls: int = 0
    seconds: float = 0.0
    finished: bool = False
    """It reached what it was to reach (``--once``, ``--until-ts``); else it was stopped on request."""

    @property
    def held(self) -> str:
        """What keeps a run that finished from having applied everything; ``""``: nothing."""
        return held(self.progress) if self.finished else ""


def held(progress: Progress, *, cause: bool = True) -> str:
    """One sentence if tables stand still, or if something waits that no message yet to come would set free. ``cause``:
    with the error that the first of the tables met."""
    hold = progress.hold
    if hold.kind != "none" and (progress.pending or progress.ddls):
        return hold.what
    still = [table for table in progress.tables if table.is_quarantined and not table.is_gone]
    if not still:
        return reading(progress)
    first, names = still[0], {table.full_name for table in still}
    rows = sum(one.waiting for one in progress.pending if one.full_name in names)
    more = f" and {len(still) - 1} more tables stand" if len(still) > 1 else " stands"
    why = f": {first.quarantined}" if cause else ""
    return f"`{first.schema}`.`{first.name}`{more} still with {rows:,} changes waiting{why}"


def reading(progress: Progress) -> str:
    """One sentence if full reads of tables are not over, or if what they read is ahead of the others; ``""``: no."""
    for wanted in progress.wanted:
        if wanted.from_topic:
            return f"`{wanted.schema}`.`{wanted.name}` waits to be read from its topics, until it is as far as the job"
        until = f"{wanted.at}, of which the dump is" if wanted.at else "what the source has now"
        return f"`{wanted.schema}`.`{wanted.name}` waits for its full read until the job has applied {until}"
    for table in progress.tables:
        if table.load is not None:
            return f"`{table.schema}`.`{table.name}` is read in full: {table.load.gathered:,} rows so far"
    for table in progress.tables:
        if table.settles and not table.is_gone:
            return (
                f"`{table.schema}`.`{table.name}` was read in full while it changed, and equals the source from "
                f"{table.settles} ({tso_time.utc(table.settles)}) on"
            )
    return ""


def needs_a_look(progress: Progress) -> str:
    """One sentence if tables do not equal the source and will not by themselves; ``""`` if there is none."""
    live = [table for table in progress.tables if not table.is_gone]
    quarantined = sum(table.is_quarantined for table in live)
    diverged = sum(not table.is_quarantined and table.has_diverged and not is_without_rows(table) for table in live)
    parts = [
        f"{quarantined} of {len(live)} tables stand still (quarantined)" if quarantined else "",
        f"{diverged} of {len(live)} tables have diverged" if diverged else "",
    ]
    found, rejected = ", ".join(filter(None, parts)), progress.counters.rejected
    if not found:
        return ""
    return f"{found}; {rejected:,} messages or rows were left out" if rejected else found
