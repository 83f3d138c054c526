"""Tables that have other names in the target: what a job does by the rules of ``[[route]]``."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.simulator.setup import job_of, scratch_folder
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.job import IcebergConfig, Identity, Route
from ticdc_spark.errors import DecisionNeeded, UsageError
from ticdc_spark.operate.status import describe

PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
ROUTES = (
    Route(tables=("shop.archive_*",), target_schema="archive"),
    Route(tables=("shop.*",), target_schema="lake_{schema}", target_table="{table}_v1"),
)
LAKE = f"lake_{SCHEMA}"


def routed(protocol: str = "simple", routes: tuple[Route, ...] = ROUTES, **job: Any) -> Shop:
    shop = Shop(protocol, routes=routes, **job)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="10")
    shop.watermark()
    return shop


def names(shop: Shop) -> set[tuple[str, str]]:
    return set(shop.lab.lake.tables())


@PROTOCOLS
def test_rows_and_ddl_of_a_table_go_to_the_name_in_the_target(protocol: str) -> None:
    shop = routed(protocol)
    shop.run()
    shop.sql("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
    shop.update("t", id="1", v="11", w="8")
    shop.insert("t", id="2", v="20", w="9")
    shop.watermark()
    shop.run(again=True)
    assert names(shop) == {(LAKE, "t_v1")}
    assert shop.rows("t_v1", LAKE) == [(1, 11, 8), (2, 20, 9)]
    assert shop.condition("t") == "clean"
    shop.sql("TRUNCATE TABLE t")
    shop.insert("t", id="3", v="30", w="1")
    shop.watermark()
    shop.run()
    assert shop.rows("t_v1", LAKE) == [(3, 30, 1)]


@PROTOCOLS
def test_a_rename_moves_a_table_from_one_rule_to_another(protocol: str) -> None:
    shop = routed(protocol)
    shop.sql("RENAME TABLE t TO archive_t")
    shop.insert("archive_t", id="2", v="20")
    shop.watermark()
    shop.run()
    assert names(shop) == {("archive", "archive_t")}
    assert shop.rows("archive_t", "archive") == [(1, 10), (2, 20)]


def test_whatever_kills_the_job_a_renamed_table_ends_under_its_name_in_the_target() -> None:
    def make() -> Shop:
        shop = routed()
        shop.sql("RENAME TABLE t TO archive_t")
        shop.insert("archive_t", id="2", v="20")
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        shop.insert("t", id="5")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert names(shop) == {("archive", "archive_t"), (LAKE, "t_v1")}
        assert shop.rows("archive_t", "archive") == [(1, 10), (2, 20)]
        assert shop.rows("t_v1", LAKE) == [(5,)]

    assert after_every_death(make, judge) > 10


def test_a_dropped_table_goes_from_the_target_and_its_database_too() -> None:
    shop = routed()
    shop.run()
    assert names(shop) == {(LAKE, "t_v1")}
    shop.sql(f"DROP DATABASE {SCHEMA}")
    shop.watermark()
    shop.run()
    assert names(shop) == set()
    assert LAKE not in shop.lab.tables.namespaces


def test_a_database_of_several_sources_stays_when_one_of_them_is_dropped() -> None:
    shop = routed(routes=(Route(tables=("*.*",), target_schema="lake"),))
    shop.run()
    shop.sql(f"DROP DATABASE {SCHEMA}")
    shop.watermark()
    shop.run()
    assert names(shop) == set()
    assert "lake" in shop.lab.tables.namespaces


def test_a_table_that_is_kept_makes_room_beside_its_name_in_the_target() -> None:
    shop = routed(routes=(Route(tables=("shop.t*",), target_schema="lake", target_table="only"),), drop_table="keep")
    dropped = shop.sql("DROP TABLE t")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    assert names(shop) == {("lake", "only"), ("lake", f"only_dropped_{dropped}")}


SHARED = (Route(tables=("*.*",), target_schema="lake"),)


@PROTOCOLS
@pytest.mark.parametrize("rows", [1, 1000])
def test_a_table_that_would_share_a_name_stops_the_job_before_it_is_made(protocol: str, rows: int) -> None:
    shop = routed(protocol, SHARED)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)", schema="other")
    shop.watermark()
    with pytest.raises(UsageError, match=r"`shop`.`t` and `other`.`t` would both be `lake`.`t` .*target-table.*tables"):
        shop.run(rows)
    assert names(shop) <= {("lake", "t")}
    shop.configure(routes=(Route(tables=("other.*",), target_schema="{schema}"), *SHARED))
    shop.run()
    assert names(shop) == {("lake", "t"), ("other", "t")}


def test_a_rename_to_a_shared_name_stops_the_job_before_it() -> None:
    shop = routed(routes=SHARED)
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)", schema="other")
    shop.watermark()
    shop.run()
    shop.sql("RENAME TABLE other.u TO other.t")
    shop.watermark()
    with pytest.raises(UsageError, match=r"`shop`.`t` and `other`.`t` would both be `lake`.`t`"):
        shop.run()
    assert names(shop) == {("lake", "t"), ("lake", "u")}


def test_first_rows_of_a_table_that_would_share_a_name_stop_the_job() -> None:
    shop = routed(routes=SHARED)
    shop.run()
    shop.tables["other", "t"] = msgspec.structs.replace(shop.tables[SCHEMA, "t"], schema="other")
    shop.bootstrap("t", schema="other")
    shop.insert("t", schema="other", id="1", v="1")
    shop.watermark()
    with pytest.raises(UsageError, match="would both be"):
        shop.run()


def test_a_table_of_a_full_read_that_would_share_a_name_stops_the_job() -> None:
    shop = routed(routes=SHARED, snapshot="now")
    shop.run()
    shop.tables["other", "t"] = msgspec.structs.replace(shop.tables[SCHEMA, "t"], schema="other")
    with pytest.raises(UsageError, match="would both be"):
        shop.run(again=True)


def test_the_rules_of_tables_that_are_there_cannot_change() -> None:
    shop = routed()
    shop.run()
    shop.configure(routes=())
    with pytest.raises(UsageError, match=r"`shop`.`t` is `lake_shop`.`t_v1` in the target, and would be `shop`.`t`"):
        shop.start()
    shop.configure(routes=(Route(tables=("shop.new_*",), target_schema="new"), *ROUTES))
    shop.sql("CREATE TABLE new_1 (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    assert names(shop) == {(LAKE, "t_v1"), ("new", "new_1")}
    shop.configure(routes=ROUTES)
    with pytest.raises(UsageError, match=r"`shop`.`new_1` is `new`.`new_1`"):
        shop.start()


def test_rules_that_change_in_the_midst_of_a_batch_do_not_lose_a_table_that_it_renamed() -> None:
    shop = routed()
    shop.run()
    shop.sql("RENAME TABLE t TO u")
    shop.watermark()
    shop.dies("rename", after=True)
    changed = (Route(tables=("shop.u",), target_table="other"), *ROUTES)
    shop.configure(routes=changed)
    with pytest.raises(UsageError, match="while a batch was under way"):
        shop.start()
    shop.configure(routes=ROUTES)
    shop.run()
    assert names(shop) == {(LAKE, "u_v1")}


def test_a_name_in_the_target_that_another_table_has_is_not_taken_for_its_own() -> None:
    shop = routed()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY, v INT)")
    shop.insert("u", id="1", v="1")
    shop.watermark()
    tables = shop.lab.tables.tables
    shop.run()
    tables[LAKE, "u_v1"] = tables[LAKE, "t_v1"]  # by the lake's own tool
    with pytest.raises(DecisionNeeded, match=r"`shop`.`u` would be `lake_shop`.`u_v1` .* has `shop`.`t` there"):
        shop.run(again=True)


def test_status_shows_the_name_in_the_target() -> None:
    shop = routed()
    shop.run()
    progress = shop.lab.state.progress
    assert progress is not None
    job = job_of(shop.setup, scratch_folder("routes"))
    (table,) = describe(Identity(job.file, job.name, IcebergConfig(warehouse="x")), progress, None, None, 0.0).tables
    assert (table.name, table.target) == ("shop.t", "lake_shop.t_v1")


def test_a_table_that_is_there_already_is_adopted_under_its_name_in_the_target() -> None:
    shop = Shop(routes=ROUTES)
    shop.sql("CREATE TABLE first (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    there = msgspec.structs.replace(shop.tables[SCHEMA, "t"], schema=LAKE, name="t_v1")
    shop.lab.lake.create(there, [{"id": "1", "v": "10"}])
    shop.insert("t", id="2", v="20")
    shop.watermark()
    with pytest.raises(DecisionNeeded, match=r"a table `lake_shop`.`t_v1` already, written by no job"):
        shop.run()
    shop.configure(adopt=True)
    shop.run()
    assert (shop.rows("t_v1", LAKE), shop.condition("t")) == ([(1, 10), (2, 20)], "unverified")


def test_a_job_without_its_state_names_the_tables_that_it_had() -> None:
    shop = routed()
    shop.run()
    fresh = Shop(routes=ROUTES)
    fresh.lab.tables.tables = shop.lab.tables.tables
    with pytest.raises(DecisionNeeded, match=r"has tables of job 'sim', but not the state of the job: `shop`.`t`"):
        fresh.start()


def test_a_table_that_somebody_dropped_in_the_target_is_read_again_to_its_name() -> None:
    shop = routed(snapshot="now")
    shop.run()
    del shop.lab.tables.tables[LAKE, "t_v1"]
    with pytest.raises(DecisionNeeded, match=r"rebuild job.toml shop.t"):
        shop.start()
    shop.rebuild("t")
    for _ in range(3):
        shop.watermark()
        shop.run()
    assert shop.rows("t_v1", LAKE) == [(1, 10)]


def test_a_table_that_leaves_the_filter_by_a_rename_is_kept_under_its_name() -> None:
    shop = routed(tables=("shop.t",))
    shop.sql("RENAME TABLE t TO archive_t")
    shop.watermark()
    shop.run()
    assert (names(shop), shop.condition("t")) == ({(LAKE, "t_v1")}, "kept")
    shop.sql("RENAME TABLE archive_t TO t")
    shop.insert("t", id="2", v="20")
    shop.watermark()
    shop.run()
    assert shop.rows("t_v1", LAKE) == [(2, 20)]
