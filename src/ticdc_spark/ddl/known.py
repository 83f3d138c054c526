"""Statements, and parts of an ALTER TABLE, that are known to leave columns, keys and rows of tables unchanged.

In TiDB's DDL, unlisted ones are skipped: TiCDC only sends statements that change tables. A server's binlog has all
statements, so unknown ones cannot be skipped there.
"""

from __future__ import annotations

import re

NO_EFFECT = frozenset(
    re.findall(
        r"\S+",
        """
        algorithm analyze auto_increment autoextend_size avg_row_length check checksum comment compression connection
        data delay_key_write disable enable encrypted encryption encryption_key_id engine engine_attribute force
        ietf_quotes index insert_method itef_quotes key_block_size lock max_rows min_rows nowait online optimize order
        pack_keys page_checksum page_compressed page_compression_level password raid_type rebuild repair row_format
        secondary_engine secondary_engine_attribute secondary_load secondary_unload sequence stats_auto_recalc
        stats_persistent stats_sample_pages storage tablespace transactional type union upgrade validate wait without
        """,
    )
)
"""First words of parts, including options of a table."""

WITH_LISTS = frozenset(("analyze", "check", "optimize", "order", "rebuild", "repair"))
"""Words that several names follow: of partitions or of columns."""

_OBJECTS = re.findall(
    r"\S+",
    """
    aggregate algorithm definer event function instance json library logfile materialized package policy procedure
    resource role sequence server spatial sql tablespace temporary trigger undo user view
    """,
)
_VERBS = re.findall(
    r"\S+",
    """
    analyze backup binlog cache call change check checksum clone deallocate do execute explain flush get grant handler
    help import install kill load lock optimize prepare purge release reload repair reset resignal restart revoke rename
    set show shutdown signal start stop uninstall unlock use xa
    """,
)
STATEMENTS = frozenset((*_VERBS, *(f"{verb} {what}" for verb in ("create", "drop", "alter") for what in _OBJECTS)))
"""First words of statements; two words if the first is CREATE, DROP or ALTER."""
