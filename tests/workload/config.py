"""What a workload is made of: size, mix, schema changes, topic layout and faults."""

from typing import Literal, TypeAlias, get_args

import msgspec

DdlAction: TypeAlias = Literal[
    "create_table",
    "drop_table",
    "recreate_table",
    "truncate_table",
    "rename_table",
    "rename_chain",
    "rename_many",
    "move_table",
    "create_database",
    "drop_database",
    "add_column",
    "drop_column",
    "rename_column",
    "modify_column",
    "add_index",
    "drop_index",
]

DDL_ACTIONS: tuple[DdlAction, ...] = get_args(DdlAction)
"""Every schema change that the generator can make."""


class WorkloadConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A workload. Two equal configurations give the same events and the same messages."""

    seed: int = 0
    changes: int = 1000
    """At least so many row changes (the last transaction is finished)."""
    start_ms: int = 1_767_225_600_000
    """Physical part of the first commit_ts, milliseconds since the epoch."""
    schema: str = "shop"
    live_rows: int = 50_000
    """Per table: above this, an insert becomes a delete, so that memory stays bounded."""

    insert_share: float = 0.5
    update_share: float = 0.35
    key_change_share: float = 0.05
    """The rest of the operations are deletes."""
    raw_key_changes: float = 0.5
    """Share of key changes sent as one UPDATE (``output-raw-change-event``), not as DELETE + INSERT."""
    rows_per_transaction: int = 4
    """Mean number of row operations at one commit_ts."""

    ddl_every: int = 0
    """Transactions between two schema changes; 0: only the first tables are created."""
    ddl_actions: tuple[DdlAction, ...] = DDL_ACTIONS
    watermark_every: int = 10
    """Transactions between two watermarks (a DDL always has its own before it)."""
    bootstrap_every: int = 200
    """Rows of one table between two BOOTSTRAPs of it; 0: only before its first row."""

    topic: str = "shop"
    topic_per_table: bool = False
    """Rows and table DDL go to ``<topic>_<schema>_<table>``; database DDL stays in ``topic``."""
    partitions: int = 1
    dispatch: Literal["key", "table"] = "key"
    max_batch: int = 256
    """Rows of a partition that are handed to the encoder together."""

    duplicates: float = 0.0
    """Share of row messages that a producer retry sends again, some messages later."""
    reorder: bool = False
    """Rows overtake one another and watermarks, as far as TiCDC allows."""
    restart_every: int = 0
    """Events between two restarts of TiCDC, each of which sends everything since an older checkpoint again."""
    idle_partitions: int = 0
    """So many upper partitions get nothing any more after the first third (``partition-num`` was lowered)."""
