"""What a sink can do, and its own errors. A sink refuses what it cannot do, and the contract suite tests that."""

import msgspec

from ticdc_spark.errors import DecisionNeeded, SinkFault


class NotSupported(DecisionNeeded):
    """The target cannot do what is asked; the message names the target's kind and the request."""


class SinkConflict(SinkFault):
    """Another writer committed first, so nothing was committed: the same work can be retried at once."""


class FilesGone(DecisionNeeded):
    """The target lists files of a table that do not exist; the message names one."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a sink can do. Using a capability that is ``False`` raises ``NotSupported``, unless its line says more."""

    rename: bool = True
    """``Tables.rename``."""
    full_reads: bool = True
    """``Loads``: rows are gathered beside a table and replace its rows in one commit."""
    ordered_upsert: bool = True
    """``Changes.upsert`` with changes that a column orders (arrival mode)."""
    time_travel: bool = True
    """``Tables.read`` as of an earlier snapshot."""
    atomic_tables: bool = False
    """``Sink.commit_with``: the rows of all tables are one commit; in a database, with the job's state. ``False``: each
    table has its own commit, and the state comes last."""
    upkeep: bool = True
    """``Upkeep``: files to compact and to remove."""
    layouts: bool = True
    """``Tables.create`` with a layout: partitions, an order of rows, properties."""
    sees_others: bool = True
    """``TableFound`` reports how other writers changed rows, and whether a table was rolled back."""
    column_order: bool = True
    """``ColumnChanges.order``. ``False``: columns keep their places, and new ones are last."""
    history: bool = True
    """``Histories.append``: a table may have a history table."""
    counts: bool = True
    """``Changes.change_counts``: tables without a key are kept equal to the source."""

    def need(self, name: str, what: str) -> None:
        """Refuse a request that the sink cannot fulfil. Raises: NotSupported"""
        if not getattr(self, name):
            raise NotSupported(
                f"{what}, and this kind of sink cannot do that (`{name}`). Exclude it, for example with skip-ddl or "
                "`tables` under [job], or use another kind under [sink]"
            )
