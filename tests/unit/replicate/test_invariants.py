"""Each invariant that pure functions keep: a check that holds, and that fails once the rule behind it is broken.

I1 shows only with a lake: ``tests/spark/test_restarts.py``.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.memory_sink.state import MemoryState
from tests.unit.changes.test_scan import CONFIG, ENCODERS
from tests.unit.replicate.modes.test_advance import BOUNDED, EMPTY, commit, ddl, fold, rows, watermark
from tests.unit.replicate.plan.test_timeline import ddl as queued
from tests.unit.replicate.plan.test_timeline import described, states
from tests.unit.replicate.plan.test_timeline import rows as pending
from tests.unit.spark.decode.test_read_rows import read
from tests.workload import dispatch, generate
from ticdc_spark.errors import LeaseHeld
from ticdc_spark.model import Envelope, Rejected
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.replicate.modes import next_progress as commit_module
from ticdc_spark.replicate.modes import waiting as waiting_module
from ticdc_spark.replicate.modes import watermark as advance_module
from ticdc_spark.replicate.modes.watermark import due
from ticdc_spark.replicate.plan import timeline as timeline_module
from ticdc_spark.replicate.plan.timeline import timelines
from ticdc_spark.replicate.state import store as store_module
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.store import JobStore, acquire, take_over
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.spark.decode import rows as rows_module
from ticdc_spark.spark.decode import versions as versions_module
from ticdc_spark.spark.decode.rows import BAD

Break: Any = Callable[[pytest.MonkeyPatch], None]


def i2_a_ddl_at_the_watermark_is_still_to_come() -> None:
    begun = msgspec.structs.replace(EMPTY, tables=(TableState(schema="s", name="a"),))
    progress = commit(fold(begun, watermark(100)))
    assert len(fold(progress, ddl(100), watermark(101)).progress.ddls) == 1


def i2_rows_are_cut_at_the_ddl_of_their_table() -> None:
    lines = timelines(states("a"), [pending("a")], [queued(50, "TRUNCATE TABLE a")], 100)
    assert described(lines) == [["a<=50", "ddl@50", "a<=100"]]


def i2_a_ddl_waits_for_every_partition() -> None:
    both = {("t", 0): 10, ("t", 1): 10}
    advanced = fold(EMPTY, ddl(50), watermark(60), ends=both, latest_offsets={**both, ("t", 1): 20}, rules=BOUNDED)
    assert not due(advanced.progress.ddls, advanced.resolved)


def i3_copies_of_a_ddl_are_one() -> None:
    advanced = fold(EMPTY, ddl(50, offset=3), ddl(50, partition=1, offset=2), ends={("t", 0): 10, ("t", 1): 10})
    assert len(advanced.progress.ddls) == 1


def i4_rows_without_schema_hold_all_tables() -> None:
    assert fold(EMPTY, rows(50, 60), watermark(100)).resolved == 49


def i4_a_partition_that_is_not_read_holds_all_tables() -> None:
    latest_offsets = {("t", 0): 10, ("t", 1): 5}
    assert fold(EMPTY, watermark(100), latest_offsets=latest_offsets, rules=BOUNDED).resolved <= 0


def i5_null_stays_null_where_a_default_is() -> None:
    (row,) = read([("insert", "2", None, b'{"age":null,"id":"1","name":"x"}')])
    assert row["age"] is None  # its default is 7


def i5_a_value_that_cannot_be_read_is_no_null() -> None:
    (row,) = read([("insert", "2", None, b'{"age":"many","id":"1","name":"x"}')], strict=False)
    assert "age" in (row[BAD] or "")


def i6_rows_wait_until_they_are_applied() -> None:
    progress = commit(fold(EMPTY, rows(50, 200), watermark(100)))
    assert sum(waiting.rows for waiting in progress.pending) == 2


def i7_commit_ts_is_a_number() -> None:
    advanced = fold(EMPTY, ddl(100, "second"), ddl(99, "first"), watermark(1000))
    assert [one.change.query for one in due(advanced.progress.ddls, 999)] == ["first", "second"]


def _refused() -> bool:
    """Whether a second process is refused while a first one has the job."""
    states = MemoryState("shop")
    with acquire(states, "shop", this_process("first")):
        try:
            acquire(states, "shop", this_process("second")).release()
        except LeaseHeld:
            return True
        return False


def i8_a_second_process_is_refused() -> None:
    assert _refused()


def i8_a_process_whose_job_is_taken_commits_nothing_more() -> None:
    states = MemoryState("shop")
    first = acquire(states, "shop", this_process("first"))
    take_over(states, states.load(), "shop", this_process("second"))
    try:
        first.check()
    except LeaseHeld:
        return
    raise AssertionError


def i9_schemas_do_not_grow_with_time() -> None:
    progress = EMPTY
    for version in range(1, 60):
        progress = commit(fold(progress, ddl(version * 10), watermark(version * 10 + 5)))
    assert len(progress.schemas) <= 10
    assert not progress.ddls


def _resolves_the_watermark_itself(patch: pytest.MonkeyPatch) -> None:
    ours = advance_module._resolve

    def resolve(*given: Any) -> Any:
        partitions, resolved, hold = ours(*given)
        return partitions, resolved + 1, hold

    patch.setattr(advance_module, "_resolve", resolve)


def _takes_the_newest_watermark(patch: pytest.MonkeyPatch) -> None:
    ours = advance_module._resolve

    def resolve(progress: Any, read: Any, latest_offsets: Any, rules: Any) -> Any:
        partitions, _, hold = ours(progress, read, latest_offsets, rules)
        return partitions, max(state.watermark for state in read.values()) - 1, hold

    patch.setattr(advance_module, "_resolve", resolve)


def _binds_no_table_to_a_ddl(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(timeline_module, "names", lambda _act, _tables: ())


def _queues_every_copy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(advance_module, "identity", id)


def _waits_for_no_schema(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(waiting_module, "ANY_VERSION", "1")
    patch.setattr(advance_module, "waiting_rows", lambda *_: ((), 0, 0))


def _fills_nulls_with_defaults(patch: pytest.MonkeyPatch) -> None:
    ours = rows_module.cells_of

    def cells(version: Any, column: Any, *given: Any) -> Any:
        default = versions_module.fill_of(column, ReadOptions())
        return [default if cell is None else cell for cell in ours(version, column, *given)]

    patch.setattr(rows_module, "cells_of", cells)


def _casts_to_null(patch: pytest.MonkeyPatch) -> None:
    ours = rows_module.to_arrow

    def to_arrow(column: Any, options: Any) -> Any:
        convert = ours(column, options)
        return lambda cells: (convert(cells)[0], {}, 0)

    patch.setattr(rows_module, "to_arrow", to_arrow)


def _looks_at_no_owner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(store_module, "await_end", lambda *_: None)


def _checks_no_owner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JobStore, "check", lambda _: None)


def _forgets_what_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_module, "_still_waiting", lambda *_: ())


def _compares_as_text(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(advance_module, "in_order", lambda ddls, _: sorted(ddls, key=lambda one: str(one.change.commit_ts)))


def _forgets_no_schema(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_module, "forget_schemas", lambda progress: progress.schemas)


CASES = [
    (i2_a_ddl_at_the_watermark_is_still_to_come, _resolves_the_watermark_itself),
    (i2_rows_are_cut_at_the_ddl_of_their_table, _binds_no_table_to_a_ddl),
    (i2_a_ddl_waits_for_every_partition, _takes_the_newest_watermark),
    (i3_copies_of_a_ddl_are_one, _queues_every_copy),
    (i4_rows_without_schema_hold_all_tables, _waits_for_no_schema),
    (i4_a_partition_that_is_not_read_holds_all_tables, _takes_the_newest_watermark),
    (i5_null_stays_null_where_a_default_is, _fills_nulls_with_defaults),
    (i5_a_value_that_cannot_be_read_is_no_null, _casts_to_null),
    (i6_rows_wait_until_they_are_applied, _forgets_what_waits),
    (i7_commit_ts_is_a_number, _compares_as_text),
    (i8_a_second_process_is_refused, _looks_at_no_owner),
    (i8_a_process_whose_job_is_taken_commits_nothing_more, _checks_no_owner),
    (i9_schemas_do_not_grow_with_time, _forgets_no_schema),
]


@pytest.mark.parametrize(("holds", "breaks"), CASES, ids=lambda function: function.__name__.strip("_"))
def test_an_invariant_holds_and_its_check_sees_when_it_does_not(
    holds: Callable[[], None], breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    holds()
    breaks(monkeypatch)
    with pytest.raises(AssertionError):
        holds()


def test_i7_a_commit_ts_of_2_to_the_63_is_rejected() -> None:
    message = next(
        message
        for message in dispatch(generate(CONFIG), CONFIG, ENCODERS["simple"])
        if message.value is not None and isinstance(DECODER.open_message(message.key, message.value)[0], Envelope)
    )
    assert message.value is not None
    fields = msgspec.json.decode(message.value)
    for ts, kind in ((2**63 - 1, Envelope), (2**63, Rejected), (2**64 - 1, Rejected)):
        value = msgspec.json.encode(fields | {"commitTs": ts})
        assert [type(event) for event in DECODER.open_message(message.key, value)] == [kind]
