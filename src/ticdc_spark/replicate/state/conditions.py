"""What becomes of a table that is not, or may not be, equal to the source any more. Pure."""

import msgspec

from ticdc_spark.replicate.state.progress import TableState


def diverged(state: TableState, since: int, why: str) -> TableState:
    """A table that may differ from the source from a commit_ts on."""
    first = since if state.diverged_since is None else state.diverged_since
    return msgspec.structs.replace(state, clean=False, diverged_since=first, diverged_why=state.diverged_why or why)


def misshapen(state: TableState, since: int, why: str) -> TableState:
    """A table that may differ from the source in its columns, too: what was left out may have been a DDL."""
    return msgspec.structs.replace(diverged(state, since, why), misshapen=True)


def without_first_rows(state: TableState) -> TableState:
    """A table that may lack rows from before the first messages: as if it had begun with these."""
    origin = "bootstrap" if state.origin == "create" else state.origin
    return msgspec.structs.replace(state, clean=False, origin=origin)


__all__ = ["diverged", "misshapen", "without_first_rows"]
