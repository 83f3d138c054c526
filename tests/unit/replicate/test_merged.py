"""Several tables of the source as one in the target: what a job does by ``origin`` of ``[[route]]``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.simulator.database import Database
from tests.simulator.snapshots import DatabaseView
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, ShopTables
from ticdc_spark.config.job import Route, SchemaFiles
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import DecisionNeeded, SourceChanged, UsageError

PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
RULE = Route(tables=("shop.orders_*",), target_table="orders", origin=("_schema", "_table"))
ONE = Route(tables=("shop.orders_*",), target_table="orders", origin=("_table",))
COLUMNS = "id INT PRIMARY KEY, v INT"


def merged(protocol: str = "simple", rule: Route = ONE, **job: Any) -> Shop:
    shop = Shop(protocol, routes=(rule,), **job)
    for number in (1, 2):
        shop.sql(f"CREATE TABLE orders_{number} ({COLUMNS})")
        shop.insert(f"orders_{number}", id="1", v=f"{number}0")
        shop.insert(f"orders_{number}", id="2", v=f"{number}1")
    shop.watermark()
    return shop


def rows(shop: Shop) -> list[tuple[Any, ...]]:
    found = shop.rows("orders")
    assert found is not None, "the merged table is there"
    return found


def condition(shop: Shop) -> str:
    return shop.status("orders", f"merged:{SCHEMA}").condition


@PROTOCOLS
@pytest.mark.parametrize("batch", [1, 1000])
def test_rows_of_all_shards_are_in_one_table_with_their_origin(protocol: str, batch: int) -> None:
    shop = merged(protocol, RULE)
    shop.run(batch)
    assert rows(shop) == [
        (SCHEMA, "orders_1", 1, 10),
        (SCHEMA, "orders_1", 2, 11),
        (SCHEMA, "orders_2", 1, 20),
        (SCHEMA, "orders_2", 2, 21),
    ]
    assert condition(shop) == "clean"
    assert set(shop.lab.lake.tables()) == {(SCHEMA, "orders")}


@PROTOCOLS
@pytest.mark.parametrize("batches", [1, 2])
def test_equal_keys_of_two_shards_change_apart(protocol: str, batches: int) -> None:
    shop = merged(protocol)
    if batches == 2:
        shop.run()
    shop.update("orders_1", id="1", v="7")
    shop.delete("orders_2", id="1")
    shop.insert("orders_2", id="3", v="22")
    shop.watermark()
    shop.run(again=True)
    assert rows(shop) == [("orders_1", 1, 7), ("orders_1", 2, 11), ("orders_2", 2, 21), ("orders_2", 3, 22)]
    assert condition(shop) == "clean"


@PROTOCOLS
def test_a_job_that_begins_in_the_middle_has_the_rows_from_then_on(protocol: str, tmp_path: Path) -> None:
    shop = Shop(protocol, routes=(ONE,))
    shop.tables.update(
        {
            (SCHEMA, name): msgspec.structs.replace(
                parse_create(f"CREATE TABLE {name} ({COLUMNS}{more})", SCHEMA), version=at, table_id=at
            )
            for at, (name, more) in enumerate(STRANGE.items(), 1)
        }
    )
    if protocol == "simple":
        shop.bootstrap("orders_1")
    else:
        file = tmp_path / "schema.sql"
        creates = (f"CREATE TABLE {SCHEMA}.{name} ({COLUMNS}{more});\n" for name, more in STRANGE.items())
        file.write_text("".join(creates))
        shop.configure(schema=SchemaFiles(file=(file,)))
    shop.insert("orders_1", id="1", v="10")
    shop.watermark()
    shop.run()
    assert condition(shop) == "unverified"
    if protocol == "simple":
        shop.bootstrap("orders_2")
    shop.insert("orders_2", id="1", v="20", w="7")
    shop.watermark()
    shop.run()
    shop.sql("ALTER TABLE orders_1 ADD COLUMN x INT")
    shop.insert("orders_1", id="2", v="11", x="3")
    shop.watermark()
    shop.run()
    assert rows(shop) == [("orders_1", 1, 10, None, None), ("orders_1", 2, 11, None, 3), ("orders_2", 1, 20, 7, None)]
    assert condition(shop) == "unverified"


STRANGE = {"orders_1": "", "orders_2": ", w INT"}


@PROTOCOLS
def test_each_shard_may_have_a_topic_of_its_own(protocol: str) -> None:
    shop = Shop(protocol, routes=(ONE,), topic_per_table=True)
    shop.sql(f"CREATE TABLE orders_1 ({COLUMNS})")
    shop.insert("orders_1", id="1", v="10")
    shop.watermark()
    shop.run()
    shop.sql(f"CREATE TABLE orders_2 ({COLUMNS})")
    shop.insert("orders_2", id="1", v="20")
    shop.insert("orders_1", id="2", v="11")
    shop.watermark()
    shop.run()
    shop.sql("DROP TABLE orders_1")
    shop.watermark()
    shop.run()
    assert rows(shop) == [("orders_2", 1, 20)]
    assert condition(shop) == "clean"


@PROTOCOLS
@pytest.mark.parametrize("waits", [False, True])
def test_the_topic_of_a_shard_that_is_dropped_may_be_deleted(protocol: str, waits: bool) -> None:
    shop = Shop(protocol, routes=(ONE,), topic_per_table=True)
    for number in (1, 2):
        shop.sql(f"CREATE TABLE orders_{number} ({COLUMNS})")
        shop.insert(f"orders_{number}", id="1", v=f"{number}0")
    shop.watermark()
    shop.run()
    shop.sql("DROP TABLE orders_2")
    if not waits:
        shop.watermark()
    shop.run()
    shop.broker.delete("cdc_shop_orders_2")
    shop.insert("orders_1", id="2", v="11")
    shop.watermark()
    shop.run(again=True)
    assert rows(shop) == [("orders_1", 1, 10), ("orders_1", 2, 11)]
    assert (condition(shop), shop.applied) == ("clean", shop.ts - 1)
    shop.broker.delete("cdc_shop_orders_1")
    with pytest.raises(SourceChanged, match="cdc_shop_orders_1"):
        shop.run()


def test_names_compare_without_case() -> None:
    shop = merged("open")
    shop.sql("ALTER TABLE orders_1 ADD COLUMN w INT", typed="ALTER TABLE Orders_1 ADD COLUMN w INT")
    shop.sql("TRUNCATE TABLE orders_2", typed="TRUNCATE TABLE ORDERS_2")
    shop.insert("orders_1", id="3", v="12", w="3")
    shop.watermark()
    shop.run()
    assert rows(shop) == [("orders_1", 1, 10, None), ("orders_1", 2, 11, None), ("orders_1", 3, 12, 3)]
    assert condition(shop) == "clean"


def test_replays_of_everything_change_nothing() -> None:
    shop = merged("simple", RULE)
    shop.sql("ALTER TABLE orders_1 ADD COLUMN w INT DEFAULT 5")
    shop.sql("DROP TABLE orders_2")
    shop.watermark()
    shop.run()
    before = rows(shop)
    for one in shop.broker.read(("cdc", 0), 0, shop.broker.end_offsets()["cdc", 0]):
        shop.broker.append(("cdc", 0), one.key, one.value, shop.ts >> 18)
    shop.watermark()
    shop.run()
    assert rows(shop) == before == [(SCHEMA, "orders_1", 1, 10, 5), (SCHEMA, "orders_1", 2, 11, 5)]
    assert condition(shop) == "clean"


def test_late_rows_of_a_shard_are_applied_where_they_are_the_newest() -> None:
    shop = merged("simple", late_rows="apply-if-newest")
    late = shop.row("update", (SCHEMA, "orders_1"), {"id": "1", "v": "5"})
    older = shop.row("update", (SCHEMA, "orders_2"), {"id": "1", "v": "6"})
    shop.update("orders_2", id="1", v="7")
    shop.watermark()
    shop.run()
    for row in (late, older):
        shop.send_row(row, "another")
    shop.watermark()
    shop.run(again=True)
    assert rows(shop) == [("orders_1", 1, 5), ("orders_1", 2, 11), ("orders_2", 1, 7), ("orders_2", 2, 21)]
    assert condition(shop) == "unverified"


@pytest.mark.parametrize("batch", [1, 1000])
def test_a_row_that_cannot_be_read_holds_the_merged_table_until_it_is_resumed(batch: int) -> None:
    shop = merged("simple", on_reject="quarantine")
    shop.run()
    change = shop.row("insert", (SCHEMA, "orders_1"), {"id": "3", "v": "77777"})
    (encoded,) = shop.encoder.rows([change])
    assert encoded.value is not None
    shop.send(msgspec.structs.replace(encoded, value=encoded.value.replace(b"77777", b"7777x")), "cdc")
    shop.insert("orders_2", id="3", v="22")
    shop.sql("ALTER TABLE orders_2 ADD COLUMN w INT")
    shop.insert("orders_2", id="4", v="23", w="1")
    shop.watermark()
    shop.run(batch)
    assert (len(rows(shop)), condition(shop)) == (4, "quarantined")
    shop.configure(on_reject="continue")
    shop.lab.resume(shop.setup, [(f"merged:{SCHEMA}", "orders")])
    shop.watermark()
    shop.run(batch)
    assert rows(shop)[-2:] == [("orders_2", 3, 22, None), ("orders_2", 4, 23, 1)]
    assert condition(shop) == "diverged"


def test_a_merged_table_that_is_gone_stops_the_job_until_its_shards_are_excluded() -> None:
    shop = merged()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    shop.stop()
    shop.lab.lake.drop((SCHEMA, "orders"))
    with pytest.raises(DecisionNeeded, match=r"no longer in the target.*exclude the tables that it is made of"):
        shop.run()
    shop.configure(tables=("shop.u",))
    shop.insert("u", id="1")
    shop.watermark()
    shop.run()
    assert shop.rows("u") == [(1,)]


@pytest.mark.parametrize(
    "rule", [ONE, Route(tables=("shop.orders_*",), target_table="of_{schema}", origin=("_table",))]
)
def test_shards_whose_database_is_sent_in_other_letters_are_of_one_table(rule: Route) -> None:
    """Some versions of TiCDC send it in lower case with DDL (tiflow#10047)."""
    shop = Shop("simple", routes=(rule,))
    for number, schema in (("1", SCHEMA.upper()), ("2", SCHEMA)):
        change = shop.change(f"CREATE TABLE orders_{number} ({COLUMNS})")
        assert change.table is not None
        table = msgspec.structs.replace(change.table, schema=schema)
        shop.send_ddl(msgspec.structs.replace(change, schema=schema, table=table))
        shop.insert(f"orders_{number}", id=number, v="7")
    shop.watermark()
    shop.run()
    ((_, found),) = shop.lab.lake.tables().items()
    assert sorted((row["_table"], row["id"]) for row in found.rows) == [("orders_1", 1), ("orders_2", 2)]


def loaded(protocol: str = "open", rule: Route = ONE, **job: Any) -> Shop:
    """Shards that were there before the changefeed, with rows that no topic has."""
    shop = Shop(protocol, routes=(rule,), snapshot="now", **job)
    for number, more in ((1, ""), (2, ", w VARCHAR(9) NOT NULL DEFAULT 'w'")):
        name = f"orders_{number}"
        shop.change(f"CREATE TABLE {name} (id {'BIGINT' if more else 'INT'} PRIMARY KEY, v INT{more})")
        for key in (1, 2):
            row = {"id": str(key), "v": f"{number}{key}", **({"w": "x"} if more else {})}
            shop.held[(SCHEMA, name), str(key)] = row
        if protocol == "simple":
            shop.send(shop.encoder.bootstrap(shop.tables[SCHEMA, name]), "cdc")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.watermark()
    return shop


def settle(shop: Shop) -> None:
    for _ in range(6):
        shop.watermark()
        shop.run()


def values(shop: Shop) -> list[tuple[Any, ...]]:
    found = shop.lab.lake.tables()[SCHEMA, "orders"].rows
    return sorted((row["_table"], row["id"], row["v"], row["w"]) for row in found)


@PROTOCOLS
def test_a_merged_table_begins_with_the_rows_that_its_shards_have(protocol: str) -> None:
    shop = loaded(protocol)
    settle(shop)
    assert values(shop) == [
        ("orders_1", 1, 11, "w"),
        ("orders_1", 2, 12, "w"),
        ("orders_2", 1, 21, "x"),
        ("orders_2", 2, 22, "x"),
    ]
    shop.update("orders_1", id="1", v="7")
    shop.delete("orders_2", id="1", v="21", w="x")
    shop.sql("TRUNCATE TABLE orders_2")
    shop.sql("ALTER TABLE orders_2 ADD COLUMN z INT")
    shop.insert("orders_2", id="3", v="3", w="y", z="4")
    settle(shop)
    assert values(shop) == [("orders_1", 1, 7, "w"), ("orders_1", 2, 12, "w"), ("orders_2", 3, 3, "y")]
    assert condition(shop) == "clean"


@PROTOCOLS
def test_a_shard_that_comes_before_the_full_read_of_the_others_does_not_end_it(protocol: str) -> None:
    shop = loaded(protocol)
    shop.sql(f"CREATE TABLE orders_3 ({COLUMNS})")
    shop.insert("orders_3", id="1", v="31")
    shop.watermark()
    shop.run()
    assert condition(shop) == "snapshot", "it lacks the others"
    settle(shop)
    assert [row[:3] for row in values(shop)] == [
        ("orders_1", 1, 11),
        ("orders_1", 2, 12),
        ("orders_2", 1, 21),
        ("orders_2", 2, 22),
        ("orders_3", 1, 31),
    ]
    assert condition(shop) == "clean"


@pytest.mark.parametrize("gone", [False, True])
def test_a_merged_table_is_read_again_on_request(gone: bool) -> None:
    shop = loaded()
    settle(shop)
    if gone:
        shop.stop()
        shop.lab.lake.drop((SCHEMA, "orders"))
        with pytest.raises(DecisionNeeded, match=r"`ticdc-spark rebuild job.toml merged:shop.orders` reads it again"):
            shop.run()
    else:
        shop.lab.lake.tables()[SCHEMA, "orders"].rows.clear()
    shop.ask_for("merged:shop.orders")
    settle(shop)
    assert len(values(shop)) == 4


def test_a_shard_alone_is_not_read_again() -> None:
    shop = loaded()
    settle(shop)
    with pytest.raises(UsageError, match=r"is one of the tables of merged:shop.orders"):
        shop.ask_for("shop.orders_1")


def test_a_shard_that_is_included_later_is_read() -> None:
    shop = loaded(tables=("shop.*", "!shop.orders_2"))
    settle(shop)
    found = shop.lab.lake.tables()[SCHEMA, "orders"].rows
    assert sorted((row["_table"], row["id"]) for row in found) == [("orders_1", 1), ("orders_1", 2)]
    shop.stop()
    shop.configure(tables=())
    settle(shop)
    assert [row[:2] for row in values(shop)] == [("orders_1", 1), ("orders_1", 2), ("orders_2", 1), ("orders_2", 2)]


def test_a_condition_that_names_a_column_which_a_shard_lacks_stops_the_job_before_its_full_read() -> None:
    rule = msgspec.structs.replace(ONE, where="w = 'x'")
    shop = loaded(rule=rule)
    with pytest.raises(UsageError, match="there is no column 'w'"):
        settle(shop)
    assert set(shop.lab.lake.tables()) == {(SCHEMA, "other")}
    shop.configure(tables=("shop.*", "!shop.orders_1"))
    settle(shop)
    assert [row[:2] for row in values(shop)] == [("orders_2", 1), ("orders_2", 2)]


def test_a_column_that_becomes_wider_while_its_shard_waits_for_its_turn_is_read_with_its_values() -> None:
    shop = loaded()
    database = LiveView(shop)
    shop.start()
    shop.follow_source(database)
    for _ in range(20):
        shop.watermark()
        shop.batch()
        if any(table.load for table in shop.steps.progress.tables):
            break
    shop.sql("ALTER TABLE orders_2 MODIFY v BIGINT")
    shop.held[(SCHEMA, "orders_2"), "2"] = {"id": "2", "v": str(2**40), "w": "x"}
    shop.update("orders_2", id="2", v=str(2**40), w="x")
    for _ in range(12):
        shop.watermark()
        shop.batch()
    assert (values(shop)[-1], condition(shop)) == (("orders_2", 2, 2**40, "x"), "clean")


def test_a_decimal_of_one_shard_that_is_text_in_another_is_written_without_an_exponent() -> None:
    shop = Shop("open", routes=(ONE,), snapshot="now")
    for number, digits in ((1, 38), (2, 40)):
        shop.change(f"CREATE TABLE orders_{number} (id INT PRIMARY KEY, v DECIMAL({digits},10))")
        shop.held[(SCHEMA, f"orders_{number}"), "1"] = {"id": "1", "v": "0.0000000001"}
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    settle(shop)
    assert {row["v"] for row in shop.lab.lake.tables()[SCHEMA, "orders"].rows} == {"0.0000000001"}


@pytest.mark.parametrize("protocol", ["canal-json", "debezium", "open"])
def test_an_unknown_table_that_a_rename_makes_a_shard_is_read_with_the_others(protocol: str) -> None:
    shop = Shop(protocol, routes=(ONE,), snapshot="now")
    shop.sql(f"CREATE TABLE orders_1 ({COLUMNS})")
    shop.insert("orders_1", id="1", v="1")
    settle(shop)
    shop.change(f"CREATE TABLE plain ({COLUMNS})")
    shop.held[(SCHEMA, "plain"), "7"] = {"id": "7", "v": "7"}
    shop.sql("RENAME TABLE plain TO orders_2")
    shop.held[(SCHEMA, "orders_2"), "7"] = shop.held.pop(((SCHEMA, "plain"), "7"), {"id": "7", "v": "7"})
    shop.insert("orders_2", id="5", v="5")
    shop.follow_source()
    settle(shop)
    shop.insert("orders_2", id="6", v="6")
    settle(shop)
    wanted = [("orders_1", 1, 1), ("orders_2", 5, 5), ("orders_2", 6, 6), ("orders_2", 7, 7)]
    rows = shop.lab.lake.tables()[SCHEMA, "orders"].rows
    assert sorted((row["_table"], row["id"], row["v"]) for row in rows) == wanted
    assert condition(shop) == "clean"


class LiveView(DatabaseView):
    """The database of a shop as it is whenever it is read."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(cast(Database, ShopTables(shop)), "now", 0)
