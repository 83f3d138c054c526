"""What a sink can do, and its own errors. What it cannot do it refuses, and the contract suite tests that it does."""

import msgspec

from ticdc_spark.errors import DecisionNeeded, SinkFault


class NotSupported(DecisionNeeded):
    """The target cannot do what is asked of it; the message names both."""


class SinkConflict(SinkFault):
    """Another writer was faster, and nothing was committed: the same can be done again at once."""


class FilesGone(DecisionNeeded):
    """The target names files of a table that are not there; the message names one."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a sink can do. Who uses a capability that is ``False`` gets ``NotSupported``, or what its line says."""

    rename: bool = True
    """``Tables.rename``."""
    full_reads: bool = True
    """``Loads``: rows are gathered beside a table, and become it in one commit."""
    ordered_upsert: bool = True
    """``Changes.upsert`` of changes that a column orders (arrival mode)."""
    time_travel: bool = True
    """``Reads.read`` as of an earlier snapshot."""
    transactional_ddl: bool = True
    """A change of columns and its stamp are one commit. ``False``: a death between the two is recognised and repaired
    by the sink."""
    atomic_tables: bool = False
    """``Sink.commit_with``: the rows of all tables are one commit, in a database with the state of the job. ``False``:
    each table is one, and the state comes last."""
    upkeep: bool = True
    """``Upkeep``: there are files to compact and to remove."""
    layouts: bool = True
    """``Tables.create`` with a layout: partitions, an order of rows, properties."""
    sees_others: bool = True
    """``TableFound`` says what other writers did to rows, and whether a table was set back."""
    column_order: bool = True
    """``ColumnChanges.order``. ``False``: columns stay where they are, and new ones come last."""
    history: bool = True
    """``Changes.append``: tables may have a history table beside them."""
    counts: bool = True
    """``Changes.change_counts``: tables without a key are kept equal to the source."""
    parallel_writers: bool = True
    """Several tasks write one upsert side by side. ``False``: the sink asks ``TypedChanges.write`` for one task."""

    def need(self, name: str, what: str) -> None:
        """Refuse what is asked, unless the sink can do it. Raises: NotSupported"""
        if not getattr(self, name):
            raise NotSupported(
                f"{what}, and this kind of sink cannot do that (`{name}`). Leave it out, for one with skip-ddl or "
                "`tables` under [job], or use another kind under [sink]"
            )
