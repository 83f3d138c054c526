"""What keeps the tables of a job from advancing: a partition, a schema, a full read, or the error of the last run."""

from typing import Literal

import msgspec

from ticdc_spark.config.secrets import redact
from ticdc_spark.replicate.report import held, reading
from ticdc_spark.replicate.state.progress import Progress, Status


class HeldBack(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps the resolved ts from rising; for ``reject`` and ``snapshot``, what keeps single tables. ``none``:
    nothing does. ``ddl``, ``reject`` and ``error`` may also be what ended the job."""

    kind: Literal["partition", "schema", "ddl", "reject", "snapshot", "error", "none"]
    what: str
    seconds: float | None = None


_KINDS: dict[str, Literal["ddl", "reject", "schema"]] = {
    "UnsupportedDdl": "ddl",
    "RejectedMessage": "reject",
    "LateRow": "reject",
    "SchemaMissing": "schema",
}
"""The kind for a job that ended with one of these errors."""


def held_back(progress: Progress, ended: Status | None, now: float) -> HeldBack:
    """What keeps tables from advancing. ``ended``: the job's last status, if it has ended."""
    hold, still = progress.hold, held(progress, cause=False)
    if ended is not None and ended.error and ended.state == "failed":
        return HeldBack(kind=_KINDS.get(ended.error_code or "", "error"), what=first_line(ended))
    if hold.kind == "none" and still:
        kind: Literal["snapshot", "reject"] = "snapshot" if still == reading(progress) else "reject"
        return HeldBack(kind=kind, what=redact(still))
    seconds = max(0.0, now - hold.since) if hold.since else None
    return HeldBack(kind=hold.kind, what=redact(hold.what), seconds=seconds)


def first_line(beat: Status) -> str:
    """The first line of the error that a job ended with."""
    return redact(beat.error or "it ended with an error").splitlines()[0]
