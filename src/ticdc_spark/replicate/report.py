"""What the loop reports to its caller, and sentences about the state of a job."""

from collections.abc import Iterable

import msgspec

from ticdc_spark.model import TableName
from ticdc_spark.mysql import tso_time
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl
from ticdc_spark.replicate.state.table import is_without_rows
from ticdc_spark.spark.decode.control import ControlEvent, RowsRead

NOT_ALL_APPLIED = 3
"""Exit code of a run that finished while tables are held back or rows wait: not everything is applied."""


class KeptLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter, with the beginning of its message."""

    stage: str
    """See ``DeadLetters.keep``."""
    topic: str
    partition: int
    offset: int
    reason: str
    message: str
    """The beginning of the message's value, as text."""
    at: float
    """Seconds since the epoch."""


class TableRead(msgspec.Struct, frozen=True, kw_only=True):
    """What the messages of a batch had of one table, including changes that came again."""

    messages: int
    bytes: int
    """About the size of the messages, with their keys."""
    rows: tuple[int, ...]
    """The numbers of rows by ``spark.decode.control.OPS``."""


def tables_read(controls: Iterable[ControlEvent]) -> dict[TableName, TableRead]:
    """What the messages of a batch had of each table. ``controls``: of its scan."""
    found: dict[TableName, TableRead] = {}
    for event in controls:
        if isinstance(event, RowsRead):
            name, one = (event.schema, event.table), event.summary
            before = found.get(name) or TableRead(messages=0, bytes=0, rows=(0,) * len(one.ops))
            found[name] = TableRead(
                messages=before.messages + one.messages,
                bytes=before.bytes + one.message_bytes,
                rows=tuple(map(sum, zip(before.rows, one.ops, strict=True))),
            )
    return found


class BatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """One committed batch, or one poll that found nothing new."""

    progress: Progress
    """As committed."""
    messages: int = 0
    """Messages that the batch read."""
    left: int | None = None
    """Messages not read yet; ``None``: not known."""
    full: bool = False
    """The topics had more than one batch takes."""
    looked_at: float = 0.0
    """When the batch was planned, seconds since the epoch. Unless ``full``, it read all messages of that moment."""
    changes: int = 0
    """Row changes that the batch applied."""
    seconds: float = 0.0
    phases: dict[str, float] = {}
    """Seconds of this batch, by phase."""
    rate: float | None = None
    """Messages per second over the last batches; ``None``: not known yet."""
    retention: dict[str, float] = {}
    """How many seconds the topics keep messages, see ``Source.retention``."""
    ddls: tuple[QueuedDdl, ...] = ()
    """DDLs that the batch took from the queue: it applied them, or skipped them as the job file says."""
    letters: tuple[KeptLetter, ...] = ()
    """The newest dead letters of this process, the oldest first."""
    epoch: int | None = None
    """The owner's epoch; ``None``: not known."""
    read: dict[TableName, TableRead] = {}
    """What the messages had of each table."""
    commits: dict[TableName, int] = {}
    """How often tables were committed to since the last report."""
    conflicts: int = 0
    """How often another writer committed to a table first since the last report."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run that ended without an error."""

    progress: Progress
    batches: int = 0
    changes: int = 0
    """Row changes that the run applied."""
    ddls: int = 0
    seconds: float = 0.0
    finished: bool = False
    """Whether it reached its end (``--once``, ``--until-ts``); otherwise it was stopped on request."""
    unread: str = ""
    """See ``Source.unread``."""

    @property
    def held(self) -> str:
        """Why a finished run has not applied everything; ``""``: it has."""
        return held(self.progress) if self.finished else ""


def held(progress: Progress, *, cause: bool = True) -> str:
    """One sentence if tables are held back, or if changes wait that no future message would release. ``cause``: with
    the error of the first table."""
    hold = progress.hold
    if hold.kind != "none" and (progress.pending or progress.ddls):
        return hold.what
    still = [table for table in progress.tables if table.is_quarantined and not table.is_gone]
    if not still:
        return reading(progress)
    first, names = still[0], {table.full_name for table in still}
    rows = sum(one.waiting for one in progress.pending if one.full_name in names)
    others = len(still) - 1
    more = f" and {others:,} more {_plural(others, 'table is', 'tables are')}" if others else " is"
    why = f": {first.quarantined}" if cause else ""
    changes = _plural(rows, "change", "changes")
    return f"`{first.schema}`.`{first.name}`{more} held back with {rows:,} {changes} waiting{why}"


def reading(progress: Progress) -> str:
    """One sentence if full reads of tables are not over, or if their rows are ahead of other tables; ``""``: no."""
    for wanted in progress.wanted:
        if wanted.from_topic:
            return f"`{wanted.schema}`.`{wanted.name}` waits to be read from its topics, up to where the job is"
        until = f"{wanted.at}, the time of the dump" if wanted.at else "what the source has now"
        return f"`{wanted.schema}`.`{wanted.name}` waits for its full read until the job has applied {until}"
    for table in progress.tables:
        if table.load is not None:
            return f"`{table.schema}`.`{table.name}` is read in full: {table.load.gathered:,} rows so far"
    for table in progress.tables:
        if table.settles and not table.is_gone:
            return (
                f"`{table.schema}`.`{table.name}` was read while it changed, and equals the source from "
                f"{table.settles} ({tso_time.utc(table.settles)}) on"
            )
    return ""


def needs_a_look(progress: Progress) -> str:
    """One sentence if tables differ from the source and need a user's action; ``""``: there are none."""
    live = [table for table in progress.tables if not table.is_gone]
    quarantined = sum(table.is_quarantined for table in live)
    diverged = sum(not table.is_quarantined and table.has_diverged and not is_without_rows(table) for table in live)
    tables = f"{len(live):,} tables"
    parts = [
        f"{quarantined:,} of {tables} {_plural(quarantined, 'is', 'are')} quarantined" if quarantined else "",
        f"{diverged:,} of {tables} {_plural(diverged, 'has', 'have')} diverged" if diverged else "",
    ]
    found, rejected = ", ".join(filter(None, parts)), progress.counters.rejected
    if not found:
        return ""
    refused = _plural(rejected, "message or row was", "messages or rows were")
    return f"{found}; {rejected:,} {refused} rejected" if rejected else found


def _plural(number: int, one: str, more: str) -> str:
    return one if number == 1 else more
