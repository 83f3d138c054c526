"""Tables without a key: equal to the source as multisets, whatever TiCDC sends again and wherever the job dies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal, cast

import msgspec
import pytest

from tests.simulator.database import Database, Live
from tests.simulator.snapshots import DatabaseView
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, ShopTables, after_every_death
from ticdc_spark.errors import DecisionNeeded, LateRow, RejectedMessage, UnsupportedDdl
from ticdc_spark.model import Op, Row, RowChange, SchemaChange

BATCHES = pytest.mark.parametrize("rows", [100_000, 3, 1], ids=["whole", "few", "each"])
PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])


class Log(Shop):
    """A shop with a table ``log`` without a key, and one with a key."""

    def __init__(self, protocol: str = "simple", **job: Any) -> None:
        super().__init__(protocol, **({"no_key": "apply"} | job))
        self.sent: list[RowChange] = []
        """Changes of ``log``, in their order."""
        self.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        self.sql("CREATE TABLE log (v INT, w VARCHAR(9))")

    def add(self, *rows: Any, ts: int | None = None) -> int:
        """A transaction that inserts rows. Returns: its commit_ts"""
        return self.do(*(("insert", None, row) for row in rows), ts=ts)

    def do(self, *changes: tuple[Op, Any, Any], ts: int | None = None) -> int:
        """A transaction."""
        ts = self.tick() if ts is None else ts
        for op, before, after in changes:
            self.repeat(
                RowChange(op=op, table=self.tables[SCHEMA, "log"], commit_ts=ts, before=_row(before), after=_row(after))
            )
        return ts

    def repeat(self, *changes: RowChange) -> None:
        """Send changes, again or for the first time."""
        for change in changes:
            self.sent.append(change)
            self.send_row(change)

    def of(self, *stamps: int) -> list[RowChange]:
        """What was sent first of transactions."""
        return [change for change in self.sent if change.commit_ts in stamps]


def _row(cells: Any) -> Row | None:
    return None if cells is None else {"v": cells[0], "w": cells[1]}


@BATCHES
@PROTOCOLS
def test_equal_rows_come_and_go_one_by_one(protocol: str, rows: int) -> None:
    shop = Log(protocol)
    shop.add(("1", "a"))
    shop.add(("1", "a"))
    shop.add(("2", None), ("3", "c"))
    shop.watermark()
    shop.run(rows)
    assert shop.rows("log") == [(1, "a"), (1, "a"), (2, None), (3, "c")]
    shop.do(("update", ("1", "a"), ("1", "b")))
    shop.do(("delete", ("2", None), None), ("update", ("3", "c"), (None, None)))
    shop.do(("update", (None, None), (None, None)))
    shop.add(("1", "b"))
    shop.watermark()
    shop.run(rows, again=True)
    assert shop.rows("log") == [(1, "a"), (1, "b"), (1, "b"), (None, None)]
    assert shop.condition("log") == "clean"


@BATCHES
def test_a_restart_of_ticdc_changes_no_count(rows: int) -> None:
    shop = Log()
    one, two, three = shop.add(("1", "a"), ("2", "b")), shop.add(("1", "a")), shop.add(("1", "a"), ("3", "c"))
    first = list(shop.sent)
    shop.repeat(*first)
    shop.watermark()
    shop.run(rows)
    assert shop.rows("log") == [(1, "a"), (1, "a"), (1, "a"), (2, "b"), (3, "c")]
    shop.repeat(*first)
    shop.do(("delete", ("1", "a"), None))
    shop.repeat(*first[2:], *shop.of(shop.ts))
    shop.watermark()
    shop.run(rows, again=True)
    assert shop.rows("log") == [(1, "a"), (1, "a"), (2, "b"), (3, "c")]
    assert shop.condition("log") == "clean"
    assert one < two < three


@BATCHES
def test_a_transaction_that_a_crash_of_ticdc_has_cut_counts_once(rows: int) -> None:
    shop = Log()
    shop.add(("0", "a"))
    ts = shop.add(("1", "a"), ("2", "b"), ("1", "a"), ("3", "c"))
    whole = list(shop.sent)
    shop.repeat(*whole[:3])
    shop.repeat(*whole)
    shop.watermark()
    shop.run(rows)
    assert shop.rows("log") == [(0, "a"), (1, "a"), (1, "a"), (2, "b"), (3, "c")]
    assert shop.condition("log") == "clean"
    assert shop.status("log").applied >= ts


@BATCHES
def test_what_is_sent_again_beyond_the_end_of_a_batch_is_known(rows: int) -> None:
    shop = Log()
    shop.add(("1", "a"))
    end = shop.watermark()
    shop.do(("insert", None, ("1", "a")), ts=end)
    shop.add(("1", "a"))
    shop.run(rows)
    assert shop.rows("log") == [(1, "a")]
    shop.repeat(*list(shop.sent))
    shop.watermark()
    shop.run(rows, again=True)
    assert shop.rows("log") == [(1, "a")] * 3
    assert shop.condition("log") == "clean"


@BATCHES
def test_what_is_sent_again_behind_a_watermark_counts_once_however_little_of_it_is_read(rows: int) -> None:
    shop = Log()
    shop.add(("1", "a"), ("2", "b"))
    shop.watermark()
    shop.repeat(shop.sent[0])
    shop.run(rows)
    shop.repeat(shop.sent[1])
    shop.watermark()
    shop.run(rows, again=True)
    assert shop.rows("log") == [(1, "a"), (2, "b")]
    assert shop.condition("log") == "clean"


@BATCHES
def test_what_is_sent_again_around_a_ddl_is_known(rows: int) -> None:
    shop = Log()
    before = shop.add(("1", "a"))
    ddl = shop.change("ALTER TABLE log ADD COLUMN x INT DEFAULT 7")
    shop.send_ddl(ddl)
    table = shop.tables[SCHEMA, "log"]
    after = {"v": "1", "w": "a", "x": "7"}
    new = RowChange(op="insert", table=table, commit_ts=shop.tick(), before=None, after=after)
    gone = RowChange(op="delete", table=table, commit_ts=shop.tick(), before=after, after=None)
    shop.repeat(new, gone)
    shop.repeat(*shop.of(before)[:1])
    shop.send_ddl(ddl)
    shop.repeat(new, gone)
    shop.watermark()
    shop.run(rows)
    assert shop.rows("log") == [(1, "a", 7)]
    assert shop.condition("log") == "clean"


@PROTOCOLS
def test_a_transaction_that_may_be_there_twice_marks_the_table(protocol: str) -> None:
    shop = Log(protocol)
    ts = shop.add(("1", "a"), ("2", "b"))
    shop.repeat(*list(shop.sent))
    shop.add(("5", "e"), ("6", "f"), ("6", "f"))
    shop.watermark()
    shop.run()
    assert shop.rows("log") == [(1, "a"), (1, "a"), (2, "b"), (2, "b"), (5, "e"), (6, "f"), (6, "f")]
    assert shop.condition("log") == "diverged"
    assert f"2 transactions, the first at {ts}, have equal rows" in shop.status("log").detail


def test_a_table_without_a_key_is_right_wherever_the_job_was_killed() -> None:
    def begun() -> Shop:
        shop = Log()
        shop.add(("1", "a"), ("2", "b"), ("1", "a"))
        shop.add(("1", "a"))
        first = list(shop.sent)
        shop.do(("update", ("1", "a"), ("2", "b")), ("delete", ("2", "b"), None))
        shop.watermark()
        shop.repeat(*first)
        shop.do(("update", ("2", "b"), ("2", "c")))
        shop.sql("ALTER TABLE log ADD COLUMN x INT")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert shop.rows("log") == [(1, "a", None), (1, "a", None), (2, "c", None)]
        assert shop.condition("log") == "clean"

    assert after_every_death(begun, judge) >= 10


def late(**job: Any) -> Log:
    """A shop of which a row comes late."""
    shop = Log(**job)
    ts = shop.tick()
    shop.add(("1", "a"))
    shop.watermark()
    shop.run()
    change = RowChange(op="insert", table=shop.tables[SCHEMA, "log"], commit_ts=ts, before=None, after=_row(("1", "z")))
    shop.send_row(change, "other")
    shop.watermark()
    return shop


def test_late_rows_stop_the_job_or_mark_the_table() -> None:
    with pytest.raises(LateRow, match=r"`shop`\.`log`: 1 rows came after"):
        late().run()
    shop = late(late_rows="apply-if-newest")
    shop.add(("1", "a"))
    shop.watermark()
    shop.run()
    assert shop.rows("log") == [(1, "a"), (1, "a")]
    assert shop.condition("log") == "diverged"
    assert "1 late rows" in shop.status("log").detail
    assert "has no key" in shop.status("log").detail


def test_a_key_that_comes_and_goes_changes_how_rows_are_found() -> None:
    shop = Log("canal-json")
    shop.add(("1", "a"), ("2", "b"))
    shop.sql("ALTER TABLE log ADD PRIMARY KEY (v)")
    shop.do(("update", ("1", "a"), ("1", "b")), ("insert", None, ("3", "b")))
    shop.sql("ALTER TABLE log DROP PRIMARY KEY")
    shop.add(("3", "b"))
    shop.do(("delete", ("3", "b"), None), ("update", ("2", "b"), ("3", "b")))
    shop.watermark()
    shop.run()
    assert shop.rows("log") == [(1, "b"), (3, "b"), (3, "b")]
    assert shop.condition("log") == "clean"


def test_without_watermarks_the_rows_of_such_a_table_are_not_counted() -> None:
    shop = Log("canal-json", mode="arrival")
    shop.add(("1", "a"))
    with pytest.raises(DecisionNeeded, match="cannot be counted without watermarks"):
        shop.run()


@pytest.mark.parametrize("protocol", ["canal-json", "debezium"])
def test_an_update_without_old_values_is_no_row_that_can_be_counted(protocol: str) -> None:
    shop = Log(protocol)
    shop.add(("1", "a"))
    shop.watermark()
    shop.run()
    shop.do(("update", ("1", "a"), ("1", "b")))
    messages = shop.broker.topics["cdc"].partitions[0].messages
    value = msgspec.json.decode(messages[-1].value or b"")
    value.get("payload", value)["old" if protocol == "canal-json" else "before"] = None
    messages[-1] = msgspec.structs.replace(messages[-1], value=msgspec.json.encode(value))
    shop.watermark()
    with pytest.raises(RejectedMessage, match=r"needs the old values .*output-old-value"):
        shop.run()
    assert shop.rows("log") == [(1, "a")]


@pytest.mark.parametrize("protocol", ["open", "canal-json"])
def test_a_delete_without_all_columns_is_no_row_that_can_be_counted(protocol: str) -> None:
    shop = Log(protocol)
    shop.add(("1", "a"))
    table = shop.tables[SCHEMA, "log"]
    narrow = msgspec.structs.replace(table, columns=table.columns[:1])
    shop.send_row(RowChange(op="delete", table=narrow, commit_ts=shop.tick(), before={"v": "1"}, after=None))
    shop.watermark()
    with pytest.raises(RejectedMessage, match="delete-only-output-handle-key-columns"):
        shop.run()


def test_partitions_without_a_key_are_emptied_and_are_not_exchanged() -> None:
    shop = Log()
    parts = "(PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (9))"
    shop.sql(f"CREATE TABLE p (v INT) PARTITION BY RANGE (v) {parts}")
    shop.sql("CREATE TABLE o (v INT)")
    for value in ("1", "1", "7", "7"):
        row = RowChange(op="insert", table=shop.tables[SCHEMA, "p"], commit_ts=shop.tick(), after={"v": value})
        shop.send_row(row)
    table = shop.tables[SCHEMA, "p"]
    for query in ("ALTER TABLE p TRUNCATE PARTITION p1", "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE o"):
        shop.send_ddl(
            SchemaChange(
                commit_ts=shop.tick(), query=query, kind="ALTER", schema=SCHEMA, name="p", table=table, pre_table=table
            )
        )
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=r"`shop`\.`p` has no key"):
        shop.run()
    assert shop.rows("p") == [(1,), (1,)]


def test_a_table_whose_rows_were_skipped_before_lacks_them_and_says_so() -> None:
    shop = Log(no_key="skip")
    shop.add(("1", "a"))
    shop.watermark()
    shop.run()
    assert (shop.condition("log"), shop.rows("log")) == ("skipped", [])
    shop.configure(no_key="apply")
    shop.add(("2", "b"))
    shop.watermark()
    shop.run()
    assert (shop.condition("log"), shop.rows("log")) == ("diverged", [(2, "b")])
    assert 'before no-key = "apply"' in shop.status("log").detail


class LogFromBefore(Log):
    """``log`` has rows from before the changefeed, and a source of whole tables has them."""

    def __init__(self, mode: Literal["exact", "dump", "now"]) -> None:
        Shop.__init__(self, "simple", no_key="apply", snapshot=mode)
        self.sent, self.mode = [], mode
        self.change("CREATE TABLE log (v INT, w VARCHAR(9))")
        self.base = self.tick()
        first = self.of_source(("1", "a"), ("1", "a"), ("2", None))
        self.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        self.bootstrap("log")
        ts = self.do(("delete", ("1", "a"), None), ("insert", None, ("2", None)))
        later = self.of_source(("1", "a"), ("2", None), ("2", None))
        self.watermark()
        seen = SimpleNamespace(now=later, events=[SimpleNamespace(ts=self.base)], meanwhile=None, ts=0)
        seen.truth_at = lambda at: first if at < ts else later
        self.source = cast(Database, seen)

    def of_source(self, *rows: Any) -> dict[tuple[str, str], Live]:
        self.held |= {((SCHEMA, "log"), str(at)): _row(cells) or {} for at, cells in enumerate(rows)}
        return ShopTables(self).now

    def reader(self) -> DatabaseView:
        return DatabaseView(self.source, self.mode, self.base)

    def run(self, rows: int = 100_000, *, again: bool = False) -> None:
        super().run(rows, again=again)
        for _ in range(4):  # the read begins once the job has applied what the source has
            self.batch(rows)


@BATCHES
@pytest.mark.parametrize("mode", ["exact", "dump"])
def test_a_full_read_as_of_one_time_brings_each_row_once(mode: Literal["exact", "dump"], rows: int) -> None:
    shop = LogFromBefore(mode)
    shop.run(rows)
    shop.run(rows, again=True)
    assert shop.rows("log") == [(1, "a"), (2, None), (2, None)]
    assert shop.condition("log") == "clean"


def test_a_death_in_a_full_read_without_a_key_brings_each_row_once() -> None:
    def judge(shop: Shop) -> None:
        assert shop.rows("log") == [(1, "a"), (2, None), (2, None)]
        assert shop.condition("log") == "clean"

    assert after_every_death(lambda: LogFromBefore("exact"), judge, rows=3) > 20


def test_a_database_as_it_is_now_is_not_read_without_a_key() -> None:
    """The feed would bring a second time what came while it was read."""
    shop = LogFromBefore("now")
    shop.run()
    assert shop.rows("log") == [(2, None)]
    assert shop.condition("log") == "unverified"
