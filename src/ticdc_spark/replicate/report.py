"""What the loop tells whoever runs it."""

import msgspec

from ticdc_spark.replicate.state.progress import Progress


class BatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """One committed batch, or one look that found nothing new."""

    progress: Progress
    """As committed."""
    messages: int = 0
    """Messages that the batch read."""
    left: int | None = None
    """Messages that are there and not read yet; ``None`` when that is not known."""
    rows: int = 0
    """Row changes that the batch applied."""
    seconds: float = 0.0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run, when it ended without an error."""

    progress: Progress
    batches: int = 0
    rows: int = 0
    ddls: int = 0
    seconds: float = 0.0
    finished: bool = False
    """It reached what it was to reach (``--once``, ``--until-ts``); else it was told to stop."""
