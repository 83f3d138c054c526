"""A move of a story: data. What chance decides within it is drawn from its own ``dice``, so that a move does the same
kind of thing when others are taken out of the story."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tests.simulator.faults import Fault

MoveKind: TypeAlias = Literal[
    # the source
    "transaction",
    "ddl",
    # TiCDC and Kafka
    "send",
    "advance",
    "restart",
    "older_start",
    "widen",
    "stall",
    "hang",
    "garbage",
    "corrupt",
    "mangle",
    "trim_topic",
    "recreate_topic",
    "more_partitions",
    "delete_topic",
    "leave_topic",
    "meanwhile",
    # the job
    "batch",
    "stop",
    "kill",
    "wait",
    # the job file
    "tables",
    "topics",
    "skip_ddl",
    "skip_any_ddl",
    "schema_file",
    "adopt",
    "on_reject",
    "late_rows",
    "drop_table",
    "resume",
    "rebuild",
    "repair",
    # the lake, with the state of the job
    "save_lake",
    "restore_lake",
    "restore_table",
    "rollback",
    "compact",
    "expire",
    "insert_row",
    "delete_row",
    "drop_lake_column",
    "drop_lake_table",
    "foreign_table",
    "rival",
    "rival_writer",
]


class Move(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One move."""

    kind: MoveKind
    dice: int = 0
    n: int = 0
    """How many: messages to send, messages of a batch, seconds to wait, commits to roll back."""
    word: str = ""
    """Which: a DDL's kind, a policy's value."""
    fault: Fault | None = None
    """``batch``: what happens to the process."""

    def line(self) -> str:
        """As a person reads it."""
        parts: list[str] = [self.kind]
        parts += [self.word] if self.word else []
        parts += [str(self.n)] if self.n else []
        if self.fault is not None:
            parts.append(f"({self.fault.kind} at durable action {self.fault.at})")
        return " ".join(parts)


CALM: frozenset[MoveKind] = frozenset(
    {
        "transaction",
        "ddl",
        "send",
        "advance",
        "restart",
        "stall",
        "more_partitions",
        "delete_topic",
        "meanwhile",
        "batch",
        "stop",
        "kill",
        "wait",
        "adopt",
        "on_reject",
        "late_rows",
        "drop_table",
        "resume",
        "save_lake",
        "compact",
        "expire",
        "rival",
    }
)
"""Moves after which the job must reach the truth with clean tables, and never stop."""
