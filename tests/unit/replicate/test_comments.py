"""Comments of tables and columns: each comes with the DDL that writes it, in a commit of that DDL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.job import Route
from ticdc_spark.ddl import Comments

PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
CREATE = "CREATE TABLE t (id INT PRIMARY KEY COMMENT 'the ''number''', a INT, b INT COMMENT 'old') COMMENT 'all t'"


def comments(shop: Shop) -> dict[str, str]:
    return {one.name: one.comment for one in shop.lab.tables.tables[SCHEMA, "t"].fields if one.comment}


def table_comment(shop: Shop) -> str:
    return shop.lab.tables.tables[SCHEMA, "t"].comment


def told(protocol: str) -> Shop:
    shop = Shop(protocol)
    shop.sql(CREATE)
    shop.insert("t", id="1", a="1", b="1")
    shop.sql("ALTER TABLE t MODIFY a INT COMMENT 'a few', ADD COLUMN c INT COMMENT 'c'")
    shop.sql("ALTER TABLE t ENGINE=InnoDB COMMENT='every t'")
    shop.sql("ALTER TABLE t CHANGE b bb BIGINT COMMENT 'wide'")
    shop.sql("ALTER TABLE t MODIFY c VARCHAR(9) COMMENT 'text'")
    shop.sql("ALTER TABLE t RENAME COLUMN a TO aa")
    shop.watermark()
    return shop


@PROTOCOLS
def test_comments_follow_the_ddl_whatever_dies(protocol: str) -> None:
    def judge(shop: Shop) -> None:
        assert comments(shop) == {"id": "the 'number'", "aa": "a few", "bb": "wide", "c": "text"}
        assert table_comment(shop) == "every t"
        assert shop.rows("t") == [(1, 1, 1, None)]
        assert shop.condition("t") == "clean"

    assert after_every_death(lambda: told(protocol), judge) > 10


def test_a_comment_is_one_commit_and_only_the_source_replaces_one_of_the_target() -> None:
    shop = Shop("canal-json")
    shop.sql(CREATE)
    shop.watermark()
    shop.run()
    table = shop.lab.tables.tables[SCHEMA, "t"]
    table.fields = tuple(replace(one, comment=one.comment or "by hand") for one in table.fields)
    before = len(table.snapshots)
    shop.sql("ALTER TABLE t MODIFY a BIGINT, MODIFY b INT COMMENT ''")
    shop.watermark()
    shop.run(again=True)
    assert comments(shop) == {"id": "the 'number'", "a": "by hand"}
    assert len(shop.lab.tables.tables[SCHEMA, "t"].snapshots) == before + 1


def test_comments_come_in_arrival_mode_too() -> None:
    shop = Shop("debezium", mode="arrival")
    shop.sql(CREATE)
    shop.insert("t", id="1", a="1", b="1")
    shop.sql("ALTER TABLE t ADD c INT COMMENT 'new'")
    shop.watermark()
    shop.run()
    assert comments(shop) == {"id": "the 'number'", "b": "old", "c": "new"}
    assert table_comment(shop) == "all t"


def test_comments_go_by_the_names_in_the_target() -> None:
    rule = Route(tables=("shop.*",), drop_columns=("b",), rename_columns=(("a", "amount"),))
    shop = Shop("open", routes=(rule,))
    shop.sql(CREATE)
    shop.watermark()
    shop.run()
    assert comments(shop) == {"id": "the 'number'"}
    shop.sql("ALTER TABLE t MODIFY A INT COMMENT 'how many', MODIFY b INT COMMENT 'secret'")
    shop.watermark()
    shop.run()
    assert comments(shop) == {"id": "the 'number'", "amount": "how many"}


def to_be_read_in_full() -> Shop:
    shop = Shop("canal-json", snapshot="now")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "a": "1", "b": "1"}
    shop.comments["t"] = Comments({"id": "the number", "a": "a few"}, "all t")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    for number in range(4):
        shop.insert("other", id=str(number))
        shop.watermark()
    return shop


def go_on(shop: Shop) -> None:
    for _ in range(4):
        shop.insert("other", id=str(len(shop.rows("other") or ())))
        shop.watermark()
        shop.run()


def test_a_table_that_is_read_in_full_has_the_comments_of_the_source_whatever_dies() -> None:
    def judge(shop: Shop) -> None:
        go_on(shop)
        assert comments(shop) == {"id": "the number", "a": "a few"}
        assert table_comment(shop) == "all t"
        assert shop.rows("t") == [(1, 1, 1)]

    assert after_every_death(to_be_read_in_full, judge, rows=2) > 20


def test_a_rebuild_brings_the_comments_of_the_source_and_leaves_others() -> None:
    shop = to_be_read_in_full()
    go_on(shop)
    table = shop.lab.tables.tables[SCHEMA, "t"]
    table.fields = tuple(replace(one, comment="by hand") for one in table.fields)
    shop.comments["t"] = Comments({"A": "many"})
    shop.rebuild("t")
    go_on(shop)
    assert table_comment(shop) == "all t"
    assert comments(shop) == {"id": "by hand", "a": "many", "b": "by hand"}
    assert shop.rows("t") == [(1, 1, 1)]


@PROTOCOLS
def test_a_table_that_is_made_again_from_its_topics_has_the_comments_of_its_ddl(protocol: str) -> None:
    shop = told(protocol)
    shop.sql("ALTER TABLE t ADD COLUMN d INT COMMENT 'old d'")
    shop.sql("ALTER TABLE t DROP COLUMN d, RENAME COLUMN AA TO a")
    shop.sql("ALTER TABLE t ADD COLUMN d INT")
    shop.sql("TRUNCATE TABLE t")
    shop.insert("t", id="2", bb="2")
    shop.sql("ALTER TABLE t ADD COLUMN e INT COMMENT 'e'")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    shop.stop()
    shop.lab.lake.drop((SCHEMA, "t"))
    shop.rebuild_from_topic("t")
    shop.insert("other", id="1")
    shop.watermark()
    shop.run()
    assert comments(shop) == {"id": "the 'number'", "a": "a few", "bb": "wide", "c": "text", "e": "e"}
    assert table_comment(shop) == "every t"
    assert shop.condition("t") == "clean"
