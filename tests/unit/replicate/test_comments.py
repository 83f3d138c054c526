"""Comments of columns: each comes with the DDL that writes it, in a commit of that DDL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.job import Route

PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
CREATE = "CREATE TABLE t (id INT PRIMARY KEY COMMENT 'the ''number''', a INT, b INT COMMENT 'old')"


def comments(shop: Shop) -> dict[str, str]:
    return {one.name: one.comment for one in shop.lab.tables.tables[SCHEMA, "t"].fields if one.comment}


def told(protocol: str) -> Shop:
    shop = Shop(protocol)
    shop.sql(CREATE)
    shop.insert("t", id="1", a="1", b="1")
    shop.sql("ALTER TABLE t MODIFY a INT COMMENT 'a few', ADD COLUMN c INT COMMENT 'c'")
    shop.sql("ALTER TABLE t CHANGE b bb BIGINT COMMENT 'wide'")
    shop.sql("ALTER TABLE t MODIFY c VARCHAR(9) COMMENT 'text'")
    shop.sql("ALTER TABLE t RENAME COLUMN a TO aa")
    shop.watermark()
    return shop


@PROTOCOLS
def test_comments_follow_the_ddl_whatever_dies(protocol: str) -> None:
    def judge(shop: Shop) -> None:
        assert comments(shop) == {"id": "the 'number'", "aa": "a few", "bb": "wide", "c": "text"}
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
