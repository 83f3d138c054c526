"""Several tables of the source as one in the target: what a job does by ``origin`` of ``[[route]]``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.simulator.setup import job_of, scratch_folder
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.ddl import DdlRule
from ticdc_spark.config.job import Route, SchemaFiles
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import DecisionNeeded, SourceChanged, UnsupportedDdl, UsageError
from ticdc_spark.operate.requests import rebuild_from_topic

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
@pytest.mark.parametrize("batches", [1, 2])
def test_a_new_column_of_one_shard_comes_to_the_table_and_is_there_for_the_next(protocol: str, batches: int) -> None:
    shop = merged(protocol)
    if batches == 2:
        shop.run()
    shop.sql("ALTER TABLE orders_1 ADD COLUMN w INT DEFAULT 5")
    shop.insert("orders_1", id="3", v="12", w="6")
    shop.insert("orders_2", id="3", v="22")
    shop.watermark()
    if batches == 2:
        shop.run()
        assert rows(shop) == [
            ("orders_1", 1, 10, 5),
            ("orders_1", 2, 11, 5),
            ("orders_1", 3, 12, 6),
            ("orders_2", 1, 20, 5),
            ("orders_2", 2, 21, 5),
            ("orders_2", 3, 22, 5),
        ]
    shop.sql("ALTER TABLE orders_2 ADD COLUMN w INT DEFAULT 5")
    shop.update("orders_2", id="1", v="20", w="9")
    shop.watermark()
    shop.run(again=True)
    assert rows(shop) == [
        ("orders_1", 1, 10, 5),
        ("orders_1", 2, 11, 5),
        ("orders_1", 3, 12, 6),
        ("orders_2", 1, 20, 9),
        ("orders_2", 2, 21, 5),
        ("orders_2", 3, 22, 5),
    ]
    assert condition(shop) == "clean"


@PROTOCOLS
def test_another_default_of_the_second_shard_marks_the_table(protocol: str) -> None:
    shop = merged(protocol)
    shop.sql("ALTER TABLE orders_1 ADD COLUMN w INT DEFAULT 5")
    shop.sql("ALTER TABLE orders_2 ADD COLUMN w INT DEFAULT 6")
    shop.watermark()
    shop.run()
    assert condition(shop) == "diverged"
    assert "`orders_2` from before it may have another default" in shop.status("orders", f"merged:{SCHEMA}").detail


@PROTOCOLS
def test_a_wider_type_of_one_shard_is_that_of_the_table(protocol: str) -> None:
    shop = merged(protocol)
    shop.sql("ALTER TABLE orders_2 MODIFY v BIGINT")
    shop.update("orders_2", id="1", v=str(2**40))
    shop.sql("ALTER TABLE orders_1 MODIFY v BIGINT")
    shop.update("orders_1", id="1", v=str(2**41))
    shop.watermark()
    shop.run()
    assert rows(shop) == [("orders_1", 1, 2**41), ("orders_1", 2, 11), ("orders_2", 1, 2**40), ("orders_2", 2, 21)]
    assert condition(shop) == "clean"


@PROTOCOLS
def test_a_column_that_one_shard_drops_stays(protocol: str) -> None:
    shop = merged(protocol)
    shop.sql("ALTER TABLE orders_2 DROP COLUMN v")
    shop.insert("orders_2", id="3")
    shop.watermark()
    shop.run()
    assert rows(shop) == [
        ("orders_1", 1, 10),
        ("orders_1", 2, 11),
        ("orders_2", 1, 20),
        ("orders_2", 2, 21),
        ("orders_2", 3, None),
    ]
    assert condition(shop) == "clean"
    shop.sql("ALTER TABLE orders_2 ADD COLUMN v INT")
    shop.watermark()
    shop.run()
    assert condition(shop) == "diverged"


@PROTOCOLS
@pytest.mark.parametrize("batches", [1, 2])
def test_truncate_and_drop_remove_the_rows_of_one_shard(protocol: str, batches: int) -> None:
    shop = merged(protocol, RULE)
    if batches == 2:
        shop.run()
    shop.sql("TRUNCATE TABLE orders_1")
    shop.insert("orders_1", id="9", v="9")
    shop.sql("DROP TABLE orders_2")
    shop.watermark()
    shop.run()
    assert rows(shop) == [(SCHEMA, "orders_1", 9, 9)]
    shop.sql("DROP TABLE orders_1")
    shop.watermark()
    shop.run()
    assert rows(shop) == []
    shop.sql("CREATE TABLE orders_2 (id INT PRIMARY KEY, v INT, x INT)")
    shop.insert("orders_2", id="1", v="1", x="2")
    shop.watermark()
    shop.run(again=True)
    assert rows(shop) == [(SCHEMA, "orders_2", 1, 1, 2)]
    assert condition(shop) == "clean"


def changed() -> Shop:
    shop = merged("simple", RULE)
    shop.sql("ALTER TABLE orders_1 ADD COLUMN w INT DEFAULT 5")
    shop.update("orders_1", id="1", v="7", w="8")
    shop.delete("orders_2", id="1")
    shop.sql("ALTER TABLE orders_2 ADD COLUMN w INT DEFAULT 5")
    shop.sql("ALTER TABLE orders_2 MODIFY v BIGINT")
    shop.insert("orders_2", id="3", v=str(2**40), w="1")
    shop.sql("TRUNCATE TABLE orders_1")
    shop.insert("orders_1", id="9", v="9", w="9")
    shop.sql("CREATE TABLE orders_3 (id INT PRIMARY KEY, v INT, x INT)")
    shop.insert("orders_3", id="9", v="9", x="9")
    shop.watermark()
    return shop


CHANGED = [
    (SCHEMA, "orders_1", 9, 9, 9, None),
    (SCHEMA, "orders_2", 2, 21, 5, None),
    (SCHEMA, "orders_2", 3, 2**40, 1, None),
    (SCHEMA, "orders_3", 9, 9, 5, 9),
]


def test_whatever_kills_the_job_the_merged_table_ends_as_its_shards_are() -> None:
    def judge(shop: Shop) -> None:
        assert rows(shop) == CHANGED
        assert condition(shop) == "clean"

    assert after_every_death(changed, judge) > 10


def test_whatever_kills_the_job_a_shard_that_is_made_again_has_none_of_its_older_rows() -> None:
    def make() -> Shop:
        shop = merged("open", drop_table="keep")
        shop.sql("DROP TABLE orders_2")
        shop.insert("orders_1", id="3", v="12")
        shop.sql(f"CREATE TABLE orders_2 ({COLUMNS}, w INT)")
        shop.insert("orders_2", id="5", v="5", w="6")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert [row[:2] for row in rows(shop)] == [("orders_1", 1), ("orders_1", 2), ("orders_1", 3), ("orders_2", 5)]

    assert after_every_death(make, judge) > 10


@PROTOCOLS
def test_the_rows_of_a_shard_that_is_dropped_stay_by_the_policy(protocol: str) -> None:
    shop = merged(protocol, drop_table="keep", truncate_table="keep")
    shop.sql("DROP TABLE orders_2")
    shop.sql("TRUNCATE TABLE orders_1")
    shop.watermark()
    shop.run()
    assert rows(shop) == [("orders_1", 1, 10), ("orders_1", 2, 11), ("orders_2", 1, 20), ("orders_2", 2, 21)]
    assert condition(shop) == "unverified"


@PROTOCOLS
@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("CREATE TABLE orders_3 (id INT PRIMARY KEY, v VARCHAR(9))", "column `v` is VARCHAR(9), and INT"),
        (
            "CREATE TABLE orders_3 (id INT, v INT, PRIMARY KEY (id, v))",
            "its key is id, v, and that of the others is id",
        ),
        ("CREATE TABLE orders_3 (id INT PRIMARY KEY, V INT)", "column `V` is written `v` in the others"),
        ("ALTER TABLE orders_1 MODIFY v SMALLINT", "column `v` becomes SMALLINT"),
        ("ALTER TABLE orders_1 CHANGE v w INT", "column `v` of a shard becomes `w`"),
        ("RENAME TABLE orders_1 TO orders_7", "is renamed"),
        ("RENAME TABLE orders_1 TO others", "is renamed"),
        ("RENAME TABLE others TO orders_7", "is renamed"),
    ],
)
def test_a_ddl_that_the_merged_table_cannot_follow_stops_the_job_before_it(protocol: str, sql: str, why: str) -> None:
    shop = merged(protocol)
    shop.sql("CREATE TABLE others (id INT PRIMARY KEY)")
    shop.insert("orders_1", id="3", v="12")
    shop.watermark()
    shop.run()
    shop.sql(sql)
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=re.escape(why)) as stop:
        shop.run()
    assert rows(shop)[2] == ("orders_1", 3, 12)
    (ts,) = re.findall(r'skip-ddl = \["(\d+):', str(stop.value))
    shop.configure(skip_ddl=(SkipDdl(int(ts), "*"),))
    shop.insert("orders_2", id="3", v="22")
    shop.watermark()
    shop.run()
    assert ("orders_2", 3, 22) in rows(shop)
    assert condition(shop) == "diverged"


def test_shards_of_several_databases_go_with_their_database() -> None:
    rule = Route(tables=("shop_*.o",), target_schema="all", target_table="o", origin=("_db", "_t"))
    shop = Shop("simple", routes=(rule,))
    for schema in ("shop_1", "shop_2"):
        shop.sql("CREATE TABLE o (id INT PRIMARY KEY)", schema=schema)
        shop.insert("o", id="1", schema=schema)
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)", schema="shop_1")
    shop.watermark()
    shop.run()
    assert shop.rows("o", "all") == [("shop_1", "o", 1), ("shop_2", "o", 1)]
    shop.insert("o", id="2", schema="shop_1")
    shop.sql("DROP DATABASE shop_1", schema="shop_1")
    shop.watermark()
    shop.run()
    assert shop.rows("o", "all") == [("shop_2", "o", 1)]
    assert shop.status("o", "merged:all").condition == "clean"
    assert set(shop.lab.lake.tables()) == {("all", "o")}


def test_one_column_does_not_tell_tables_of_one_name_apart() -> None:
    rule = Route(tables=("shop_*.o",), target_schema="all", target_table="o", origin=("_t",))
    for bootstraps in (False, True):
        shop = Shop("simple", routes=(rule,))
        for schema in ("shop_1", "shop_2"):
            change = shop.change("CREATE TABLE o (id INT PRIMARY KEY)", schema=schema)
            if bootstraps:
                shop.bootstrap("o", schema)
            else:
                shop.send_ddl(change)
            shop.insert("o", id="1", schema=schema)
        shop.watermark()
        with pytest.raises(DecisionNeeded, match="two columns, for the database and the table"):
            shop.run()


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


@PROTOCOLS
def test_other_rules_of_the_route_hold_for_merged_tables(protocol: str) -> None:
    rule = msgspec.structs.replace(
        RULE,
        drop_columns=("*", "!id", "!v"),
        rename_columns=(("v", "value"),),
        where="v >= 11 AND secret IS NULL",
    )
    shop = Shop(protocol, routes=(rule,))
    for number in (1, 2):
        shop.sql(f"CREATE TABLE orders_{number} ({COLUMNS}, secret INT)")
        shop.insert(f"orders_{number}", id="1", v=f"{number}0", secret=None)
        shop.insert(f"orders_{number}", id="2", v=f"{number}1", secret=None)
        shop.insert(f"orders_{number}", id="3", v=f"{number}2", secret="1")
    shop.watermark()
    shop.run()
    assert shop.columns("orders") == ("_schema", "_table", "id", "value")
    assert rows(shop) == [(SCHEMA, "orders_1", 2, 11), (SCHEMA, "orders_2", 1, 20), (SCHEMA, "orders_2", 2, 21)]


def test_a_table_without_a_key_cannot_be_merged() -> None:
    shop = Shop("simple", routes=(ONE,), no_key="apply")
    shop.sql("CREATE TABLE orders_1 (id INT)")
    shop.watermark()
    with pytest.raises(UsageError, match="has no primary key"):
        shop.run()


def test_a_table_that_has_such_a_column_cannot_be_merged() -> None:
    shop = Shop("simple", routes=(ONE,))
    shop.sql("CREATE TABLE orders_1 (id INT PRIMARY KEY, _TABLE INT)")
    shop.watermark()
    with pytest.raises(UsageError, match="has a column `_TABLE` already"):
        shop.run()


def test_another_table_cannot_have_the_name_of_a_merged_one() -> None:
    shop = merged()
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY)")
    shop.watermark()
    with pytest.raises(UsageError, match=r"would both be `shop`\.`orders`"):
        shop.run()


@pytest.mark.parametrize(
    ("before", "after"),
    [((ONE,), ()), ((), (ONE,)), ((ONE,), (RULE,)), ((RULE,), (msgspec.structs.replace(RULE, target_table="o"),))],
)
def test_a_job_that_has_tables_does_not_begin_or_cease_to_merge_them(
    before: tuple[Route, ...], after: tuple[Route, ...]
) -> None:
    shop = merged()
    shop.configure(routes=before)
    shop.run()
    shop.configure(routes=after)
    with pytest.raises(UsageError, match=r"\[\[route\]\]"):
        shop.start()


def test_a_shard_that_the_job_file_leaves_out_marks_the_table() -> None:
    shop = merged()
    shop.run()
    shop.configure(tables=("shop.*", "!shop.orders_2"))
    shop.insert("orders_1", id="3", v="12")
    shop.insert("orders_2", id="3", v="22")
    shop.watermark()
    shop.run()
    assert ("orders_2", 3, 22) not in rows(shop)
    assert ("orders_1", 3, 12) in rows(shop)
    assert condition(shop) == "diverged"


def test_excluded_tables_are_no_shards() -> None:
    shop = merged("canal-json", tables=("shop.*", "!shop.orders_2"))
    shop.run()
    assert rows(shop) == [("orders_1", 1, 10), ("orders_1", 2, 11)]
    assert condition(shop) == "clean"


def test_what_is_known_of_shards_does_not_grow_with_those_that_are_gone() -> None:
    shop = merged("simple")
    shop.run()
    sizes = []
    for day in range(4):
        shop.sql(f"CREATE TABLE orders_2024{day} ({COLUMNS})")
        shop.insert(f"orders_2024{day}", id="1", v="1")
        shop.watermark()
        shop.run()
        shop.sql(f"DROP TABLE orders_2024{day}")
        shop.watermark()
        shop.run()
        assert shop.steps is not None
        progress = shop.steps.progress
        sizes.append((len(progress.schemas), len(progress.shards), len(progress.tables)))
    assert set(sizes) == {(2, 2, 1)}


@PROTOCOLS
def test_a_shard_is_dropped_while_the_next_one_of_its_name_waits(protocol: str) -> None:
    shop = merged(protocol)
    shop.sql("DROP TABLE orders_2")
    shop.watermark()
    shop.sql(f"CREATE TABLE orders_2 ({COLUMNS}, w INT)")
    shop.run()
    assert rows(shop) == [("orders_1", 1, 10), ("orders_1", 2, 11)]
    shop.insert("orders_2", id="3", v="22", w="1")
    shop.watermark()
    shop.run(again=True)
    assert rows(shop)[-1] == ("orders_2", 3, 22, 1)
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


def test_a_merged_table_is_not_read_again_from_its_topics() -> None:
    shop = merged()
    shop.run()
    job = job_of(shop.setup, scratch_folder("merged"))
    with pytest.raises(UsageError, match=r"made of several tables by \[\[route\]\] origin"):
        rebuild_from_topic(job, shop.lab.state.load(), [f"merged:{SCHEMA}.orders"])


@pytest.mark.parametrize("policy", ["drop_table", "truncate_table", "drop_column", "modify_column"])
def test_policies_of_ddl_go_by_the_names_of_shards(policy: str) -> None:
    sql = {
        "drop_table": "DROP TABLE orders_{}",
        "truncate_table": "TRUNCATE TABLE orders_{}",
        "drop_column": "ALTER TABLE orders_{} DROP COLUMN v",
        "modify_column": "ALTER TABLE orders_{} MODIFY v BIGINT",
    }[policy]
    rules: dict[str, Any] = {policy: "stop"}
    shop = merged("simple", rules=(DdlRule(tables=("shop.orders_2",), **rules),))
    shop.sql(sql.format(1))
    shop.insert("orders_2", id="3", v="22")
    shop.watermark()
    shop.run()
    assert condition(shop) == "clean"
    shop.sql(sql.format(2))
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=policy.replace("_", "-")):
        shop.run()
