"""Columns that are dropped, masked or renamed in the target: what a job does by the rules of ``[[route]]``."""

from __future__ import annotations

import hmac
from typing import Any

import msgspec
import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.job import Route
from ticdc_spark.errors import UnsupportedDdl, UsageError

PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
SALT = "a salt of some length"
RULE = Route(
    tables=("shop.*",),
    drop_columns=("secret*", "!secretary"),
    mask_columns=(("email", "hash"), ("mail", "hash"), ("phone", "null"), ("note", "constant:***")),
    rename_columns=(("ctime", "created_at"),),
)
COLUMNS = "email VARCHAR(40), secret INT, secretary INT, phone VARCHAR(20), note VARCHAR(20), ctime INT"
ROW = {"email": "a@x", "secret": "1", "secretary": "2", "phone": "555", "note": "private", "ctime": "7"}


def hashed(text: str) -> str:
    return hmac.digest(SALT.encode(), text.encode(), "sha256").hex()


def shaped(protocol: str = "simple", rule: Route = RULE, **job: Any) -> Shop:
    shop = Shop(protocol, routes=(rule,), mask_salt=SALT, **job)
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {COLUMNS})")
    shop.insert("t", id="1", **ROW)
    shop.watermark()
    return shop


def everything(shop: Shop) -> str:
    """All that the lake and the state hold, as text."""
    table = shop.lab.tables.tables[SCHEMA, "t"]
    return f"{[one.rows for one in table.snapshots.values()]} {shop.lab.state.progress}"


@PROTOCOLS
@pytest.mark.parametrize("rows", [2, 1000])
def test_rows_come_without_what_is_dropped_and_with_masks(protocol: str, rows: int) -> None:
    shop = shaped(protocol)
    shop.insert("t", id="2", **ROW | {"email": None, "phone": None, "note": None})
    shop.update("t", id="1", **ROW | {"email": "b@x", "secretary": "3"})
    shop.insert("t", id="3", **ROW)
    shop.delete("t", id="3")
    shop.watermark()
    shop.run(rows)
    assert shop.columns("t") == ("id", "email", "secretary", "phone", "note", "created_at")
    assert shop.rows("t") == [
        (1, hashed("b@x"), 3, None, "***", 7),
        (2, None, 2, None, "***", 7),
    ]
    assert shop.condition("t") == "clean"
    for text in ("a@x", "b@x", "555", "private", SALT):
        assert text not in everything(shop)


def test_a_full_read_makes_the_same_values_as_the_feed() -> None:
    shop = shaped(snapshot="now")
    shop.run()
    fed, before = shop.rows("t"), len(shop.faults.done)
    shop.rebuild("t")
    for _ in range(3):
        shop.watermark()
        shop.run()
    assert any(action.startswith("load") for action in shop.faults.done[before:])
    assert shop.rows("t") == fed == [(1, hashed("a@x"), 2, None, "***", 7)]
    shop.rebuild_from_topic("t")
    shop.run()
    assert shop.rows("t") == fed
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_ddl_of_such_columns_is_followed(protocol: str) -> None:
    shop = shaped(protocol)
    shop.sql("ALTER TABLE t ADD COLUMN secret2 INT DEFAULT 5")
    shop.sql("ALTER TABLE t DROP COLUMN secret")
    shop.sql("ALTER TABLE t MODIFY COLUMN secret2 BIGINT")
    shop.sql("ALTER TABLE t RENAME COLUMN secret2 TO secret3")
    shop.sql("ALTER TABLE t RENAME COLUMN email TO mail")
    shop.sql("ALTER TABLE t MODIFY COLUMN mail VARCHAR(80)")
    shop.sql("ALTER TABLE t RENAME COLUMN ctime TO made")
    row = {name: value for name, value in ROW.items() if name not in ("secret", "email", "ctime")}
    shop.insert("t", id="2", **row, secret3="9", mail="b@x", made="8")
    shop.watermark()
    shop.run()
    assert shop.columns("t") == ("id", "mail", "secretary", "phone", "note", "made")
    assert shop.rows("t") == [(1, hashed("a@x"), 2, None, "***", 7), (2, hashed("b@x"), 2, None, "***", 8)]
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_a_new_column_has_its_mask_in_older_rows_too(protocol: str) -> None:
    rule = Route(
        tables=("*.*",),
        mask_columns=(("h*", "hash"), ("n*", "null"), ("c*", "constant:0")),
        rename_columns=(("r", "renamed"),),
    )
    shop = Shop(protocol, routes=(rule,), mask_salt=SALT)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    for column in ("h INT DEFAULT 5", "h2 INT", "n INT DEFAULT 5", "c INT DEFAULT 5", "c2 INT", "r INT DEFAULT 5"):
        shop.sql(f"ALTER TABLE t ADD COLUMN {column}")
    shop.watermark()
    shop.run()
    assert shop.columns("t") == ("id", "h", "h2", "n", "c", "c2", "renamed")
    assert shop.rows("t") == [(1, hashed("5"), None, None, 0, 0, 5)]
    assert shop.condition("t") == "clean"


def test_the_type_of_a_masked_column_changes_with_that_of_the_source() -> None:
    rule = Route(tables=("*.*",), mask_columns=(("n", "null"), ("c", "constant:7")))
    shop = Shop(routes=(rule,))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT, c INT)")
    shop.insert("t", id="1", n="1", c="1")
    shop.sql("ALTER TABLE t MODIFY COLUMN n VARCHAR(9), MODIFY COLUMN c VARCHAR(9)")
    shop.insert("t", id="2", n="x", c="x")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, None, "7"), (2, None, "7")]
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize(
    ("before", "after", "condition"),
    [
        ("INT", "BIGINT", "clean"),
        ("INT", "INT UNSIGNED", "diverged"),
        ("VARCHAR(9)", "TEXT", "clean"),
        ("VARCHAR(9)", "VARCHAR(3)", "diverged"),
        ("INT", "VARCHAR(9)", "diverged"),
        ("DECIMAL(9,2)", "DECIMAL(12,2)", "clean"),
        ("DECIMAL(9,2)", "DECIMAL(12,4)", "diverged"),
        ("DATETIME", "DATETIME(3)", "clean"),
        ("DATETIME(3)", "DATETIME", "diverged"),
        ("ENUM('a','5')", "ENUM('a','5','c')", "clean"),
    ],
)
def test_hashes_of_values_that_a_ddl_may_change_mark_their_table(before: str, after: str, condition: str) -> None:
    shop = Shop(routes=(Route(tables=("*.*",), mask_columns=(("h", "hash"),)),), mask_salt=SALT)
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY, h {before})")
    shop.sql(f"ALTER TABLE t MODIFY COLUMN h {after}")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == condition


def test_whatever_kills_the_job_masks_and_names_stay() -> None:
    def make() -> Shop:
        shop = shaped()
        shop.sql("ALTER TABLE t ADD COLUMN phone2 INT DEFAULT 3, RENAME COLUMN email TO mail, DROP COLUMN secret")
        shop.sql("ALTER TABLE t RENAME COLUMN ctime TO made, MODIFY COLUMN phone TEXT")
        row = {name: value for name, value in ROW.items() if name not in ("secret", "email", "ctime")}
        shop.insert("t", id="2", **row, phone2="4", mail="b@x", made="8")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert shop.columns("t") == ("id", "mail", "secretary", "phone", "note", "made", "phone2")
        assert shop.rows("t") == [
            (1, hashed("a@x"), 2, None, "***", 7, 3),
            (2, hashed("b@x"), 2, None, "***", 8, 4),
        ]

    assert after_every_death(make, judge) > 10


def test_rows_are_found_by_a_key_that_is_hashed() -> None:
    shop = Shop(routes=(Route(tables=("*.*",), mask_columns=(("id", "hash"),)),), mask_salt=SALT)
    shop.sql("CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, v INT)")
    for key in ("a", "b", "c"):
        shop.insert("t", id=key, v="1")
    shop.watermark()
    shop.run()
    shop.update("t", id="a", v="2")
    shop.delete("t", id="b")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == sorted([(hashed("a"), 2), (hashed("c"), 1)])


@PROTOCOLS
@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Route(tables=("*.*",), drop_columns=("id",)), "drop-columns: `id` is in the key"),
        (Route(tables=("*.*",), mask_columns=(("*", "null"),)), 'mask-columns: `id` is in the key, and "null" makes'),
        (Route(tables=("*.*",), mask_columns=(("i?", "constant:1"),)), "`id` is in the key"),
        (Route(tables=("*.*",), rename_columns=(("email", "note"),)), "`email` and `note` would both be `note`"),
        (Route(tables=("*.*",), mask_columns=(("ctime", "constant:x"),)), "'x' is no value of column `ctime`"),
    ],
)
def test_a_rule_that_fits_no_table_stops_the_job_before_the_table_is_made(
    protocol: str, rule: Route, text: str
) -> None:
    shop = shaped(protocol, rule)
    with pytest.raises(UsageError, match=text):
        shop.run()
    assert shop.lake("t") is None
    shop.configure(routes=())
    shop.run()
    assert shop.rows("t") == [(1, "a@x", 1, 2, "555", "private", 7)]


@PROTOCOLS
@pytest.mark.parametrize(("column", "said"), [("email", '"hash"'), ("secret", "drop-columns")])
def test_a_column_does_not_lose_its_mask_by_a_rename(protocol: str, column: str, said: str) -> None:
    shop = shaped(protocol)
    shop.run()
    shop.sql(f"ALTER TABLE t RENAME COLUMN {column} TO plain")
    shop.insert("t", id="2", **{"plain" if name == column else name: value for name, value in ROW.items()})
    shop.watermark()
    with pytest.raises(
        UsageError, match=f"`{column}` of `shop`.`t` becomes `plain` .* {said} of `{column}`, and nothing"
    ):
        shop.run()
    assert shop.rows("t") == [(1, hashed("a@x"), 2, None, "***", 7)]
    more = {
        "email": {"mask_columns": (*RULE.mask_columns, ("plain", "hash"))},
        "secret": {"drop_columns": (*RULE.drop_columns, "plain")},
    }[column]
    shop.configure(routes=(msgspec.structs.replace(RULE, **more),))
    shop.run()
    assert len(shop.rows("t") or ()) == 2
    assert "a@x" not in everything(shop)


def test_a_table_does_not_lose_a_mask_by_a_rename() -> None:
    shop = shaped(rule=msgspec.structs.replace(RULE, tables=("shop.t",)))
    shop.run()
    shop.sql("RENAME TABLE t TO plain")
    shop.watermark()
    with pytest.raises(UsageError, match=r"`shop`.`t` becomes `shop`.`plain` .* column `ctime`, column `email`"):
        shop.run()
    assert shop.lake("plain") is None
    shop.configure(routes=(RULE,))
    shop.run()
    assert shop.rows("plain") == [(1, hashed("a@x"), 2, None, "***", 7)]


@pytest.mark.parametrize(
    "changed",
    [
        {"drop_columns": ()},
        {"drop_columns": ("secret", "secretary")},
        {"mask_columns": ()},
        {"mask_columns": (("email", "null"), *RULE.mask_columns)},
        {"rename_columns": (("ctime", "made"),)},
    ],
)
def test_rules_for_columns_that_are_there_cannot_change(changed: dict[str, Any]) -> None:
    shop = shaped()
    shop.run()
    shop.configure(routes=(msgspec.structs.replace(RULE, **changed),))
    with pytest.raises(UsageError, match=r"do something else to column .* of `shop`.`t`"):
        shop.start()


def test_rules_for_columns_that_are_not_there_may_change() -> None:
    shop = shaped()
    shop.run()
    shop.configure(routes=(msgspec.structs.replace(RULE, drop_columns=("secret*", "!secretary", "new")),))
    shop.sql("ALTER TABLE t ADD COLUMN new INT")
    shop.watermark()
    shop.run()
    assert "new" not in shop.columns("t")


def test_another_salt_is_refused_where_hashes_are() -> None:
    shop = shaped()
    shop.run()
    shop.configure(mask_salt="another salt of some length")
    with pytest.raises(UsageError, match=r"\[job\] mask-salt: columns of `shop`.`t` were hashed with another one"):
        shop.start()
    other = Shop(routes=(Route(tables=("*.*",)),), mask_salt=SALT)
    other.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    other.watermark()
    other.run()
    other.configure(mask_salt="another salt of some length")
    other.run()


def test_partitions_by_a_column_that_is_masked_are_not_computed() -> None:
    shop = Shop(routes=(Route(tables=("*.*",), mask_columns=(("id", "hash"),)),), mask_salt=SALT)
    partitions = "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) {partitions}")
    shop.insert("t", id="1")
    table = shop.tables[SCHEMA, "t"]
    ddl = shop.change("ALTER TABLE t DROP PARTITION p0")
    shop.send_ddl(msgspec.structs.replace(ddl, table=table, pre_table=table))
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=r"a rule of \[\[route\]\] drops or masks the column"):
        shop.run()
    shop.configure(partition_ddl="mark")
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(hashed("1"),)], "diverged")


def test_a_masked_value_that_cannot_be_read_is_not_shown() -> None:
    shop = Shop(routes=(Route(tables=("*.*",), mask_columns=(("v", "hash"),)),), mask_salt=SALT)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="no number")
    shop.watermark()
    with pytest.raises(Exception, match="a value, which is masked, is no int") as error:
        shop.run()
    assert "no number" not in str(error.value)


@pytest.mark.parametrize("at", ["create shop.t", "apply rows of shop.t"])
def test_a_mask_that_comes_after_a_batch_was_interrupted_does_not_find_plain_values(at: str) -> None:
    shop = shaped(rule=msgspec.structs.replace(RULE, mask_columns=()))
    shop.dies(at, after=True)
    shop.configure(routes=(RULE,))
    with pytest.raises(UsageError, match="do something else to column `email`, column `note`, column `phone` of"):
        shop.start()
    del shop.lab.tables.tables[SCHEMA, "t"]
    shop.run()
    assert shop.rows("t") == [(1, hashed("a@x"), 2, None, "***", 7)]


def test_a_mask_that_comes_before_a_table_is_made_needs_nothing() -> None:
    shop = shaped(rule=msgspec.structs.replace(RULE, mask_columns=()))
    shop.dies("create shop.t")
    shop.configure(routes=(RULE,))
    shop.run()
    assert shop.rows("t") == [(1, hashed("a@x"), 2, None, "***", 7)]


def test_a_mask_for_a_column_that_an_interrupted_batch_has_added_is_refused() -> None:
    shop = shaped()
    shop.run()
    shop.sql("ALTER TABLE t ADD COLUMN new INT")
    shop.insert("t", id="2", **ROW, new="1")
    shop.watermark()
    shop.dies("apply rows of shop.t", after=True)
    shop.configure(routes=(msgspec.structs.replace(RULE, mask_columns=(*RULE.mask_columns, ("new", "null"))),))
    with pytest.raises(UsageError, match="do something else to column `new`"):
        shop.start()


@pytest.mark.parametrize("name", ["t_dropped_2024", "t_dropped_20240131120000"])
def test_a_table_whose_name_looks_like_one_set_aside_has_the_masks_of_its_own_rule(name: str) -> None:
    rules = (
        Route(tables=(f"shop.{name}",), mask_columns=(("email", "hash"),)),
        Route(tables=("shop.t",), target_table="y"),
    )
    shop = Shop(routes=rules, mask_salt=SALT)
    shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, email VARCHAR(30))")
    shop.insert(name, id="1", email="a@x")
    shop.watermark()
    shop.run()
    (found,) = shop.lab.lake.tables().values()
    assert [row["email"] for row in found.rows] == [hashed("a@x")]


@pytest.mark.parametrize(
    "rule",
    [
        Route(tables=("*.*",), drop_columns=("*", "!id", "!v")),
        Route(tables=("*.*",), mask_columns=(("v", "hash"),)),
        Route(tables=("*.*",), mask_columns=(("v*", "constant:5"),)),
        Route(tables=("*.*",), rename_columns=(("v", "w"),)),
    ],
)
def test_a_dropped_column_that_is_kept_makes_room_whatever_the_rules_say_of_it(rule: Route) -> None:
    shop = Shop(routes=(rule,), mask_salt=SALT, drop_column="keep")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="7")
    dropped = shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.insert("t", id="2")
    shop.sql("ALTER TABLE t ADD COLUMN v VARCHAR(9)")
    shop.insert("t", id="3", v="7")
    shop.watermark()
    shop.run()
    name = "w" if rule.rename_columns else "v"
    aside = f"{name}_dropped_{dropped}"
    lake = shop.lake("t")
    assert lake is not None and lake.columns == ("id", aside, name)
    kept = {row["id"]: row[aside] for row in lake.rows}
    assert kept[1] is not None and (kept[2], kept[3]) == (None, None)
    assert shop.condition("t") == "clean"
