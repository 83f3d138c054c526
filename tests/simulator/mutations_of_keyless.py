"""Mutations of tables without a key."""

from __future__ import annotations

from tests.simulator.mutate import one

KEYLESS = (
    one(
        "a commit_ts that falls begins no try",
        "_tries_of",
        "stamps[1:] < stamps[:-1]",
        "stamps[1:] < 0",
        found_by="test_a_restart_of_ticdc_changes_no_count",
    ),
    one(
        "a watermark begins no try",
        "_tries_of",
        "between[1:] > stamps[1:]",
        "between[1:] < 0",
        found_by="test_what_is_sent_again_behind_a_watermark_counts_once_however_little_of_it_is_read",
    ),
    one(
        "only rows that are due tell where tries begin",
        "tries_of",
        "_HIGHEST",
        "min(rows.max_ts for rows in waiting)",
        found_by="test_what_is_sent_again_around_a_ddl_is_known",
    ),
    one(
        "each try counts",
        "_counted",
        "(f'{_AT}_count', 'max')",
        "(f'{_AT}_count', 'sum')",
        found_by="test_a_transaction_that_a_crash_of_ticdc_has_cut_counts_once",
    ),
    one(
        "late rows are counted",
        "_without_late",
        "[rows for rows in waiting if not rows.late]",
        "list(waiting)",
        found_by="test_late_rows_stop_the_job_or_mark_the_table",
    ),
    one(
        "nothing is in doubt",
        "keyless:doubt",
        "above < ts <= upto",
        "False",
        found_by="test_a_transaction_that_may_be_there_twice_marks_the_table",
    ),
)
