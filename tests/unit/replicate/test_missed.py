"""Messages that are not read, of tables that have other names by the time they are made."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.shop import Shop
from ticdc_spark.config.values import MessagePlace
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.protocols.base import Encoded
from ticdc_spark.replicate.missed import mark_noted
from ticdc_spark.replicate.state.notes import MissedNote
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.table import create

CREATE = "CREATE TABLE t (id INT PRIMARY KEY)"


def renamed(shop: Shop, how: str) -> None:
    """Table ``t`` is ``u`` now, by RENAMEs that come after what was read."""
    names = ["t", "v", "u"] if how == "twice" else ["t", "u"]
    for old, new in pairwise(names):
        shop.sql(f"RENAME TABLE {old} TO {new}")
    if how == "with a successor":
        shop.sql(CREATE)
    shop.watermark()
    shop.run()


RENAMED = pytest.mark.parametrize("how", ["once", "twice", "with a successor"])


@RENAMED
@pytest.mark.parametrize(("policy", "condition"), [("continue", "diverged"), ("quarantine", "quarantined")])
@pytest.mark.parametrize("topic_per_table", [False, True])
def test_an_unreadable_message_marks_a_table_that_the_same_batch_makes_and_renames(
    topic_per_table: bool, policy: str, condition: str, how: str
) -> None:
    """Seed 7408329: after the batch nothing had the name of which the message may have been."""
    shop = Shop(on_reject=policy, topic_per_table=topic_per_table)
    shop.sql(CREATE)
    shop.insert("t", id="1")
    shop.send(Encoded(None, b"{"), "cdc_shop_t" if topic_per_table else "cdc")
    shop.run()
    renamed(shop, how)
    assert shop.condition("u") == condition


@pytest.mark.parametrize("policy", ["continue", "quarantine"])
def test_an_insert_after_an_unreadable_delete_replaces_the_row_under_the_tables_next_name(policy: str) -> None:
    """Seed 8423013: the key was taken for a new one, as the message had been noted for the former name."""
    shop = Shop(on_reject=policy)
    shop.sql(CREATE)
    shop.insert("t", id="1")
    shop.send(Encoded(None, b"{"), "cdc")
    shop.run()
    shop.sql("RENAME TABLE t TO u")
    shop.insert("u", id="1")
    shop.watermark()
    shop.run()
    assert shop.rows("u") == [(1,)]


def test_an_unreadable_message_of_a_tables_old_topic_marks_it_though_the_batch_empties_it() -> None:
    """Topics have no order among each other: it may be newer than the TRUNCATE."""
    shop = Shop(on_reject="continue", topic_per_table=True)
    shop.sql(CREATE)
    shop.sql("RENAME TABLE t TO u")
    shop.watermark()
    shop.run()
    assert shop.condition("u") == "clean"
    shop.send(Encoded(None, b"{"), "cdc_shop_t")
    shop.sql("TRUNCATE TABLE u")
    shop.watermark()
    shop.run()
    assert shop.condition("u") == "diverged"


@RENAMED
def test_a_row_that_is_skipped_marks_a_table_that_a_later_batch_makes_and_renames(how: str) -> None:
    shop = Shop()
    shop.sql(CREATE)
    shop.configure(skip_messages=(MessagePlace("cdc", 0, shop.broker.end_offsets()["cdc", 0]),))
    shop.insert("t", id="1")
    shop.run()
    renamed(shop, how)
    assert (shop.rows("u"), shop.condition("u")) == ([], "diverged")
    if how == "with a successor":
        assert shop.condition("t") == "clean"


@pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
def test_a_rename_that_is_skipped_marks_the_table_that_it_renames(protocol: str) -> None:
    """Most messages of a RENAME name the table as it is after it, and only their SQL names it as it was."""
    shop = Shop(protocol)
    shop.sql(CREATE)
    shop.watermark()
    shop.run()
    shop.configure(skip_messages=(MessagePlace("cdc", 0, shop.broker.end_offsets()["cdc", 0]),))
    shop.sql("RENAME TABLE t TO u")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([], "diverged")


def test_a_row_that_is_skipped_marks_no_table_that_had_its_name_before() -> None:
    shop = Shop()
    shop.sql(CREATE)
    shop.sql("RENAME TABLE t TO u")
    shop.sql(CREATE)
    shop.configure(skip_messages=(MessagePlace("cdc", 0, shop.broker.end_offsets()["cdc", 0]),))
    shop.insert("t", id="1")
    shop.run()
    shop.watermark()
    shop.run()
    assert (shop.condition("u"), shop.condition("t")) == ("clean", "diverged")


@pytest.mark.parametrize(("policy", "condition"), [("continue", "diverged"), ("quarantine", "quarantined")])
def test_an_unreadable_message_marks_a_table_that_is_made_only_once_its_topic_goes_on(
    policy: str, condition: str
) -> None:
    """Seed 8458498: the topic is read late, and the message was forgotten before the CREATE was due."""
    shop = Shop(on_reject=policy, topic_per_table=True, topics=("cdc",))
    shop.sql(CREATE)
    shop.watermark("cdc")
    shop.run()
    shop.configure(topics=None)
    shop.send(Encoded(None, b"{"), "cdc_shop_t")
    shop.watermark("cdc")
    shop.run()
    assert shop.rows("t") is None
    shop.watermark()
    shop.run()
    assert shop.condition("t") == condition


def test_a_table_that_is_read_in_full_is_not_marked_for_a_message_before_it() -> None:
    """A RENAME to its name waits for a quarantined table, which the read takes along."""
    shop = Shop(on_reject="quarantine", topic_per_table=True, snapshot=True)
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.insert("a", id="1")
    shop.watermark()
    shop.run()
    shop.send(Encoded(None, b"{"), "cdc_shop_a")
    shop.watermark()
    shop.run()
    shop.sql("RENAME TABLE a TO b")
    shop.insert("b", id="2")
    shop.watermark()
    shop.run()
    for _ in range(3):
        shop.send(Encoded(None, b"{"), "cdc_shop_b")
        shop.watermark()
        shop.run()
    assert shop.steps is not None
    assert [(note.name, note.quarantine) for note in shop.steps.progress.missed] == [("b", True)], "one for all"
    shop.rebuild("b")
    for at in range(4):
        shop.insert("b", id=str(10 + at))
        shop.watermark()
        shop.run()
    shop.watermark()
    shop.run()
    assert shop.condition("b") == "clean"
    assert shop.rows("b") == [(1,), (10,), (11,), (12,), (13,), (2,)]
    assert shop.rows("a") is None


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize(("policy", "condition"), [("continue", "diverged"), ("quarantine", "quarantined")])
def test_an_unreadable_message_of_the_default_topic_may_be_the_drop_of_a_database(
    policy: str, condition: str, skips: bool
) -> None:
    """Seed 9020774: tables have topics of their own, and none was known by the topic of the message."""
    shop = Shop(on_reject=policy, topic_per_table=True, tables=("shop.*", "!shop.other"))
    shop.sql(CREATE)
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.insert("other", id="1")
    shop.watermark("cdc", "cdc_shop_t", "cdc_shop_other")
    shop.run()
    shop.send(Encoded(None, b"{"), "cdc_shop_other")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "clean", "a table that `tables` leaves out"
    if skips:
        offset = shop.broker.topics["cdc"].partitions[0].end
        shop.configure(skip_messages=(MessagePlace("cdc", 0, offset),))
    shop.send(Encoded(None, b"{"), "cdc")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == ("diverged" if skips else condition)


@pytest.mark.parametrize("batches", [1, 2])
def test_a_message_of_a_topic_is_missed_by_the_table_that_took_the_name_of_one_of_its_tables(batches: int) -> None:
    """Seed 3019497: the topic is known by the table that had the name before, and nothing of the other one was read."""
    shop = Shop("open", on_reject="quarantine", topic_per_table=True)
    for name in ("a", "b"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    shop.sql("RENAME TABLE a TO c")
    shop.watermark()
    shop.run()
    shop.sql("RENAME TABLE b TO a")
    shop.watermark()
    if batches == 2:
        shop.run()
    shop.send(Encoded(None, b"no message"), "cdc_shop_a")
    shop.watermark()
    shop.run()
    assert shop.condition("a") == "quarantined"


@pytest.mark.parametrize(("made", "condition"), [(50, "diverged"), (70, "clean")])
def test_a_table_that_a_dump_let_wait_lacks_what_was_excluded_behind_its_create(made: int, condition: str) -> None:
    """Seed 3053120: the CREATE TABLE was read before the table was excluded, and waited for the full read of the older
    table of its name."""
    table = Table(schema="s", name="t", columns=(Column(name="id", type=ColumnType(name="int")),))
    note = MissedNote(schema="s", name="t", kind="excluded", until=60, why="excluded")
    progress = Progress(job="j", mode="watermark", applied=100, missed=(note,))
    states = {("s", "t"): create(table, made, (), certain=True)}
    marked, _ = mark_noted(states, progress, 100, (), from_dump=True)
    assert marked["s", "t"].has_diverged == (condition == "diverged")
