"""What a job reads, keeps and writes is bounded: by what comes, not by what waits nor by how many tables there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from tests.memory_sink.raw import RawRow
from tests.memory_sink.rows import MemoryRows
from tests.support.shop import Shop
from ticdc_spark.changes.ranges import RowScan, stretches
from ticdc_spark.changes.scan import ScanPlan
from ticdc_spark.model import Offsets
from ticdc_spark.replicate.plan.offsets import WAITING_BATCHES
from ticdc_spark.replicate.plan.pending import MOST_STRETCHES
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.spark.decode.control import ControlEvent

BATCH = 100


class Counted(MemoryRows):
    """Counts the messages that a job reads."""

    scanned = 0
    """When they come."""
    read = 0
    """When their rows are applied: those of all stretches that a step asks for."""
    together = 0
    """The most rows that one step has asked for."""

    def scan(self, plan: ScanPlan, starts: Offsets, end_offsets: Offsets, count: int) -> list[ControlEvent]:
        Counted.scanned += count
        return super().scan(plan, starts, end_offsets, count)

    def rows(self, wanted: RowScan) -> list[RawRow]:
        found = super().rows(wanted)
        Counted.read += sum(end - first for _, first, end in stretches(wanted.ranges))
        Counted.together = max(Counted.together, len(found))
        return found


class CountedShop(Shop):
    """A shop whose job counts what it reads."""

    make_rows = Counted

    def messages(self) -> int:
        """How many messages were sent."""
        return sum(self.broker.end_offsets().values())

    @property
    def progress(self) -> Progress:
        assert self.steps is not None
        return self.steps.progress

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count from here on."""
        Counted.scanned = Counted.read = Counted.together = 0
        yield

    def send_rows(self, table: str, first: int, count: int, *, partition: int = 0, ts: int | None = None) -> None:
        """Insert rows, in a transaction of their own each, or all in one."""
        for number in range(first, first + count):
            change = self.row("insert", ("shop", table), {"id": str(number), "v": "x"})
            (encoded,) = self.encoder.rows([change if ts is None else msgspec.structs.replace(change, commit_ts=ts)])
            self.send(encoded, "cdc", partition)


def most_waiting(progress: Progress) -> int:
    return sum(rows.waiting for rows in progress.pending)


def test_a_partition_that_is_behind_bounds_how_far_the_others_are_read_ahead() -> None:
    shop = CountedShop("open")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.broker.add_partition("cdc")
    for moment in range(40):
        shop.send_rows("t", moment * 220, 20, partition=0)
        shop.send_rows("t", moment * 220 + 20, 200, partition=1)
        watermark = shop.tick()
        for partition in (0, 1):
            shop.send(shop.encoder.watermark(watermark), "cdc", partition)
    most = 0
    with shop.counted():
        while len(shop.rows("t") or []) < 40 * 220:
            shop.batch(BATCH)
            most = max(most, most_waiting(shop.progress))
    assert most <= (WAITING_BATCHES + 1) * BATCH + 200
    assert Counted.scanned == shop.messages()
    assert Counted.read <= 2 * shop.messages()


def test_a_partition_without_watermarks_for_long_leaves_a_small_state_and_nothing_is_scanned_twice() -> None:
    shop = CountedShop("open")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.broker.add_partition("cdc")
    watermarks = []
    for moment in range(40):
        shop.send_rows("t", moment * 50, 50, partition=0)
        watermarks.append(shop.tick())
        shop.send(shop.encoder.watermark(watermarks[-1]), "cdc", 0)
    most = 0
    with shop.counted():
        for watermark in [0, *watermarks]:
            if watermark:
                shop.send(shop.encoder.watermark(watermark), "cdc", 1)
            for _ in range(3):
                shop.batch(BATCH)
                most = max(most, len(shop.progress.pending))
        shop.run(BATCH)
    assert len(shop.rows("t") or []) == 40 * 50
    assert most <= MOST_STRETCHES
    assert Counted.scanned == shop.messages()
    assert Counted.read <= 4 * shop.messages()


def test_a_large_transaction_is_scanned_once_and_its_rows_are_read_once() -> None:
    shop = CountedShop("open")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.watermark()
    shop.run()
    ts, rows = shop.tick(), 200 * BATCH
    shop.send_rows("t", 0, rows, ts=ts)
    with shop.counted():
        kept = 0
        while shop.progress.partitions[0].offset < shop.messages():
            shop.batch(BATCH)
            kept = max(kept, len(shop.progress.pending))
        assert shop.rows("t") == []
        shop.watermark()
        shop.run(BATCH)
    assert len(shop.rows("t") or []) == rows
    assert kept <= MOST_STRETCHES
    assert Counted.scanned <= rows + 2
    assert Counted.read <= rows + 2


def test_tables_that_wait_cost_no_reads_and_no_state_of_the_batches_of_others() -> None:
    shop = CountedShop("simple", on_reject="quarantine")
    tables = [f"t{number}" for number in range(200)]
    for table in tables:
        shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9))")
    for table in tables[:50]:
        change = shop.row("insert", ("shop", table), {"id": "1", "v": "x"})
        (encoded,) = shop.encoder.rows([change])
        assert encoded.value is not None
        shop.send(msgspec.structs.replace(encoded, value=encoded.value.replace(b'"id":"1"', b'"id":"?"')), "cdc")
    shop.watermark()
    shop.run()
    assert {shop.condition(table) for table in tables[:50]} == {"quarantined"}
    sizes = []
    for turn in range(20):
        for table in tables[:50]:  # what waits grows
            shop.send_rows(table, 10 + turn, 1)
        shop.send_rows(tables[-1], turn, 1)
        shop.watermark()
        with shop.counted():
            before = dict(shop.lab.state.states.load().parts)
            shop.run()
            after = shop.lab.state.states.load().parts
        assert Counted.read <= 60
        changed = [name for name, rows in after.items() if before.get(name) != rows]
        sizes.append(sum(len(row.value) for name in changed for row in after[name]))
    assert len(shop.rows(tables[-1]) or []) == 20
    assert max(sizes[10:]) < 2 * max(sizes[:10])
