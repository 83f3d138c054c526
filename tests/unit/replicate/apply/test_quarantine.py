"""A quarantined table and a RENAME."""

from __future__ import annotations

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from ticdc_spark.model import RowChange
from ticdc_spark.protocols.base import Encoded

BATCHES = pytest.mark.parametrize("rows", [1, 3, 1000])


def bad_row(shop: Shop, table: str, id_: str) -> None:
    """A row whose time is none."""
    change = shop.row("insert", (SCHEMA, table), {"id": id_, "at": "2024-01-01 00:00:00"})
    (encoded,) = shop.encoder.rows([change])
    assert encoded.value is not None
    shop.send(Encoded(encoded.key, encoded.value.replace(b"2024-01-01 00:00:00", b"20x4-not-a-time!!!!"), 1), "cdc")


def made(*tables: str) -> Shop:
    shop = Shop(on_reject="quarantine")
    for table in tables:
        shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, at DATETIME)")
        shop.insert(table, id="1")
        shop.insert(table, id="2")
    shop.watermark()
    shop.run()
    return shop


@pytest.mark.parametrize("resumed", [[[]], [["t"], ["u"]], [["u"], ["t"]]], ids=["all", "old first", "new first"])
@BATCHES
def test_a_quarantined_table_keeps_its_rows_through_a_rename_until_it_is_resumed(
    rows: int, resumed: list[list[str]]
) -> None:
    """The old name is quarantined."""
    shop = made("t", "other")
    bad_row(shop, "t", "3")
    shop.sql("RENAME TABLE t TO u")
    shop.insert("u", id="4")
    shop.insert("other", id="4")
    shop.watermark()
    shop.run(rows)
    assert shop.rows("t") == [(1, None), (2, None)]
    assert shop.rows("u") is None
    assert shop.condition("t") == "quarantined"
    assert shop.rows("other") == [(1, None), (2, None), (4, None)]
    assert shop.condition("other") == "clean"

    shop.configure(on_reject="continue")
    for names in resumed:
        shop.resume(*names)
        shop.insert("u", id="5" if names == resumed[0] else "6")
        shop.watermark()
        shop.run(rows)
        if shop.rows("u") is None:
            assert "quarantined" in (shop.condition("t"), shop.condition("u"))
    assert shop.rows("t") is None
    assert shop.rows("u") == [(1, None), (2, None), (4, None), (5, None), (6, None)][: 3 + len(resumed)]
    assert shop.condition("u") == "diverged"
    assert "cannot be read" in shop.status("u").detail


@BATCHES
def test_a_rename_onto_the_name_of_a_quarantined_table_loses_neither(rows: int) -> None:
    """The new name is quarantined."""
    shop = made("t", "u")
    bad_row(shop, "u", "3")
    shop.sql("DROP TABLE u")
    shop.sql("RENAME TABLE t TO u")
    shop.insert("u", id="4")
    shop.watermark()
    shop.run(rows)
    if shop.condition("u") == "quarantined":  # not where the DROP makes the bad row needless
        assert shop.rows("t") == [(1, None), (2, None)]
        assert shop.rows("u") == [(1, None), (2, None)]
        shop.configure(on_reject="continue")
        shop.resume("u")
        shop.run(rows, again=True)
    assert shop.rows("t") is None
    assert shop.rows("u") == [(1, None), (2, None), (4, None)]


def test_a_kept_table_whose_name_waits_for_a_quarantined_one_says_so() -> None:
    """Harder seed 12399: it looked as if the source had no table of that name."""
    shop = made("t", "u")
    shop.configure(drop_table="keep")
    shop.sql("DROP TABLE u")
    shop.watermark()
    shop.run()
    assert shop.status("u").detail == "dropped at the source, kept in the target"
    bad_row(shop, "t", "3")
    shop.sql("RENAME TABLE t TO u")
    shop.watermark()
    shop.run()
    assert (shop.condition("t"), shop.condition("u")) == ("quarantined", "kept")
    assert "a newer one of its name waits" in shop.status("u").detail


@BATCHES
def test_the_table_behind_a_quarantined_one_waits_when_both_change_names(rows: int) -> None:
    """RENAME TABLE u TO u_old, t TO u, where u is quarantined."""
    shop = made("t", "u")
    bad_row(shop, "u", "3")
    first = shop.change("RENAME TABLE u TO u_old")
    shop.send_ddl(first)
    shop.send_ddl(shop.change("RENAME TABLE t TO u", ts=first.commit_ts))
    shop.insert("u", id="14")
    shop.insert("u_old", id="24")
    shop.watermark()
    shop.run(rows)
    assert shop.condition("u") == "quarantined"
    assert (shop.rows("t"), shop.rows("u")) == ([(1, None), (2, None)], [(1, None), (2, None)])
    assert shop.rows("u_old") is None
    shop.configure(on_reject="continue")
    shop.resume()
    shop.run(rows, again=True)
    assert shop.rows("t") is None
    assert shop.rows("u") == [(1, None), (14, None), (2, None)]
    assert shop.rows("u_old") == [(1, None), (2, None), (24, None)]
    assert shop.condition("u_old") == "diverged"


@BATCHES
def test_a_table_quarantined_under_its_new_name_goes_on_under_it(rows: int) -> None:
    """First the RENAME, then the bad row."""
    shop = made("t")
    shop.sql("RENAME TABLE t TO u")
    bad_row(shop, "u", "3")
    shop.insert("u", id="4")
    shop.watermark()
    shop.run(rows)
    assert shop.condition("u") == "quarantined"
    assert shop.rows("u") == [(1, None), (2, None)]
    shop.sql("RENAME TABLE u TO t")
    shop.insert("t", id="5")
    shop.watermark()
    shop.run(rows)
    shop.configure(on_reject="continue")
    shop.resume()
    shop.run(rows, again=True)
    assert shop.rows("u") is None
    assert shop.rows("t") == [(1, None), (2, None), (4, None), (5, None)]
    assert shop.condition("t") == "diverged"


@pytest.mark.parametrize("ddl", ["DROP TABLE t", "TRUNCATE TABLE t", "ALTER TABLE t ADD COLUMN n INT"])
@BATCHES
def test_a_quarantined_table_is_untouched_by_ddl_until_it_is_resumed(rows: int, ddl: str) -> None:
    """What is true of RENAME is true of every DDL."""
    shop = made("t")
    shop.run()
    bad_row(shop, "t", "3")
    shop.watermark()
    shop.run()
    shop.sql(ddl)
    shop.watermark()
    shop.run(rows)
    assert shop.rows("t") == [(1, None), (2, None)]
    assert shop.columns("t") == ("id", "at")
    shop.configure(on_reject="continue")
    shop.resume("t")
    shop.run(rows, again=True)
    rows_now = {"DROP": None, "TRUN": [], "ALTE": [(1, None, None), (2, None, None)]}[ddl[:4]]
    assert shop.rows("t") == rows_now


@pytest.mark.parametrize("before", ["continue", "quarantine"])
@pytest.mark.parametrize("after", ["continue", "quarantine", "stop"])
def test_a_batch_goes_on_after_a_death_by_the_policy_that_it_was_begun_with(before: str, after: str) -> None:
    """Seed 9050820: a table was renamed in the lake, and stood still in the progress, under its name before."""

    def make() -> Shop:
        shop = Shop(on_reject=before)
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        shop.watermark()
        shop.run()
        shop.sql("RENAME TABLE t TO u")
        shop.insert("u", id="1")
        shop.send(Encoded(None, b"{"), "cdc")
        shop.watermark()
        return shop

    places = [("rename shop.t", True), ("apply rows", False)] if before == "continue" else []
    for place, done in (*places, ("save the progress", False)):
        shop = make()
        shop.dies(place, after=done)
        shop.configure(on_reject=after)
        shop.run()
        name, other = ("u", "t") if before == "continue" else ("t", "u")
        assert shop.condition(name) == ("diverged" if before == "continue" else "quarantined")
        assert (shop.rows(name), shop.rows(other)) == ([(1,)] if before == "continue" else [], None)


def test_in_arrival_mode_a_resumed_table_goes_on_though_some_of_what_waited_is_applied() -> None:
    shop = Shop("debezium", on_reject="quarantine")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.broker.add_partition("cdc")
    shop.insert("t", id="1", v="a")
    for _ in range(2):
        shop.clock.advance(100)
        shop.batch()
    assert shop.lab.state.progress.mode == "arrival"

    def send(key: str, partition: int, row: RowChange | None = None) -> None:
        row = row or shop.row("insert", (SCHEMA, "t"), {"id": key, "v": "x"})
        (encoded,) = shop.encoder.rows([row])
        shop.send(encoded, "cdc", partition)

    older = shop.row("insert", (SCHEMA, "t"), {"id": "5", "v": "x"})
    send("2", 0)
    shop.batch()
    shop.broker.append(("cdc", 0), None, b"{", 0)
    shop.batch()
    send("5", 1, older)
    send("6", 1)
    send("7", 1)
    shop.batch()
    shop.resume("t")
    shop.batch()
    assert [row[0] for row in shop.rows("t") or []] == [1, 2, 5, 6, 7]
