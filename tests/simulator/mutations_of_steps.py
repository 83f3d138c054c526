"""Mutations of marks, of the lease and of what a step does in which order."""

from __future__ import annotations

from tests.simulator.mutate import Edit, Mutation, one

_APPLY, _PLAN = "replicate.apply", "replicate.plan"
_RARE = "tests/unit/test_holes/test_combinations.py"
_FILTER = "tests/unit/test_holes/test_filter.py"
_TOPICS = "tests/unit/test_holes/test_topics.py"
_SET_BACK = "tests/unit/test_holes/test_set_back.py"
_SKIP_DDL = "tests/unit/test_holes/test_skip_ddl.py"
_LOST_TOPICS = "tests/unit/test_holes/test_lost_topics.py"
_LATE_NAMES = "tests/unit/test_holes/test_late_names.py"
_LOST_STATE = "tests/unit/test_holes/test_lost_state.py"
_OLDER = "tests/unit/test_holes/test_older_start.py"
_UNREAD = "tests/unit/test_holes/test_unread.py"
_SKIPS = "tests/unit/test_skip_messages.py"

MARKS = (
    one(
        "a commit carries the mark of the one before it",
        f"{_APPLY}.batch:TimelineWork.commit",
        "self.batch.stamp(state, mark, applied_before)",
        "self.batch.stamp(state, self.mark(name) if self.stamps.get(name) else mark, applied_before)",
    ),
    one(
        "a stamp does not have what the table is",
        f"{_APPLY}.batch:Batch.stamp",
        "mark, applied_before, about,",
        'mark, applied_before, "",',
    ),
    one(
        "what a batch decides of a table is not written with it",
        f"{_APPLY}.batch:TimelineWork.settle",
        "for name, stamp in list(self.stamps.items()):",
        "for name, stamp in []:",
        "lose_state",
        "continue",
        found_by=f"{_SKIPS}::test_a_message_that_can_be_read_marks_its_table_only",
    ),
    one("a CREATE is done again after a restart", f"{_APPLY}.ddl:_create", "if now >= mark:", "if False:"),
    one(
        "a RENAME leaves no stamp of what is meant before it",
        f"{_APPLY}.rename:_move",
        "if work.mark(old) < mark:",
        "if False:",
        "fault",
        "ddl rename_table",
    ),
    Mutation(
        "rows are appended though old ones may be there",
        (
            Edit(f"{_APPLY}.rows:_merge", "is_new = state.clean and not", "is_new = not"),
            Edit(f"{_APPLY}.rows:_merge", "changes.new_keys and now.clean", "changes.new_keys"),
        ),
        ("mangle", "continue"),
        found_by=f"{_RARE}::test_a_key_whose_delete_was_rejected_is_not_appended_a_second_time",
    ),
    Mutation(
        "a table that was set back is not noticed",
        (
            Edit(f"{_APPLY}.look:_behind", "if found.rolled_back:", "if False:"),
            Edit(f"{_APPLY}.look:_behind", "promise.mark > stamp.mark", "False"),
        ),
        ("rollback",),
    ),
    one(
        "a table that is an older copy is not noticed",
        f"{_APPLY}.look:_behind",
        "promise.mark > stamp.mark",
        "False",
        "restore_table",
        "save_lake",
    ),
    one("rows that others wrote are not noticed", f"{_APPLY}.look:look_at", "if found.changed_by:", "if False:"),
    Mutation(
        "a table that is gone is made anew",
        (
            Edit("replicate.start:_look", "if not interrupted:", "if False:"),
            Edit(f"{_APPLY}.rows:_prepare_table", "if state.table is not None and not state.dropped:", "if False:"),
        ),
        ("drop_lake_table",),
    ),
    one(
        "a table that others made is taken over unasked",
        f"{_APPLY}.look:_not_ours",
        "if job.adopt:",
        "if True:",
        "foreign_table",
    ),
)
LEASE = (
    one("the lease is not checked before a commit", "sinks.memory.sink:MemorySink._durable", "self.fence()", "pass"),
    one(
        "the state is written whatever others have written",
        "sinks.memory.state:MemoryState.commit",
        "if self.stored.version != expected:",
        "if False:",
        "suspended",
    ),
)
STEPS = (
    one(
        "the topics of a job that has not done a batch have no ids",
        "replicate.start:begin",
        "source=source_notes(source, found)",
        "source=()",
        found_by="tests/unit/test_holes/test_certain_columns.py"
        "::test_a_topic_that_is_made_anew_before_the_first_batch_was_done_stops_the_job",
    ),
    one(
        "the topics of a batch that was decided are not compared after a death",
        "replicate.step:Steps._plan",
        "check_plan(self.source, old)",
        "pass",
        found_by="tests/unit/test_holes/test_source_changed.py"
        "::test_a_topic_created_again_after_a_death_within_the_first_batch_stops_the_job",
    ),
    one(
        "a batch is planned anew after a death",
        "replicate.step:Steps._plan",
        "old.resolved is not None",
        "False",
        "fault",
    ),
    one(
        "the progress is saved before the batch is applied",
        "replicate.step:Steps.batch",
        'beat("apply", number)',
        "self.store.save(msgspec.structs.replace(decided.advanced.progress, batch=number, applied=decided.resolved))",
    ),
    one(
        "a resolved ts that a batch had before a death is not kept",
        "replicate.decide:Decider.decide",
        "max(advanced.resolved, plan.resolved or 0)",
        "advanced.resolved",
        "die_after",
        "more_partitions",
    ),
    Mutation(
        "where a run from the latest offsets begins is not kept",
        (
            Edit("replicate.plan.reach:partitions_at", "in sorted(offsets.items())", "in ()"),
            Edit("replicate.plan.offsets:first_offsets", "source.beginning_offsets()", "source.starting()"),
        ),
    ),
    one(
        "a topic that was made anew is not noticed by its id",
        f"{_PLAN}.source_check:_compare",
        "now[note.what] != note.value",
        "False",
    ),
    one(
        "messages that retention removed are not missed",
        f"{_PLAN}.source_check:check_source",
        "elif beginning[place] > offset:",
        "elif False:",
        "trim_topic",
    ),
    one(
        "first messages that are gone are not missed once the state was lost",
        "replicate.proof:check_unproven",
        "for topic, partition in progress.unproven:",
        "for topic, partition in ():",
        "lose_state",
        "trim_topic",
        found_by=f"{_RARE}::test_a_topic_that_lost_unread_messages_while_the_state_was_lost_stops_the_job",
    ),
    one(
        "batches that the log lacks are not missed",
        "replicate.start:begin",
        "if missing:",
        "if False:",
        "restore_lake",
        "save_lake",
    ),
    one(
        "batches that land anew behind an older state are not noted",
        "replicate.start:_of_older_state",
        "landed_anew=max(newest, progress.landed_anew)",
        "landed_anew=progress.landed_anew",
        found_by=f"{_SET_BACK}::test_a_lake_from_before_an_older_state_landed_its_batch_anew_stops_the_job",
    ),
    one(
        "a DDL at the very mark of a table counts as applied after the state was lost",
        "replicate.modes.watermark:_may_lack",
        "state.applied == ts == state.mark[0]",
        "False",
        found_by=f"{_LOST_STATE}"
        "::test_a_state_that_is_lost_again_in_the_batch_in_which_a_table_catches_up_loses_no_rename",
    ),
    one(
        "a partition that is passed over is not noted",
        f"{_PLAN}.offsets:idle_topics",
        "if state.idle and state.watermark",
        "if False",
        found_by=f"{_LOST_STATE}"
        "::test_a_state_that_is_lost_while_a_partition_is_passed_over_marks_the_tables_of_its_topic",
    ),
    one(
        "a table that takes a name late is the source's",
        f"{_APPLY}.rename:passed_by",
        "state.ddl_ts <= ts",
        "True",
        found_by=f"{_LATE_NAMES}::test_a_table_that_takes_a_name_late_which_the_source_gave_up_since_is_marked",
    ),
    one(
        "a RENAME read late in arrival mode takes the table that has its old name since",
        f"{_APPLY}.rename:rename",
        "before.ddl_ts > ts",
        "False",
        found_by=f"{_LATE_NAMES}"
        "::test_in_arrival_mode_a_rename_read_late_is_not_of_a_table_that_has_its_old_name_since",
    ),
    one(
        "an unreadable message of the default topic is of no table",
        "replicate.unread:of_databases",
        "return frozenset(seen - of_tables - _topics_of_tables(progress))",
        "return frozenset()",
        found_by="tests/unit/test_holes/test_unread.py"
        "::test_an_unreadable_message_of_the_default_topic_may_be_the_drop_of_a_database",
    ),
    one(
        "a copy is certain of its columns though older DDLs are to come",
        "replicate.schemas.sql_ddl:with_schemas",
        "change.commit_ts > read_upto",
        "False",
        found_by="tests/unit/test_holes/test_copies.py"
        "::test_a_copy_that_is_further_than_its_model_is_certain_of_no_columns",
    ),
    one(
        "an ALTER that a table has been through is folded again",
        "replicate.schemas.sql_ddl:_as_altered",
        "state.ddl_ts < change.commit_ts",
        "True",
        found_by="tests/unit/test_holes/test_lost_after_ddl.py"
        "::test_a_state_that_is_lost_long_after_the_last_ddl_of_a_table_is_recovered",
    ),
    one(
        "DDLs leave tables without a copy",
        f"{_APPLY}.timelines:_note_missing",
        "for name, stamp in work.stamps.items():",
        "for name, stamp in dict(work.stamps).items() if False else ():",
        found_by=f"{_LATE_NAMES}::test_a_swap_that_is_read_in_parts_leaves_no_clean_table_without_a_copy",
    ),
    one(
        "a change log from between two tries of a batch is taken for that of the second",
        "replicate.start:_is_of_older_try",
        "return changelog.count_rows(every) < rows.rows",
        "return False",
        found_by=f"{_SET_BACK}::test_a_change_log_from_between_two_tries_of_a_batch_is_noticed",
    ),
    one(
        "after the state was lost a table counts as being as far as the others",
        "replicate.start:_promised",
        "table.mark[0] if stays else applied",
        "applied",
        found_by=f"{_LOST_STATE}::test_an_older_copy_of_a_table_gets_its_rows_again_after_the_state_was_lost",
    ),
    one(
        "a table that a DDL has passed is redone from the log alone",
        "replicate.start:_redo",
        "elif (ddl := _last_ddl(table, was, looked)) > looked.stamp.mark:",
        "elif False:",
        "rollback",
    ),
    one(
        "a RENAME that was begun is what the job file makes of it now",
        f"{_APPLY}.ddl:apply_ddl",
        "and _finish_rename(work, ddl):",
        "and False:",
        found_by=f"{_FILTER}::test_a_rename_that_was_begun_comes_to_its_end_whatever_is_left_out_then",
    ),
    one(
        "a table that is gone already is kept",
        f"{_APPLY}.ddl:_keep",
        "work.put(_gone(state, ts))",
        "work.put(msgspec.structs.replace(_gone(state, ts), kept=True, mark=state.mark))",
        found_by=f"{_SKIP_DDL}::test_a_drop_that_was_done_before_it_is_skipped_does_not_stop_the_job",
    ),
    one(
        "a table counts as whole though first messages of its topic are gone",
        f"{_PLAN}.reach:_may_lack",
        "if one.reaches <= since + 1:",
        "if one.reaches > 0:",
        found_by=f"{_TOPICS}::test_a_table_is_clean_only_if_no_row_of_it_can_have_been_removed_before_the_job_began",
    ),
    one(
        "a table that the job went on without is taken for what it was",
        f"{_APPLY}.look:look_at",
        "stamp.job_applied < job_applied",
        "stamp.job_applied < 0",
        found_by=f"{_FILTER}::test_a_table_that_a_batch_made_before_it_was_interrupted_and_left_out_is_marked",
    ),
    one(
        "what is left out of a table that waits to be made is forgotten",
        "replicate.unread:with_left_out",
        "if not patterns:",
        "if patterns:",
        found_by=f"{_FILTER}::test_a_table_that_was_left_out_for_a_while_is_marked_whatever_waited_for_it",
    ),
    one(
        "a DDL of a batch that was interrupted is forgotten when its table is set back",
        "replicate.start:_last_ddl",
        "if furthest is not None and DDL_STEPS",
        "if furthest is not None and 0 > DDL_STEPS",
        found_by=f"{_SET_BACK}::test_a_table_rolled_back_beyond_a_ddl_of_an_interrupted_batch_stops_the_job",
    ),
    one(
        "a table that stood still counts as applied once the state was lost",
        "replicate.start:_promised",
        "table.mark[0] if stays else applied",
        "applied",
        "lose_state",
        "quarantine",
        "corrupt",
        found_by=f"{_RARE}::test_a_quarantined_table_is_where_it_stood_still_once_the_state_was_lost",
    ),
    one(
        "a table stays clean whose topic is another once the state was lost",
        "replicate.proof:mark_doubted",
        "if doubt is None or not is_doubt_over(progress):",
        "if True:",
        seeds=(7105309,),
    ),
    one(
        "the topics of a table are not known once the state was lost",
        f"{_APPLY}.batch:Batch.stamp",
        "topics=topics, behind",
        "topics=(), behind",
        seeds=(7203349,),
    ),
    one(
        "a table that stays where it is counts as being as far as the others once the state was lost again",
        "replicate.step:_with_behind",
        "name in behind and",
        "False and",
        found_by=f"{_LOST_TOPICS}::test_a_table_whose_topic_was_left_out_gets_its_rows_once_it_is_read",
    ),
    one(
        "a DDL that a table has passed without it is taken for a replay",
        f"{_PLAN}.late_ddl:_has_passed",
        "max(state.ddl_ts, state.emptied) < ts <= state.applied",
        "False",
        seeds=(7324227,),
    ),
    one(
        "what comes behind the first watermark shows how far back a topic reaches",
        f"{_PLAN}.reach:lowest",
        "if place in begun:",
        "if False:",
        found_by=f"{_OLDER}::test_the_same_of_the_topic_of_one_table_leaves_it_unverified",
    ),
    one(
        "a watermark that falls shows at once how far back a partition reaches",
        f"{_PLAN}.reach:_watermarks",
        "again = min(ts, again or ts)",
        "reaches = min(reaches, ts)",
        found_by=f"{_OLDER}::test_a_table_that_is_emptied_while_a_partition_is_sent_again_is_clean_only_with_all_of_it",
    ),
    one(
        "rows that are sent again behind a watermark show how far back a partition reaches",
        "replicate.proof:_oldest",
        "event.summary.old_at < first",
        "event.summary.replays",
        found_by=f"{_OLDER}::test_what_is_sent_again_behind_a_higher_watermark_does_not_show_that_a_topic_reaches_back",
    ),
    one(
        "a table that was renamed since is not marked for what was not read",
        "replicate.unread:holders",
        "act.old in found",
        "False",
        found_by=f"{_UNREAD}::test_an_unreadable_message_marks_a_table_that_the_same_batch_makes_and_renames",
    ),
    one(
        "a DROP DATABASE is forgotten once it was applied",
        f"{_PLAN}.catch_up:with_drops",
        "if not drops:",
        "if True:",
        seeds=(7314901,),
    ),
)
