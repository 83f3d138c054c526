"""The state is lost, a topic is made anew, and the changefeed starts from an older start-ts: what it sends again."""

from __future__ import annotations

import pytest

from tests.unit.test_holes.changefeed import SCHEMA
from tests.unit.test_holes.shop import Shop
from ticdc_spark.errors import SourceChanged
from ticdc_spark.model import RowChange

BATCHES = pytest.mark.parametrize("rows", [1, 2, 3, 1000])
SPLIT = pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 8])
"""What comes first is read by an earlier batch than the end of what is sent again."""
Changes = tuple[RowChange, ...]


def before(*, topic_per_table: bool = False) -> tuple[Shop, int, Changes]:
    """Two tables; what they had applied when the state was lost; what was sent to the old topic and not read."""
    shop = Shop(topic_per_table=topic_per_table)
    for table in ("t", "u"):
        shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9))")
        shop.insert(table, id="1", v="a")
    shop.watermark()
    shop.run()
    old = shop.tick()
    again = shop.row("insert", (SCHEMA, "t"), {"id": "2", "v": "b"})
    shop.send_row(again)
    shop.watermark()
    shop.run()
    shop.watermark()
    shop.run()  # the stamps of tables have what was applied before
    shop.insert("t", id="3", v="c")
    shop.watermark()
    shop.run()
    shop.lose_state()
    return shop, old, (again, shop.row("insert", (SCHEMA, "t"), {"id": "4", "v": "d"}))


def sent_again(shop: Shop, topic: str, old: int, changes: Changes) -> None:
    """The changefeed starts from ``old`` on."""
    shop.send(shop.encoder.watermark(old), topic)
    shop.bootstrap("t")
    for change in changes:
        shop.send_row(change, topic)
    shop.watermark()


def newest(shop: Shop, topic: str) -> None:
    """What a changefeed sends that has been going on, and its watermark."""
    shop.watermark(topic)
    shop.bootstrap("t")
    shop.insert("t", id="9", v="z")
    shop.watermark()


@SPLIT
def test_what_is_sent_again_behind_a_higher_watermark_does_not_show_that_a_topic_reaches_back(rows: int) -> None:
    """Row 4 counts as a replay once the watermark before it was read: it was missing in a clean table."""
    shop, old, changes = before()
    shop.broker.create("cdc")
    newest(shop, "cdc")
    sent_again(shop, "cdc", old, changes)
    with pytest.raises(SourceChanged, match="no topic reaches back"):
        shop.run(rows)


@SPLIT
def test_the_same_of_a_partition_whose_first_messages_were_removed(rows: int) -> None:
    shop, old, changes = before()
    shop.send_row(changes[1])
    shop.broker.trim(("cdc", 0), shop.broker.end_offsets()["cdc", 0])
    newest(shop, "cdc")
    sent_again(shop, "cdc", old, changes)
    with pytest.raises(SourceChanged, match="its first messages were removed"):
        shop.run(rows)


@SPLIT
def test_the_same_of_the_topic_of_one_table_leaves_it_unverified(rows: int) -> None:
    shop, old, changes = before(topic_per_table=True)
    shop.broker.create("cdc_shop_t")
    newest(shop, "cdc_shop_t")
    sent_again(shop, "cdc_shop_t", old, changes)
    shop.run(rows)
    assert (shop.condition("t"), shop.condition("u")) == ("unverified", "clean")


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("topic_per_table", [False, True])
def test_what_one_batch_reads_again_is_applied(topic_per_table: bool, cut: bool) -> None:
    """Nothing of it counts as a replay but what was applied before the state was lost."""
    shop, old, changes = before(topic_per_table=topic_per_table)
    topic = "cdc_shop_t" if topic_per_table else "cdc"
    if cut:
        shop.broker.trim((topic, 0), shop.broker.end_offsets()[topic, 0])
    else:
        shop.broker.create(topic)
    newest(shop, topic)
    sent_again(shop, topic, old, changes)
    shop.run()
    assert shop.rows("t") == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (9, "z")]
    assert (shop.condition("t"), shop.condition("u")) == ("clean", "clean")


@BATCHES
@pytest.mark.parametrize("watermark", [False, True])
@pytest.mark.parametrize("topic_per_table", [False, True])
def test_a_changefeed_that_is_started_from_before_goes_on(topic_per_table: bool, watermark: bool, rows: int) -> None:
    """Without its first watermark, the rows that are sent again show how far back it begins."""
    shop, old, changes = before(topic_per_table=topic_per_table)
    topic = "cdc_shop_t" if topic_per_table else "cdc"
    shop.broker.create(topic)
    if watermark:
        shop.send(shop.encoder.watermark(old), topic)
    shop.bootstrap("t")
    shop.send_row(changes[0])
    shop.update("t", id="3", v="C")
    shop.send_row(changes[1])
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("t"), shop.condition("t")) == ([(1, "a"), (2, "b"), (3, "C"), (4, "d")], "clean")
    # Nothing shows that those of u come again, too, where they would have been in the same topic.
    assert shop.condition("u") == ("clean" if topic_per_table or watermark else "unverified")


@BATCHES
@pytest.mark.parametrize("topic_per_table", [False, True])
def test_a_changefeed_that_starts_again_in_a_whole_topic_goes_on(topic_per_table: bool, rows: int) -> None:
    shop, old, changes = before(topic_per_table=topic_per_table)
    newest(shop, "cdc_shop_t" if topic_per_table else "cdc")
    shop.send_row(changes[1])
    sent_again(shop, "cdc_shop_t" if topic_per_table else "cdc", old, changes)
    shop.run(rows)
    assert (shop.condition("t"), shop.condition("u")) == ("clean", "clean")


# ---- a job that begins behind messages that retention had removed


def cut(*, split: bool) -> Shop:
    """Two topics, of one of which the first messages are gone; then the changefeed starts again from before table ``t``
    was emptied. ``split``: its rows are sent when a batch has read that."""
    shop = Shop(topic_per_table=True)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    old = shop.tick()
    shop.sql("TRUNCATE TABLE t")
    row = shop.row("insert", (SCHEMA, "t"), {"id": "1"})
    shop.broker.add_partition("cdc_shop_t")
    for _ in range(2):
        shop.send(shop.encoder.watermark(shop.tick()), "cdc_shop_t", 1)
    shop.broker.trim(("cdc_shop_t", 1), 1)
    shop.send(shop.encoder.watermark(old), "cdc_shop_t", 1)
    if split:
        shop.watermark("cdc_shop_t")
        shop.run()
    (encoded,) = shop.encoder.rows([row])
    shop.send(encoded, "cdc_shop_t", 1)
    shop.watermark("cdc_shop_t", partitions=2)
    shop.run()
    return shop


@pytest.mark.parametrize("split", [False, True])
def test_a_table_that_is_emptied_while_a_partition_is_sent_again_is_clean_only_with_all_of_it(split: bool) -> None:
    shop = cut(split=split)
    assert (shop.rows("t"), shop.condition("t")) == (([], "unverified") if split else ([(1,)], "clean"))
