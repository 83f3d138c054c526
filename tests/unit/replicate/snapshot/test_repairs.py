"""Rows that differ in the target are read again singly, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from tests.simulator.database import Database
from tests.simulator.draw_snapshots import draw_repairs
from tests.simulator.job_lab import JobLab
from tests.simulator.snapshots import DatabaseView
from tests.simulator.story import run
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, ShopTables, after_every_death
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, Table
from ticdc_spark.replicate.snapshot import repairs
from ticdc_spark.replicate.state.requests import words

T = (SCHEMA, "t")
SOURCE = [(1, "v1"), (2, "new"), (4, "v4")]


def made(**job: Any) -> Shop:
    """The job has a table whose rows 1, 2 and 3 came by messages."""
    shop = Shop(**{"snapshot": "now", **job})
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    for key in "123":
        shop.insert("t", id=key, v=f"v{key}")
    return go_on(shop, 1)


def go_on(shop: Shop, batches: int = 4) -> Shop:
    for _ in range(batches):
        shop.watermark()
        shop.run()
    return shop


def with_lost_messages(**job: Any) -> Shop:
    """No message told of an update of row 2, a delete of row 3 and an insert of row 4."""
    shop = made(**job)
    shop.row("update", T, {"id": "2", "v": "new"})
    shop.row("delete", T, {"id": "3"})
    shop.row("insert", T, {"id": "4", "v": "v4"})
    go_on(shop, 1)
    assert shop.rows("t") == [(1, "v1"), (2, "v2"), (3, "v3")]
    return shop


def asks(shop: Shop) -> Sequence[object]:
    return shop.lab.state.requests()


class Source(DatabaseView):
    """A source that changes just before rows are looked up in it, once."""

    def __init__(self, shop: Shop, change: Callable[[], object]) -> None:
        super().__init__(cast(Database, ShopTables(shop)), "now", 0)
        self.change: Callable[[], object] | None = change
        self.looked_up = 0

    def rows(self, table: Table, keys: Sequence[Row], at: int | None) -> list[Row]:
        change, self.change = self.change, None
        if change is not None:
            change()
        self.looked_up += 1
        return super().rows(table, keys, at)


def test_rows_are_replaced_removed_and_added_and_the_table_is_clean_again() -> None:
    shop = with_lost_messages()
    shop.repair("t", "2", "3", "4", "9")
    go_on(shop)
    assert (shop.rows("t"), shop.condition("t"), asks(shop)) == (SOURCE, "clean", ())


def test_rows_that_somebody_changed_in_the_target_are_the_sources_again() -> None:
    shop = go_on(made())
    shop.lab.lake.delete(T, 0)
    shop.lab.lake.insert(T, {"id": 99, "v": "alien"})
    shop.repair("t", "1", "99")
    go_on(shop)
    assert shop.rows("t") == [(1, "v1"), (2, "v2"), (3, "v3")]
    assert shop.condition("t") == "diverged", "a person clears the mark, as nobody knows what else was changed"


def test_a_row_that_is_newer_than_its_table_is_there_once_when_its_message_comes() -> None:
    shop = with_lost_messages()
    shop.repair("t", "2", "3", "4", "5")
    source = Source(shop, lambda: shop.insert("t", id="5", v="v5"))
    shop.follow_source(source)
    while asks(shop):
        shop.watermark()
        shop.run()
    assert shop.condition("t") == "unverified", "one row is newer than the others"
    go_on(shop)
    assert (shop.rows("t"), shop.condition("t")) == ([*SOURCE, (5, "v5")], "clean")


def test_a_table_that_is_altered_while_its_rows_are_read_gets_them_after_the_ddl() -> None:
    shop = with_lost_messages()
    shop.repair("t", "2", "3", "4")
    source = Source(shop, lambda: shop.sql("ALTER TABLE t ADD COLUMN n INT"))
    shop.follow_source(source)
    go_on(shop, 6)
    assert source.looked_up == 2
    assert (shop.rows("t"), asks(shop)) == ([(*row, None) for row in SOURCE], ())


def test_a_table_that_took_the_name_of_another_does_not_give_it_its_rows() -> None:
    shop = with_lost_messages()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("u", id="2", v="of u")
    go_on(shop, 1)
    shop.repair("t", "2", "3", "4")

    def swap() -> None:
        shop.sql("RENAME TABLE t TO x")
        shop.sql("RENAME TABLE u TO t")

    shop.follow_source(Source(shop, swap))
    go_on(shop, 6)
    assert (shop.rows("x"), shop.rows("t"), asks(shop)) == ([(1, "v1"), (2, "v2"), (3, "v3")], [(2, "of u")], ())


def test_rows_are_read_again_though_the_job_dies_at_any_action() -> None:
    def make() -> Shop:
        shop = with_lost_messages()
        shop.repair("t", "2", "3", "4")
        go_on(shop, 1)
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        go_on(shop)
        assert (shop.rows("t"), shop.condition("t"), asks(shop)) == (SOURCE, "clean", ())

    assert after_every_death(make, judge) >= 4


def test_a_table_whose_rows_cannot_be_replaced_singly_is_read_in_full(caplog: pytest.LogCaptureFixture) -> None:
    shop = with_lost_messages()
    shop.repair("t", "2", "x")
    go_on(shop, 6)
    assert "is to be read in full, as its rows cannot be replaced singly: column `id`: 'x'" in caplog.text
    assert (shop.rows("t"), shop.condition("t"), asks(shop)) == (SOURCE, "clean", ())


def test_a_row_that_the_source_takes_for_another_key_is_written_and_not_only_the_key_removed() -> None:
    """The source changed the key 'a' to 'A', which its collation takes for equal. So may the target."""
    shop = Shop(snapshot="now")
    shop.sql("CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="a", v="old")
    go_on(shop)
    shop.row("delete", T, {"id": "a"})
    shop.row("insert", T, {"id": "A", "v": "new"})

    class Insensitive(DatabaseView):
        def rows(self, table: Table, keys: Sequence[Row], at: int | None) -> list[Row]:
            return super().rows(table, [{"id": str(key["id"]).upper()} for key in keys], at)

    shop.repair("t", "a")
    shop.follow_source(Insensitive(cast(Database, ShopTables(shop)), "now", 0))
    go_on(shop)
    assert shop.rows("t") == [("A", "new")]


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_a_table_whose_key_a_database_does_not_find_is_read_in_full(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(snapshot="now")
    shop.sql(f"CREATE TABLE t (id {kind} PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="0.1", v="v")
    go_on(shop)
    shop.repair("t", "0.1")
    go_on(shop)
    assert (
        "is to be read in full, as its rows cannot be replaced singly: its key has a FLOAT, DOUBLE or flag"
        in caplog.text
    )
    assert [row[1] for row in shop.rows("t") or ()] == ["v"]


def test_a_flag_that_is_any_number_at_the_source_does_not_name_a_row() -> None:
    shop = Shop(snapshot="now", tinyint1="boolean")
    shop.sql("CREATE TABLE t (id TINYINT(1) PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="5", v="v")
    go_on(shop)
    shop.repair("t", "1")
    go_on(shop)
    assert (shop.rows("t"), asks(shop)) == ([(True, "v")], ())


def test_more_rows_than_are_asked_for_at_once_are_read_again() -> None:
    shop = made()
    for key in range(1000, 1450):
        shop.row("insert", T, {"id": str(key), "v": "v"})
    go_on(shop)
    shop.repair("t", *map(str, range(1000, 1450)))
    go_on(shop)
    assert len(shop.rows("t") or ()) == 453
    assert (shop.condition("t"), asks(shop)) == ("clean", ())


@pytest.mark.parametrize("end", ["waits", "is refused"])
def test_what_is_replaced_before_a_repair_must_wait_or_ends_is_not_called_clean(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first row is newer than its table, and its message has not come."""
    monkeypatch.setattr(repairs, "_TOGETHER", 1)
    shop = with_lost_messages()
    shop.repair("t", "5", "2")

    class Unsteady(Source):
        def rows(self, table: Table, keys: Sequence[Row], at: int | None) -> list[Row]:
            found = super().rows(table, keys, at)
            if self.looked_up == 2 and end == "waits":
                shop.sql("ALTER TABLE t ADD COLUMN n INT")
            elif self.looked_up == 2:
                raise MessageError("refused")
            return found

    shop.follow_source(Unsteady(shop, lambda: shop.insert("t", id="5", v="v5")))
    for _ in range(9):
        shop.watermark()
        shop.run()
        if (5, "v5") in (shop.rows("t") or ()):
            break
    assert shop.condition("t") != "clean"
    go_on(shop, 7)
    v5 = (5, "v5") if end == "is refused" else (5, "v5", None)
    assert (v5 in (shop.rows("t") or ()), shop.condition("t"), asks(shop)) == (True, "clean", ())


def test_nothing_is_read_of_a_table_that_the_job_file_excludes_now(caplog: pytest.LogCaptureFixture) -> None:
    shop = with_lost_messages()
    shop.configure(tables=("*.*", "!shop.t"))
    shop.repair("t", "2")
    go_on(shop)
    assert "rows are not read again: `tables` under [job] excludes the table" in caplog.text
    assert (shop.rows("t"), asks(shop)) == ([(1, "v1"), (2, "v2"), (3, "v3")], ())


def test_two_requests_for_a_table_become_one() -> None:
    shop = with_lost_messages()
    shop.repair("t", "2", "3")
    shop.repair("t", "3", "4")
    assert [words(one) for one in shop.lab.state.requests()] == ["repair shop.t, 3 rows"]
    go_on(shop)
    assert (shop.rows("t"), asks(shop)) == (SOURCE, ())


def test_a_request_that_cannot_be_met_is_removed_and_does_not_stop_the_job(caplog: pytest.LogCaptureFixture) -> None:
    class Unknown(DatabaseView):
        def schema(self, name: tuple[str, str], at: int | None) -> Table | None:
            raise MessageError("its CREATE TABLE cannot be read")

    shop = with_lost_messages()
    shop.repair("t", "2")
    shop.follow_source(Unknown(cast(Database, ShopTables(shop)), "now", 0))
    shop.insert("t", id="7", v="v7")
    go_on(shop)
    assert "rows are not read again: the source's table cannot be read: its CREATE TABLE cannot be read" in caplog.text
    assert ((7, "v7") in (shop.rows("t") or ()), asks(shop)) == (True, ())


def test_nothing_is_read_of_a_table_that_was_dropped_meanwhile() -> None:
    shop = with_lost_messages()
    shop.repair("t", "2")
    shop.sql("DROP TABLE t")
    go_on(shop)
    assert (shop.rows("t"), asks(shop)) == (None, ())


def test_rows_wait_until_the_job_file_names_a_source() -> None:
    shop = with_lost_messages(snapshot="")
    shop.repair("t", "2", "3", "4")
    go_on(shop)
    assert len(asks(shop)) == 1
    shop.configure(snapshot="now")
    go_on(shop)
    assert (shop.rows("t"), asks(shop)) == (SOURCE, ())


@pytest.mark.parametrize("seed", range(12))
def test_a_story_with_repairs_ends_well(seed: int) -> None:
    assert run(draw_repairs(seed), JobLab).finding is None
