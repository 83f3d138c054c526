"""A job whose changefeed is replaced: the new one writes to a new topic, to more partitions, in another protocol, or to
the same topic. docs/how-to/moving-changefeed.md is the guide."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.wire import WIRES
from tests.support.changefeed import SCHEMA
from tests.support.moving_feed import MovingFeed
from tests.support.shop import Shop
from ticdc_spark.errors import LateRow, SourceChanged
from ticdc_spark.model import RowChange
from ticdc_spark.protocols.base import Encoded

PROTOCOLS = pytest.mark.parametrize("protocol", sorted(WIRES))


class Moving(MovingFeed, Shop):
    """Its job, and a broker in memory."""

    def __init__(self, protocol: str = "simple", **job: Any) -> None:
        super().__init__(protocol, topics=("old",), **job)
        self.broker.create("old", 2)
        self.make_tables()
        self.pass_on()

    def pass_on(self) -> None:
        """The watermark of the changefeed that sends now, and a job that reads it after a while."""
        self.send_watermark()
        self.run()
        self.clock.advance(3600.0)
        self.run()

    def create_changefeed(self, topic: str = "new", partitions: int = 3, protocol: str = "") -> None:
        if topic not in self.broker.topics:
            self.broker.create(topic, partitions)
        self.replace(topic, partitions, protocol)
        self.configure(protocol=self.wire.name)

    def judge(self, *tables: str) -> None:
        for table in tables:
            assert (self.rows(table), self.condition(table)) == (self.source(table), "clean"), table
            assert self.status(table).applied == self.applied
        assert self.lab.state.load().counters.late == 0


@pytest.mark.parametrize("to", sorted(WIRES))
@PROTOCOLS
def test_a_new_topic_alone_continues_the_tables_in_any_protocol_and_number_of_partitions(
    protocol: str, to: str
) -> None:
    shop = Moving(protocol)
    left = shop.changes()
    shop.send_all(left)  # above the last watermark: they wait, and the new changefeed sends them again
    shop.run()
    shop.create_changefeed(protocol=to)
    shop.configure(topics=("new",))
    shop.send_all(left)
    shop.send_all(shop.changes(20))
    shop.pass_on()
    shop.judge("t")
    assert (shop.rows("quiet"), shop.condition("quiet")) == (shop.source("quiet"), "unverified")
    shop.update("quiet", id="2", v="z")
    shop.pass_on()
    shop.judge("t", "quiet")


@PROTOCOLS
def test_with_both_topics_rows_that_are_sent_again_are_replays_and_quiet_tables_stay_clean(protocol: str) -> None:
    shop = Moving(protocol)
    applied = shop.changes()
    shop.send_all(applied)
    shop.pass_on()
    waiting = shop.changes(20)
    shop.send_all(waiting)
    shop.run()
    shop.create_changefeed()
    shop.configure(topics=("old", "new"))
    shop.send_all(applied)
    shop.send_all(waiting)
    shop.send_all(shop.changes(30))
    shop.pass_on()
    shop.judge("t", "quiet")
    assert shop.lab.state.load().counters.replays == len(applied)


@PROTOCOLS
def test_what_the_old_topic_still_has_is_not_lost_with_both_topics(protocol: str) -> None:
    shop = Moving(protocol)
    shop.send_all(shop.changes())
    shop.watermark("old", partitions=2)
    shop.create_changefeed()
    shop.configure(topics=("old", "new"))
    shop.send_all(shop.changes(20))
    shop.pass_on()
    shop.judge("t", "quiet")


@PROTOCOLS
def test_a_new_topic_alone_that_begins_too_early_stops_until_the_old_one_is_named_too(protocol: str) -> None:
    shop = Moving(protocol)
    again = shop.changes()
    shop.send_all(again)
    shop.pass_on()
    shop.create_changefeed()
    shop.configure(topics=("new",))
    shop.send_all(again)
    shop.send_all(shop.changes(20))
    with pytest.raises(LateRow, match="another changefeed"):
        shop.pass_on()
    shop.configure(topics=("old", "new"))
    shop.pass_on()
    shop.judge("t", "quiet")


@PROTOCOLS
@pytest.mark.parametrize("partitions", [2, 4])
def test_the_same_topic_goes_on_from_an_earlier_point_and_with_more_partitions(protocol: str, partitions: int) -> None:
    shop = Moving(protocol)
    applied = shop.changes()
    shop.send_all(applied)
    shop.pass_on()
    waiting = shop.changes(20)
    shop.send_all(waiting)
    shop.run()
    for _ in range(partitions - 2):
        shop.broker.add_partition("old")
    shop.create_changefeed("old", partitions)
    shop.send_all(applied)
    shop.send_all(waiting)
    shop.send_all(shop.changes(30))
    shop.pass_on()
    shop.judge("t", "quiet")


@PROTOCOLS
def test_a_ddl_in_a_new_topic_continues_a_quiet_table(protocol: str) -> None:
    """It stayed with its old rows until a row came."""
    shop = Moving(protocol)
    shop.create_changefeed()
    shop.configure(topics=("new",))
    shop.sql("TRUNCATE TABLE quiet")
    shop.pass_on()
    assert shop.source("quiet") == []
    shop.judge("quiet")


def quarantined(**job: object) -> Moving:
    """Rows of table ``t`` wait in the old topic, one of which cannot be read."""
    shop = Moving(on_reject="quarantine", **job)
    (encoded,) = shop.encoder.rows([shop.row("update", (SCHEMA, "t"), {"id": "2", "v": "b"})])
    assert encoded.value is not None
    shop.send(Encoded(encoded.key, encoded.value.replace(b'"id"', b'"ip"')), "old")
    shop.update("t", id="3", v="c")
    shop.update("quiet", id="3", v="c")
    shop.pass_on()
    assert (shop.condition("t"), shop.condition("quiet")) == ("quarantined", "clean")
    return shop


def test_a_table_never_goes_on_without_the_rows_that_waited_in_a_topic_that_is_left_out() -> None:
    """It went on with the rows of the new topic, and was clean without what had waited."""
    shop = quarantined(snapshot="now")
    shop.create_changefeed()
    shop.configure(topics=("new",))
    shop.resume("t")
    for number in ("10", "11"):
        shop.insert("t", id=number, v="d")
        shop.insert("quiet", id=number, v="d")
        shop.pass_on()
        assert shop.condition("t") == "unverified"
        assert "topic old, which it came from, is not read" in shop.status("t").detail
    shop.judge("quiet")
    shop.rebuild("t")
    for number in ("12", "13", "14", "15"):
        shop.insert("t", id=number, v="e")
        shop.pass_on()
    shop.judge("t", "quiet")


def test_a_changefeed_that_begins_behind_rows_that_waited_leaves_their_table_where_it_is() -> None:
    """As one created from the checkpoint of the old one: rows of just that commitTs are not sent again."""
    shop = Moving()
    waiting = shop.changes()
    shop.send_all(waiting)
    shop.run()
    before = shop.status("t").applied
    shop.create_changefeed()
    shop.configure(topics=("new",))
    shop.send_all(waiting[1:])
    shop.pass_on()
    assert (shop.condition("t"), shop.status("t").applied) == ("unverified", before)
    shop.configure(topics=("old", "new"))
    shop.pass_on()
    shop.judge("t", "quiet")


def test_the_topic_of_another_protocol_that_is_kept_with_waiting_rows_stops_the_job() -> None:
    shop = Moving()
    waiting = shop.changes()
    shop.send_all(waiting)
    shop.run()
    shop.create_changefeed(protocol="open")
    shop.configure(topics=("old", "new"))
    shop.send_all(waiting)
    with pytest.raises(SourceChanged):
        shop.pass_on()
    shop.configure(topics=("new",))
    shop.pass_on()
    shop.judge("t")


@pytest.mark.parametrize("partitions", [2, 3])
def test_rows_without_a_key_that_two_changefeeds_have_sent_mark_their_table(partitions: int) -> None:
    """They counted twice, and the table was clean."""
    shop = Moving(no_key="apply")
    shop.sql("CREATE TABLE log (id INT, v VARCHAR(9))")
    shop.watermark("old", partitions=2)
    rows = [
        RowChange(
            op="insert", table=shop.tables[SCHEMA, "log"], commit_ts=shop.tick(), after={"id": str(one), "v": "x"}
        )
        for one in (1, 2)
    ]
    shop.send_all(rows)
    shop.run()
    shop.create_changefeed(partitions=partitions)
    shop.configure(topics=("old", "new"))
    shop.send_all(rows)
    shop.pass_on()
    assert shop.condition("log") == "diverged"
    assert "in several partitions" in shop.status("log").detail
