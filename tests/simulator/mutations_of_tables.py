"""Mutations of the resolved ts, of DDL and of rows."""

from __future__ import annotations

from tests.simulator.mutate import one

_APPLY, _PLAN, _MODES = "replicate.apply", "replicate.plan", "replicate.modes"
_RARE = "tests/unit/test_holes/test_combinations.py"
_SKIP_DDL = "tests/unit/test_holes/test_skip_ddl.py"
_SKIPS = "tests/unit/test_skip_messages.py"
_CERTAIN = "tests/unit/test_holes/test_certain_columns.py"
_READS = "tests/unit/test_read_rows.py"

TIME = (
    one(
        "a watermark includes its own commitTs",
        f"{_MODES}.watermark:_resolve",
        "watermark - 1, hold",
        "watermark, hold",
    ),
    one(
        "the highest watermark counts, not the lowest",
        f"{_MODES}.watermark:_resolve",
        "highest if lowest is None else lowest.watermark",
        "highest",
    ),
    one(
        "a partition without watermarks holds everything for ever",
        f"{_MODES}.watermark:_resolve",
        "rules.now - since >= rules.idle_timeout",
        "False",
    ),
    one(
        "a partition is idle as soon as it is behind",
        f"{_MODES}.watermark:_resolve",
        "rules.now - since >= rules.idle_timeout",
        "True",
    ),
    one(
        "a batch goes on after a death by another policy of unreadable messages",
        "replicate.decide:Decider.decide",
        "plan.on_reject or self.job.on_reject",
        "self.job.on_reject",
        found_by="tests/unit/test_holes/test_quarantine.py"
        "::test_a_batch_goes_on_after_a_death_by_the_policy_that_it_was_begun_with",
    ),
    one(
        "a table that begins by the schema of a file has certain columns",
        f"{_APPLY}.rows:_prepare_table",
        "newest is batch.schemas.get((*name, ANY_VERSION))",
        "False",
        found_by="tests/unit/test_holes/test_waiting_rows.py"
        "::test_rows_before_a_truncate_wait_for_the_file_with_their_schema",
    ),
    one(
        "late rows behind a late DDL are left out",
        f"{_APPLY}.rows:_late_rows_taken",
        "taken and taken >= had",
        "taken",
        found_by="tests/unit/test_holes/test_topics.py::test_late_rows_on_both_sides_of_a_late_ddl_are_applied",
    ),
    one(
        "a partition is idle with messages to read",
        f"{_MODES}.watermark:_resolve",
        "state.offset >= latest_offsets.get(place, state.offset)",
        "True",
        seeds=(1579,),
    ),
    one(
        "a partition that gets a message stays idle",
        f"{_MODES}.watermark:read_partitions",
        " or (end > state.offset and not state.stirred)",
        "",
        found_by="tests/unit/test_idle_partitions.py::test_a_message_of_a_partition_begins_the_time_anew",
    ),
    one(
        "a key is new although a message was noted for a former name",
        "replicate.unread:unread_names",
        "for one in holders((note.schema, note.name), ddls)",
        "for one in ((note.schema, note.name),)",
        found_by="tests/unit/test_holes/test_unread.py"
        "::test_an_insert_after_an_unreadable_delete_replaces_the_row_under_the_tables_next_name",
    ),
    one(
        "an unreadable message is forgotten before the table that it may be of is made",
        "replicate.unread:mark_unread",
        "(waits and not arrival)",
        "False",
        found_by="tests/unit/test_holes/test_unread.py"
        "::test_an_unreadable_message_marks_a_table_that_is_made_only_once_its_topic_goes_on",
    ),
    one(
        "rows do not wait for their schema",
        f"{_MODES}.watermark:advance",
        "if missing:",
        "if False:",
        found_by="tests/unit/test_holes/test_waiting_rows.py"
        "::test_rows_before_a_truncate_wait_for_the_file_with_their_schema",
    ),
    one(
        "a table that comes late is not bounded by its own partitions",
        f"{_PLAN}.catch_up:bounds_behind",
        "for one in progress.catching_up",
        "for one in ()",
        "topics",
    ),
    one("late rows are dropped as replays", "changes.scan:count_old", "elif ts < passed:", "elif True:", "hang"),
    one(
        "late rows come before a TRUNCATE",
        f"{_APPLY}.rows:apply_rows",
        "max(state.emptied, gone, min(above",
        "max(0, gone, min(above",
        "hang",
        "apply-if-newest",
        "ddl truncate_table",
        found_by=f"{_RARE}::test_a_late_row_from_before_a_truncate_does_not_come_back",
    ),
)
DDL = (
    one(
        "a DDL that waits is forgotten",
        f"{_MODES}.commit:_still_queued",
        "ddl.change.commit_ts > resolved or",
        "False and",
    ),
    one(
        "the first copy of a DDL is applied at once",
        f"{_MODES}.watermark:due",
        "ddl.change.commit_ts <= resolved",
        "True",
    ),
    one(
        "DDLs are identified by their commitTs alone",
        f"{_PLAN}.timeline:identity",
        "change.commit_ts, change.schema.lower(), change.name.lower(), change.query",
        'change.commit_ts, "", "", ""',
    ),
    one(
        "DDLs of one moment are ordered by their offsets",
        f"{_PLAN}.order:_of_one_moment",
        "while left:",
        "if left:\n        return left\n    while left:",
        "ddl rename_many",
        "topic_per_table",
    ),
    one("a replayed DDL is applied again", f"{_MODES}.watermark:_is_replay", "if ts > progress.applied:", "if True:"),
    one(
        "what a refused DDL holds is not held",
        "replicate.decide:Decider.decide",
        "min(resolved, refused.change.commit_ts - 1)",
        "resolved",
        "exchange_partition",
        found_by=f"{_RARE}::test_rows_behind_a_refused_ddl_wait_for_the_decision",
    ),
    one(
        "a held DDL holds no other table",
        f"{_PLAN}.holds:bounds_of",
        "still.update(members)",
        "continue",
        "quarantine",
        "corrupt",
    ),
    one(
        "rows that wait are forgotten when their table is quarantined",
        f"{_MODES}.commit:_still_waiting",
        "min(resolved, bounds.get((rows.schema, rows.name), resolved))",
        "resolved",
    ),
    one(
        "the filter looks at one name of a DDL",
        f"{_MODES}.filters:leave_out",
        "any(is_included(*name) for name in named)",
        "is_included(event.change.schema, event.change.name)",
    ),
    one(
        "a RENAME into the filter counts as any other",
        f"{_MODES}.filters:at_the_filter",
        "if old != new:",
        "if False:",
        found_by="tests/unit/test_holes/test_filter.py"
        "::test_a_table_renamed_out_of_the_filter_is_kept_and_one_that_comes_back_is_marked",
    ),
    one(
        "a table that the filter left out for a while counts as clean",
        f"{_MODES}.filters:judge_left_out",
        "if not patterns:",
        "if True:",
    ),
    one(
        "a DDL that the filter leaves out is forgotten",
        f"{_MODES}.filters:_changed",
        "return tables_of(change), change.commit_ts",
        "return [], 0",
        found_by="tests/unit/test_holes/test_filter.py"
        "::test_what_was_left_out_before_the_rename_that_brings_its_name_marks_the_table",
    ),
    one(
        "rows of a table are doomed though its DROP is skipped",
        f"{_APPLY}.timelines:_doomed",
        "or is_skipped(job, step.queued.change)\n",
        "\n",
        "skip_any_ddl",
        "ddl drop_table",
        found_by=f"{_SKIP_DDL}::test_a_skipped_drop_keeps_the_rows_before_an_alter",
    ),
    one(
        "a TRUNCATE is not done on a table that the progress lacks",
        f"{_APPLY}.ddl:_truncate",
        "    if now == NO_MARK:\n",
        "    if name not in work.promised:\n        return\n    if now == NO_MARK:\n",
    ),
    one(
        "a skipped DDL leaves its tables clean",
        f"{_APPLY}.ddl:_skip",
        "if not state.dropped or state.kept:",
        "if False:",
    ),
    one(
        "a renamed column is a new one",
        f"{_PLAN}.evolve:_alter",
        "return Alter(old, change.table, column_renames(change.query), replaced, certain, computed)",
        "return Alter(old, change.table, {})",
    ),
    one(
        "the columns of a schema file are certain",
        "replicate.schemas.sql_ddl:with_schemas",
        "tables.get(taken) is files[taken]",
        "False",
        found_by=f"{_CERTAIN}::test_a_table_that_is_made_of_a_file_alone_is_not_clean",
    ),
    one(
        "the columns of a table that lacks a message are certain",
        "replicate.state.conditions:misshapen",
        "misshapen=True",
        "misshapen=state.misshapen",
        found_by=f"{_CERTAIN}::test_a_table_like_one_that_lacks_a_message_is_not_clean",
    ),
    one(
        "a DDL of a table that lacks one begins anew in its midst",
        f"{_APPLY}.commits:commits_of",
        "dict(state.columns_before) or ",
        "",
        found_by="tests/unit/test_holes/test_long_stories.py"
        "::test_a_ddl_that_is_skipped_when_it_is_half_done_leaves_a_table_that_goes_on",
    ),
    one(
        "a DROP DATABASE that waits does not know what comes into the database",
        f"{_PLAN}.holds:bounds_of",
        "named |= dict.fromkeys(members)",
        "named |= {}",
        found_by=f"{_CERTAIN}::test_a_drop_database_that_waits_holds_the_tables_that_come_into_it",
    ),
    one(
        "a DDL that is sent again says nothing of its partition",
        f"{_PLAN}.catch_up:_passed",
        "if ts < high.get(here, 0):",
        "if False:",
        found_by=f"{_CERTAIN}::test_a_table_that_is_sent_again_before_any_watermark_waits_for_one",
    ),
    one(
        "a new column's default is not given to the rows that are there",
        f"{_PLAN}.evolution:_fill",
        "if value is None:",
        "if True:",
    ),
    one(
        "a conversion that is not exact leaves a table clean",
        f"{_APPLY}.ddl:alter",
        "if inexact:",
        "if False:",
        "ddl lossy_modify",
    ),
)
ROWS = (
    one(
        "NULL becomes the column's default",
        "spark.decode.versions:cells_of",
        "mine: Cells = new.values[place] if new else []",
        "mine: Cells = [column.column.default if v is None else v for v in new.values[place]] if new else []",
    ),
    one(
        "a column that a row's version lacks is NULL",
        "spark.decode.versions:_fill",
        "return value\n",
        "return None\n",
        "hang",
        "apply-if-newest",
        "ddl add_column",
        found_by=f"{_READS}::test_each_row_is_read_by_its_own_version",
    ),
    one(
        "the delete of an update that changes the key is lost",
        "spark.decode.versions:moved_rows",
        'return [at for at in sorted(moved) if letters[at] == "u"]',
        "return []",
    ),
    one(
        "rows are read by the newest schema",
        f"{_APPLY}.rows:_versions",
        "if effective(key) == VALID_THEN and",
        "if",
        "simple",
    ),
    one(
        "rows that cannot be read are left out in silence",
        f"{_APPLY}.rejects:apply_readable",
        "diverged_since=first, diverged_why=reason, clean=False",
        "clean=True",
        "corrupt",
    ),
    one(
        "in arrival mode every DDL of the last one's commit_ts is a replay",
        f"{_MODES}.arrival:_was_applied",
        "_digest(change.query) in last.queries",
        "True",
        found_by="tests/unit/test_holes/test_rename_order.py"
        "::test_in_arrival_mode_a_swap_that_batches_cut_is_done_once",
    ),
    one(
        "a DDL is done again though its table has been through a later one of the batch",
        f"{_APPLY}.ddl:alter",
        "work.mark(new) >= (at, mark[1] + DDL_STEPS)",
        "work.mark(new)[0] > at",
        found_by="tests/unit/test_holes/test_rename_order.py"
        "::test_in_arrival_mode_a_table_goes_there_and_back_whenever_the_job_dies",
    ),
    one(
        "a message that cannot be read marks no new table",
        "replicate.decide:touch_new",
        "if topics and table.clean",
        "if False and table.clean",
        found_by="tests/unit/test_holes/test_unread.py"
        "::test_an_unreadable_message_of_a_tables_old_topic_marks_it_though_the_batch_empties_it",
    ),
    one(
        "a message that cannot be read marks no table",
        "replicate.decide:Decider._decode_rejects",
        "topics = {reject.topic for reject in rejects}",
        "return advanced",
        "garbage",
    ),
)
