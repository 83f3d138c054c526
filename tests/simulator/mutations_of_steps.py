"""Mutations of marks, of the lease and of what a step does in which order."""

from __future__ import annotations

from tests.simulator.mutate import Edit, Mutation, one

_APPLY, _PLAN = "replicate.apply", "replicate.plan"
_RARE = "tests/unit/replicate/test_combinations.py"
_FILTER = "tests/unit/replicate/modes/test_filter.py"
_TOPICS = "tests/unit/replicate/plan/test_late_topics.py"
_SET_BACK = "tests/unit/replicate/apply/test_set_back.py"
_SKIP_DDL = "tests/unit/replicate/apply/test_skip_ddl.py"
_LATE_NAMES = "tests/unit/replicate/plan/test_late_names.py"
_UNREAD = "tests/unit/replicate/test_missed.py"
_SKIPS = "tests/unit/replicate/test_skip_messages.py"

MARKS = (
    one(
        "a commit carries the mark of the one before it",
        "TimelineWork.commit",
        "self.batch.stamp(state, mark, applied_before)",
        "self.batch.stamp(state, self.mark(name) if self.stamps.get(name) else mark, applied_before)",
    ),
    one("a stamp does not have what the table is", "Batch.stamp", "about", '""'),
    one(
        "what a batch decides of a table is not written with it",
        "TimelineWork.write_decisions",
        "for name, stamp in list(self.stamps.items()):",
        "for name, stamp in []:",
        "continue",
        found_by="test_a_message_that_can_be_read_marks_its_table_only",
    ),
    one("a CREATE is done again after a restart", "ddl:_create", "if now >= mark:", "if False:"),
    one(
        "a RENAME leaves no stamp of what is meant before it",
        "rename:_move",
        "if work.mark(old) < mark:",
        "if False:",
        "fault",
        "ddl rename_table",
    ),
    Mutation(
        "rows are appended though old ones may be there",
        (
            Edit(
                "rows:_merge",
                "state.is_clean and not group.is_redo and not late and name not in batch.lacking",
                "not group.is_redo and not late and name not in batch.lacking",
            ),
            Edit("rows:_merge", "changes.new_keys and now.is_clean", "changes.new_keys"),
        ),
        ("mangle", "continue"),
        found_by="test_a_key_whose_delete_was_rejected_is_not_appended_a_second_time",
    ),
    Mutation(
        "a table that was set back is not noticed",
        (
            Edit("look:_behind", "if found.rolled_back:", "if False:"),
            Edit("look:_behind", "promise.mark > stamp.mark", "False"),
        ),
        ("rollback",),
    ),
    one(
        "a table that is an older copy is not noticed",
        "look:_behind",
        "promise.mark > stamp.mark",
        "False",
        "restore_table",
        "save_lake",
    ),
    one("rows that others wrote are not noticed", "look_at", "if found.changed_by:", "if False:"),
    Mutation(
        "a table that is gone is made anew",
        (
            Edit("start:_look", "if plan is None:", "if False:"),
            Edit("rows:_prepare_table", "if state.table is not None and not state.is_gone:", "if False:"),
        ),
        ("drop_lake_table",),
    ),
    one("a table that others made is taken over unasked", "_not_ours", "if job.adopt:", "if True:", "foreign_table"),
)
LEASE = (
    one("the lease is not checked before a commit", "MemorySink._durable", "self.fence()", "pass"),
    one(
        "the state is written whatever others have written",
        "MemoryState.commit",
        "if self.stored.version != expected:",
        "if False:",
        "suspended",
    ),
)
STEPS = (
    one(
        "the topics of a job that has not done a batch have no ids",
        "start:begin",
        "source=source_notes(source, found)",
        "source=()",
        found_by="test_a_topic_that_is_made_anew_before_the_first_batch_was_done_stops_the_job",
    ),
    one(
        "the topics of a batch that was decided are not compared after a death",
        "pipeline:reach",
        "check_plan(source, interrupted)",
        "pass",
        found_by="test_a_topic_created_again_after_a_death_within_the_first_batch_stops_the_job",
    ),
    one("a batch is planned anew after a death", "pipeline:reach", "interrupted.batch != number", "True", "fault"),
    one(
        "the progress is saved before the batch is applied",
        "Steps.batch",
        'beat("apply", number)',
        "self.store.save(msgspec.structs.replace("
        "planned.decided.advanced.progress, batch=number, applied=planned.decided.resolved))",
    ),
    one(
        "a resolved ts that a batch had before a death is not kept",
        "Decider.decide",
        "max(advanced.resolved, rules.floor)",
        "advanced.resolved",
        "die_after",
        "more_partitions",
    ),
    Mutation(
        "where a run from the latest offsets begins is not kept",
        (
            Edit("partitions_at", "sorted(offsets.items())", "()"),
            Edit("first_offsets", "source.beginning_offsets()", "source.starting()"),
        ),
    ),
    one(
        "a topic that was made anew is not noticed by its id",
        "source_check:_compare",
        "value != note.value",
        "False",
    ),
    one(
        "messages that retention removed are not missed",
        "check_source",
        "elif beginning[place] > offset:",
        "elif False:",
        "trim_topic",
    ),
    one(
        "a job without a state goes on with tables that it had",
        "start:_stop_if_there_are_tables",
        "if tables:",
        "if False:",
        found_by="test_a_lost_state_is_restored_from_the_backup_of_the_lake",
    ),
    Mutation(
        "a state that is an older copy is not noticed",
        (Edit("look:stop_if_ahead", "stamp.mark > known", "False"),),
        found_by="test_a_state_that_is_an_older_copy_stops_the_job",
    ),
    one(
        "a table of a later time than the state is taken for one of an interrupted batch",
        "look:stop_if_ahead",
        "stamp.mark > known",
        "False",
        found_by="test_a_table_that_an_older_state_does_not_know_stops_the_job_once_it_comes_to_it",
    ),
    one(
        "a batch goes less far after a death than tables have gone",
        "stops:stop_if_left_out_before",
        "decided.resolved < plan.resolved",
        "False",
        found_by="test_a_batch_that_goes_less_far_after_a_death_is_of_no_older_state",
    ),
    one(
        "what is sent again shows how far back a partition reaches",
        "reach:reached",
        "() if state.watermark else events",
        "events",
        found_by="test_what_is_sent_again_does_not_show_how_far_back_a_partition_reaches",
    ),
    one(
        "a table that takes a name late is the source's",
        "passed_by",
        "state.ddl_ts <= ts",
        "True",
        found_by="test_a_table_that_takes_a_name_late_which_the_source_gave_up_since_is_marked",
    ),
    one(
        "a RENAME read late in arrival mode takes the table that has its old name since",
        "rename",
        "before.ddl_ts > ts",
        "False",
        found_by="test_in_arrival_mode_a_rename_read_late_is_not_of_a_table_that_has_its_old_name_since",
    ),
    one(
        "an unreadable message of the default topic is of no table",
        "of_databases",
        "return frozenset(seen - of_tables - _topics_of_tables(progress))",
        "return frozenset()",
        found_by="test_an_unreadable_message_of_the_default_topic_may_be_the_drop_of_a_database",
    ),
    one(
        "a copy is certain of its columns though older DDLs are to come",
        "_may_come",
        "(read_upto is not None and commit_ts > read_upto) or commit_ts > late.get(name, commit_ts)",
        "False",
        found_by="test_a_copy_that_is_further_than_its_model_is_certain_of_no_columns",
    ),
    one(
        "DDLs leave tables without a copy",
        "_note_missing",
        "for name, stamp in work.stamps.items():",
        "for name, stamp in dict(work.stamps).items() if False else ():",
        found_by="test_a_swap_that_is_read_in_parts_leaves_no_clean_table_without_a_copy",
    ),
    one(
        "a RENAME that was begun is what the job file makes of it now",
        "ddl:_apply_ddl",
        "_finish_rename(work, ddl)",
        "False",
        found_by="test_a_rename_that_was_begun_comes_to_its_end_whatever_is_left_out_then",
    ),
    one(
        "a table that is gone already is kept",
        "ddl:_keep",
        "drop(name, ts, state.topics, state.rows)",
        "msgspec.structs.replace(keep(drop(name, ts, state.topics, state.rows)), mark=state.mark)",
        found_by="test_a_drop_that_was_done_before_it_is_skipped_does_not_stop_the_job",
    ),
    one(
        "a table counts as whole though first messages of its topic are gone",
        "reach:_may_lack",
        "if one.reaches <= since + 1:",
        "if one.reaches > 0:",
        found_by="test_a_table_is_clean_only_if_no_row_of_it_can_have_been_removed_before_the_job_began",
    ),
    one(
        "a table that the job went on without is taken for what it was",
        "look_at",
        "stamp.job_applied < job_applied",
        "stamp.job_applied < 0",
        found_by="test_a_table_that_a_batch_made_before_it_was_interrupted_and_left_out_is_marked",
    ),
    one(
        "what is left out of a table that waits to be made is forgotten",
        "note_excluded",
        "if not patterns:",
        "if patterns:",
        found_by="test_a_table_that_was_left_out_for_a_while_is_marked_whatever_waited_for_it",
    ),
    one(
        "a DDL that a table has passed without it is taken for a replay",
        "_has_passed",
        "max(state.ddl_ts, state.emptied) < ts <= state.applied",
        "False",
        seeds=(7324227,),
    ),
    one(
        "a table that was renamed since is not marked for what was not read",
        "holders",
        "act.old in found",
        "False",
        found_by="test_an_unreadable_message_marks_a_table_that_the_same_batch_makes_and_renames",
    ),
    one(
        "a DROP DATABASE is forgotten once it was applied", "with_drops", "if not drops:", "if True:", seeds=(7314901,)
    ),
    one(
        "an EXCHANGE that is half done takes whatever lies beside the other table",
        "exchange:_is_gathered",
        "note.token == _token(act, mark)",
        "True",
        found_by="test_an_exchange_does_not_take_what_another_one_had_gathered",
    ),
    one(
        "rows that go on in another table are not written when their own table is dropped",
        "_has_gone_on",
        "work.mark(name) == NO_MARK",
        "True",
        found_by="test_both_tables_are_right_wherever_the_job_was_killed",
    ),
    one(
        "a table that is built again takes part in the EXCHANGE that is done",
        "exchange:exchange",
        "if not is_open or (here >= mark and not _is_gathered(work, act, mark)):",
        "if not is_open:",
        found_by="test_both_tables_are_right_wherever_the_job_was_killed",
    ),
)
