"""Where a job begins to read, and a topic that is not the one that was read."""

from __future__ import annotations

import pytest

from tests.simulator.faults import Fault
from tests.support.shop import Shop
from ticdc_spark.errors import SourceChanged

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"


def begun(**keys: object) -> Shop:
    shop = Shop(**keys)  # type: ignore[arg-type]
    shop.sql(CREATE)
    shop.insert("t", id="1", v="a")
    shop.watermark()
    return shop


@pytest.mark.parametrize("restart", [False, True])
def test_a_job_that_starts_at_the_latest_offsets_reads_what_comes_after_its_start(restart: bool) -> None:
    shop = begun(starting="latest")
    shop.batch()
    assert shop.rows("t") is None
    for id_ in ("2", "3"):
        if restart:
            shop.stop()
        shop.bootstrap("t")
        shop.insert("t", id=id_, v="b")
        shop.watermark()
        shop.batch()
    assert shop.rows("t") == [(2, "b"), (3, "b")]
    assert shop.condition("t") == "unverified"


def test_a_job_killed_at_its_first_start_from_the_latest_offsets_begins_once() -> None:
    """The offsets that were chosen are kept, also across a death before the first batch is done."""
    shop = begun(starting="latest")
    shop.dies("save the progress", after=True)
    shop.bootstrap("t")
    shop.insert("t", id="2", v="b")
    shop.watermark()
    shop.dies("create shop.t")
    shop.insert("t", id="3", v="c")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(2, "b"), (3, "c")]


def test_a_partition_that_comes_after_a_start_at_the_latest_offsets_is_read_from_its_first_message() -> None:
    """Nothing of a new partition is older than the job."""
    shop = begun(starting="latest")
    shop.batch()
    shop.broker.add_partition("cdc")
    shop.send(shop.encoder.bootstrap(shop.tables["shop", "t"]), "cdc", 1)
    change = shop.row("insert", ("shop", "t"), {"id": "2", "v": "b"})
    shop.send(next(iter(shop.encoder.rows([change]))), "cdc", 1)
    ts = shop.watermark()
    shop.send(shop.encoder.watermark(ts), "cdc", 1)
    shop.run()
    assert shop.rows("t") == [(2, "b")]


@pytest.mark.parametrize("starting", ["earliest", "latest"])
@pytest.mark.parametrize("partition", [0, 1])
def test_retention_that_removes_unread_messages_stops_the_job(starting: str, partition: int) -> None:
    """Also in a partition that was at offset 0 when the job began."""
    shop = begun(starting=starting)
    shop.broker.add_partition("cdc")
    shop.run()
    for at in (0, 1):
        for id_ in ("4", "5", "6"):
            change = shop.row("insert", ("shop", "t"), {"id": f"{at}{id_}", "v": "x"})
            shop.send(next(iter(shop.encoder.rows([change]))), "cdc", at)
    end = shop.broker.end_offsets()["cdc", partition]
    shop.broker.trim(("cdc", partition), end - 1)
    with pytest.raises(SourceChanged, match=f"partition {partition} begins at offset .* removed before they were read"):
        shop.run()
    with pytest.raises(SourceChanged, match="this job has lost their changes"):
        shop.run(again=True)


def test_retention_of_what_was_read_is_no_matter() -> None:
    """Its adversary; a job that has read everything goes on."""
    shop = begun()
    shop.run()
    shop.broker.trim(("cdc", 0), shop.broker.end_offsets()["cdc", 0])
    shop.insert("t", id="2", v="b")
    shop.watermark()
    shop.run(again=True)
    assert shop.rows("t") == [(1, "a"), (2, "b")]
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize("messages", [0, 1, 3, 20])
@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_was_deleted_and_created_again_stops_the_job(messages: int, again: bool) -> None:
    """Whether it has fewer messages than were read, as many, or more."""
    shop = begun()
    shop.run()
    shop.broker.create("cdc")
    for number in range(messages):
        shop.insert("t", id=str(100 + number), v="new")
    with pytest.raises(SourceChanged, match="a new job"):
        shop.run(again=again)
    assert shop.rows("t") == [(1, "a")]


def test_a_topic_that_is_restored_to_an_older_state_stops_the_job() -> None:
    """Its id is the same, and its end lies below the committed offset."""
    shop = begun()
    shop.run()
    del shop.broker.topics["cdc"].partitions[0].messages[-1:]
    with pytest.raises(SourceChanged, match="ends at offset 2, and was read up to 3"):
        shop.run()


def two_topics(**keys: object) -> Shop:
    """Two tables with topics of their own, beside the default topic."""
    shop = Shop(topic_per_table=True, **keys)  # type: ignore[arg-type]
    shop.broker.create("cdc")
    for name in ("t", "u"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        shop.insert(name, id="1")
    shop.watermark()
    shop.run()
    return shop


def test_a_topic_that_is_gone_stops_the_job() -> None:
    shop = two_topics()
    shop.broker.delete("cdc_shop_t")
    with pytest.raises(SourceChanged, match=r"cdc_shop_t, partition 0 is not there any more.*take it out of `topics`"):
        shop.run(again=True)


@pytest.mark.parametrize("how", ["apply", "keep"])
@pytest.mark.parametrize("applied", [True, False])
def test_the_topic_of_a_dropped_table_may_be_deleted(how: str, applied: bool) -> None:
    shop = two_topics(drop_table=how)
    shop.sql("DROP TABLE t")
    if applied:
        shop.watermark()
    shop.run()
    shop.broker.delete("cdc_shop_t")
    for again in (True, False):
        shop.insert("u", id=f"{2 + again}")
        shop.watermark()
        shop.run(again=again)
    assert shop.rows("u") == [(1,), (2,), (3,)]
    assert shop.condition("u") == "clean"
    assert (shop.rows("t") is None) == (how == "apply")


def test_a_topic_of_dropped_tables_must_be_there_while_messages_of_it_are_unread() -> None:
    shop = two_topics()
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    shop.insert("u", id="2")
    shop.watermark()
    made = shop.change("CREATE TABLE x (id INT PRIMARY KEY)")
    shop.send_ddl(made, "cdc_shop_t")
    shop.batch(rows=2)  # sees where the topics end, and reads a part of each
    shop.broker.delete("cdc_shop_t")
    with pytest.raises(SourceChanged, match="cdc_shop_t, partition 0 is not there any more"):
        shop.run()


def test_the_topic_of_a_table_whose_name_is_taken_again_must_be_there() -> None:
    shop = two_topics()
    shop.sql("DROP TABLE t")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.run()
    shop.broker.delete("cdc_shop_t")
    with pytest.raises(SourceChanged, match="cdc_shop_t, partition 0 is not there any more"):
        shop.run(again=True)


def test_the_topic_of_a_dropped_table_is_read_from_its_beginning_once_it_is_there_again() -> None:
    shop = two_topics()
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    shop.broker.delete("cdc_shop_t")
    shop.insert("u", id="2")
    shop.watermark()
    shop.run()
    shop.broker.create("cdc_shop_t")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="5", v="6")
    shop.watermark()
    shop.run(again=True)
    assert shop.rows("t") == [(5, 6)]
    assert shop.condition("t") == "clean"


def test_the_last_topic_without_tables_must_be_there() -> None:
    """The default topic holds the DDL of databases."""
    shop = two_topics()
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    shop.broker.delete("cdc")
    with pytest.raises(SourceChanged, match="topic cdc, partition 0 is not there any more"):
        shop.run(again=True)


@pytest.mark.parametrize("deleted", [True, False])
def test_a_topic_that_the_job_file_names_no_more_leaves_its_tables_where_they_are(deleted: bool) -> None:
    shop = two_topics()
    shop.configure(topics=("cdc", "cdc_shop_u"))
    at = shop.status("t").applied
    shop.insert("t", id="2")
    if deleted:
        shop.broker.delete("cdc_shop_t")
    shop.insert("u", id="2")
    shop.watermark()
    shop.run(again=True)
    shop.watermark()
    shop.run()
    assert shop.rows("u") == [(1,), (2,)]
    assert shop.condition("u") == "clean"
    assert (shop.status("t").applied, shop.condition("t")) == (at, "unverified")


def test_a_topic_that_the_job_file_names_again_brings_its_tables_up_to_date() -> None:
    shop = two_topics()
    shop.configure(topics=("cdc", "cdc_shop_u"))
    shop.insert("t", id="2")
    shop.insert("u", id="2")
    shop.watermark()
    shop.run(again=True)
    assert shop.rows("t") == [(1,)]
    shop.configure(topics=None)
    shop.insert("t", id="3")
    shop.watermark()
    shop.run(again=True)
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1,), (2,), (3,)]
    assert shop.condition("t") == "clean"


def test_a_death_after_the_topic_of_a_dropped_table_was_deleted_changes_nothing() -> None:
    shop = two_topics()
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    shop.insert("u", id="2")
    shop.watermark()
    shop.dies("apply rows")
    shop.broker.delete("cdc_shop_t")  # the interrupted batch reads a watermark of it
    shop.run()
    assert shop.rows("u") == [(1,), (2,)]
    assert shop.condition("u") == "clean"


def test_a_topic_created_again_between_a_death_and_the_restart_stops_the_job() -> None:
    """The plan of the interrupted batch names offsets that now hold other messages."""
    shop = begun()
    shop.run()
    shop.insert("t", id="2", v="b")
    shop.watermark()
    shop.dies("apply rows")
    shop.broker.create("cdc")
    for number in range(20):
        shop.insert("t", id=str(100 + number), v="new")
    with pytest.raises(SourceChanged, match="the id of topic cdc"):
        shop.run()


@pytest.mark.parametrize("messages", [0, 1, 20])
def test_a_topic_created_again_after_a_death_within_the_first_batch_stops_the_job(messages: int) -> None:
    """Seed 9032522: the batch was decided, and its end offset fixed; messages of the new topic up to there would count
    as read once they come, and what the old topic had may be in tables already."""
    shop = begun()
    shop.dies("apply rows")
    shop.broker.create("cdc")
    shop.bootstrap("t")
    for number in range(messages):
        shop.insert("t", id=str(100 + number), v="new")
    shop.watermark()
    with pytest.raises(SourceChanged, match="the id of topic cdc was 1 and is 2"):
        shop.run()


@pytest.mark.parametrize("messages", [0, 20])
def test_a_new_topic_created_again_after_a_death_within_its_first_batch_stops_the_job(messages: int) -> None:
    shop = begun(topic_per_table=True)
    shop.run()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.insert("u", id="1")
    shop.watermark()
    shop.dies("apply rows")
    shop.broker.create("cdc_shop_u")
    shop.bootstrap("u")
    for number in range(messages):
        shop.insert("u", id=str(100 + number))
    shop.watermark()
    with pytest.raises(SourceChanged, match=r"the id of topic cdc_shop_u was \d and is"):
        shop.run()


def test_a_topic_restored_to_an_older_state_after_a_death_within_the_first_batch_stops_the_job() -> None:
    """Its id is the same, and it ends before the end offset that was fixed."""
    shop = begun()
    shop.dies("apply rows")
    del shop.broker.topics["cdc"].partitions[0].messages[-1:]
    with pytest.raises(SourceChanged, match="ends at offset 2, and batch 1, which was begun before a restart, reads"):
        shop.run()
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, "a")]


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_a_new_partition_that_lost_messages_after_a_death_within_its_first_batch_stops_the_job(removed: int) -> None:
    """Its rows may be in some tables, and not in others."""
    shop = begun()
    shop.run()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.broker.add_partition("cdc")
    for table, cells in (("t", {"id": "2", "v": "b"}), ("u", {"id": "2"}), ("u", {"id": "3"})):
        change = shop.row("insert", ("shop", table), cells)
        shop.send(next(iter(shop.encoder.rows([change]))), "cdc", 1)
    shop.send(shop.encoder.watermark(shop.watermark()), "cdc", 1)
    shop.dies("apply rows of shop.u")
    shop.broker.trim(("cdc", 1), removed)
    if removed:
        with pytest.raises(SourceChanged, match=f"begins at offset {removed}, and batch 2, .* reads it from 0 on"):
            shop.run()
    else:
        shop.run()
        assert shop.rows("u") == [(2,), (3,)]


@pytest.mark.parametrize("made_again", [False, True])
def test_a_topic_that_was_left_out_and_made_again_stops_the_job(made_again: bool) -> None:
    shop = two_topics()
    shop.run()
    shop.configure(topics=("cdc", "cdc_shop_u"))
    shop.insert("t", id="2")
    shop.insert("u", id="2")
    shop.watermark()
    shop.run(again=True)
    if made_again:
        shop.broker.create("cdc_shop_t")
    shop.insert("u", id="3")
    shop.watermark()
    shop.run(again=True)  # The id is known however long the topic is left out.
    shop.configure(topics=None)
    shop.insert("t", id="3")
    shop.watermark()
    if made_again:
        with pytest.raises(SourceChanged, match="the id of topic cdc_shop_t was"):
            shop.run(again=True)
        shop.configure(topics=("cdc", "cdc_shop_u"))
    shop.run(again=True)
    assert shop.rows("t") == ([(1,)] if made_again else [(1,), (2,), (3,)])
    assert shop.condition("t") == ("unverified" if made_again else "clean")
    assert (shop.rows("u"), shop.condition("u")) == ([(1,), (2,), (3,)], "clean")


def test_a_topic_with_a_create_that_waits_is_made_again_while_it_is_left_out() -> None:
    shop = Shop("open", topic_per_table=True)
    shop.watermark()  # the default topic
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.batch()
    assert shop.rows("t") is None
    shop.broker.create("cdc_shop_t")
    shop.configure(topics=("cdc",))
    shop.run()
    shop.configure(topics=None)
    shop.watermark("cdc", "cdc_shop_t")
    with pytest.raises(SourceChanged, match="the id of topic cdc_shop_t was"):
        shop.run()


def killed_while_it_reads_a_new_topic(at: int, *, first: bool) -> Shop | None:
    """``first``: in its first batch. Returns: ``None`` where the batch has no such durable action"""
    shop = Shop(topic_per_table=True)
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.insert("a", id="1")
    shop.watermark()
    if not first:
        shop.run()
    shop.sql("CREATE TABLE b (id INT PRIMARY KEY)")
    shop.insert("b", id="1")
    shop.watermark()
    return shop if shop.dies_at(Fault(at=at, kind="die_after")) else None


@pytest.mark.parametrize("deleted", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_a_topic_that_an_interrupted_batch_was_the_first_to_read_can_be_left_out(first: bool, deleted: bool) -> None:
    at = -1
    while (shop := killed_while_it_reads_a_new_topic(at := at + 1, first=first)) is not None:
        if deleted:
            shop.broker.delete("cdc_shop_b")
        shop.configure(topics=("cdc_shop_a",))
        shop.insert("a", id="2")
        shop.watermark()
        shop.run(again=True)
        assert (shop.rows("a"), shop.condition("a")) == ([(1,), (2,)], "clean")
        if not deleted:
            shop.configure(topics=None)
            shop.insert("b", id="2")
            shop.watermark()
            shop.run()
            assert shop.rows("b") == [(1,), (2,)]
    assert at > 3


def killed_while_it_makes_a_late_table(at: int) -> Shop | None:
    """Returns: ``None`` where the batch has no such durable action"""
    shop = Shop("debezium")
    late = shop.change("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.watermark("cdc")
    shop.send_ddl(late)
    shop.sql("CREATE TABLE b (id INT PRIMARY KEY)")
    for table in "ab":
        shop.insert(table, id="1")
    shop.watermark()
    return shop if shop.dies_at(Fault(at=at, kind="die_after")) else None


def test_a_partition_that_comes_while_the_job_is_down_does_not_hold_tables_of_the_batch_under_way() -> None:
    at = -1
    while (shop := killed_while_it_makes_a_late_table(at := at + 1)) is not None:
        shop.broker.add_partition("cdc")
        shop.run(again=True)
        shop.watermark(partitions=2)
        shop.run()
        assert [(shop.rows(table), shop.condition(table)) for table in "ab"] == [([(1,)], "clean")] * 2
    assert at > 3
