"""Messages of tables that no full read can bring: the database does not show them, or they have no key."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from tests.unit.replicate.snapshot.test_first_messages import PROTOCOLS, settled, shop_with_a_table_before
from ticdc_spark.errors import DecisionNeeded, SchemaMissing, UnsupportedDdl
from ticdc_spark.model import RowChange

HIDDEN = r"`shop`\.`t`: its messages come, but .* does not show it.*SELECT"


def hide(shop: Shop, *names: str) -> dict[str, Any]:
    """Let the reader of the running job not see tables that the source has."""
    hidden = {name: shop.tables.pop((SCHEMA, name)) for name in names}
    if shop.steps is None:
        shop.start()
    shop.follow_source()
    return hidden


@PROTOCOLS
@pytest.mark.parametrize(
    ("ddls", "name"),
    [
        (("RENAME TABLE t TO t_old", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"), "t"),
        (
            (
                "CREATE TABLE u (id INT PRIMARY KEY)",
                "RENAME TABLE t TO x",
                "RENAME TABLE u TO t",
                "RENAME TABLE x TO u",
            ),
            "t",
        ),
    ],
    ids=["archive", "swap"],
)
def test_a_rename_does_not_explain_why_the_next_table_of_the_name_is_not_shown(
    protocol: str, ddls: tuple[str, ...], name: str
) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    for query in ddls:
        shop.sql(query)
    shop.insert(name, **{one.name: "9" for one in shop.tables[SCHEMA, name].columns})
    hide(shop, name)
    with pytest.raises(DecisionNeeded, match=f"{HIDDEN}.*A waiting DDL joins it with another table"):
        settled(shop)
    assert any(rows.name == name for rows in shop.lab.state.load().pending), "its rows are still there"


@PROTOCOLS
def test_a_table_that_was_dropped_and_made_again_needs_no_read(protocol: str) -> None:
    shop = shop_with_a_table_before(protocol)
    for query in ("ALTER TABLE t ADD COLUMN n INT", "DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY)"):
        shop.sql(query)
    shop.insert("t", id="9")
    hide(shop, "t")
    settled(shop)
    assert (shop.rows("t"), shop.condition("t")) == ([(9,)], "clean")


@PROTOCOLS
@pytest.mark.parametrize("before", [[], ["CREATE TABLE t (id INT PRIMARY KEY)", "DROP TABLE t"]])
def test_excluding_a_hidden_table_under_job_lets_the_job_go_on(protocol: str, before: list[str]) -> None:
    shop = Shop(protocol, snapshot="now")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    for query in before:
        shop.sql(query)
    settled(shop, 2)
    shop.change("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    hide(shop, "t")
    with pytest.raises(DecisionNeeded, match=HIDDEN):
        settled(shop)
    shop.configure(tables=("shop.*", "!shop.t"))
    settled(shop)
    shop.clock.advance(10_000.0)
    settled(shop)
    assert shop.condition("other") == "clean"


@PROTOCOLS
def test_a_hidden_table_that_is_excluded_under_snapshot_begins_with_its_messages(protocol: str) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    hide(shop, "t")
    with pytest.raises(DecisionNeeded, match="exclude it with `tables` under"):
        settled(shop)
    shop.configure(
        snapshot_tables=("shop.other",), schema_sql=f"CREATE TABLE {SCHEMA}.t (id INT PRIMARY KEY, v VARCHAR(9));"
    )
    settled(shop)
    assert (shop.rows("t"), shop.condition("t")) == ([(2, "y")], "unverified")


def keyless(no_key: str) -> Shop:
    """A table without a key that the changefeed begins to send. MariaDB and MySQL read it as it is now."""
    shop = Shop("open", snapshot="now", no_key=no_key)
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    settled(shop, 2)
    shop.change("CREATE TABLE t (id INT, v VARCHAR(9))")
    shop.follow_source()
    return shop


def send(shop: Shop, **row: str) -> None:
    table = shop.tables[SCHEMA, "t"]
    shop.send_row(RowChange(op="insert", table=table, commit_ts=shop.tick(), before=None, after=dict(row)))


def wait(shop: Shop) -> None:
    """Longer than ``schema-timeout``."""
    for _ in range(10):
        shop.clock.advance(200.0)
        settled(shop, 1)


@pytest.mark.parametrize("ddl", ["", "ALTER TABLE t ADD COLUMN n INT", "TRUNCATE TABLE t"])
def test_rows_without_a_key_that_no_key_skips_hold_nothing(ddl: str) -> None:
    shop = keyless("skip")
    send(shop, id="1", v="x")
    if ddl:
        shop.sql(ddl)
    shop.follow_source()
    settled(shop)
    assert shop.applied > shop.ts - (5000 << 18)
    assert not shop.lab.state.load().pending
    send(shop, id="2", v="y")
    settled(shop, 2)
    assert shop.condition("t") == "skipped"


@pytest.mark.parametrize("ddl", ["", "ALTER TABLE t ADD COLUMN n INT", "RENAME TABLE t TO u"])
def test_a_table_without_a_key_that_is_applied_stops_the_job_instead_of_waiting_for_its_read(ddl: str) -> None:
    shop = keyless("apply")
    send(shop, id="1", v="x")
    if ddl:
        shop.sql(ddl)
    shop.follow_source()
    with pytest.raises((SchemaMissing, UnsupportedDdl), match=r"\[schema\] file"):
        wait(shop)
    shop.configure(schema_sql=f"CREATE TABLE {SCHEMA}.t (id INT, v VARCHAR(9));")
    settled(shop)
    name = "u" if "RENAME" in ddl else "t"
    assert [row[:2] for row in shop.rows(name) or ()] == [(1, "x")]
    assert shop.condition(name) == "unverified"


def test_a_table_that_gets_a_key_is_read_after_the_next_start() -> None:
    shop = keyless("apply")
    send(shop, id="1", v="x")
    shop.follow_source()
    settled(shop, 4)
    why = "it could not be read in full: `shop`.`t` has no key; once it has one, restart the job"
    assert shop.status("t").detail.endswith(why)
    shop.sql("ALTER TABLE t ADD PRIMARY KEY (id)")
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "x"}
    shop.insert("t", id="2", v="y")
    with pytest.raises((SchemaMissing, UnsupportedDdl)):
        wait(shop)
    settled(shop)
    assert (shop.rows("t"), shop.condition("t")) == ([(1, "x"), (2, "y")], "clean")
    assert "no key" not in shop.status("t").detail
