"""Tables with a history beside them: every change once, whatever kills the job, and whatever DDL comes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.memory_sink.letters import open_letters
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from tests.unit.replicate.test_policies import partition_ddl
from ticdc_spark.config.job import Recording, Route
from ticdc_spark.errors import DecisionNeeded, UsageError
from ticdc_spark.model import RowChange

PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
EVERY = (Recording(tables=("shop.*",)),)
BEFORES = (Recording(tables=("shop.*",), before_images=True),)


class Recorded(Shop):
    """A shop that notes what it sends."""

    def __init__(self, protocol: str = "simple", **job: Any) -> None:
        self.log: list[tuple[str, str, int, dict[str, Any]]] = []
        """Of each row change: the table, the op, the commit_ts, and the row, or its key."""
        super().__init__(protocol, **{"histories": EVERY, **job})

    def send_row(self, change: RowChange, topic: str | None = None) -> None:
        row = change.after if change.after is not None else {"id": (change.before or {})["id"]}
        found = {name: None if value is None else int(value) for name, value in row.items()}
        self.log.append((change.table.name, change.op[0].upper(), change.commit_ts, found))
        super().send_row(change, topic)

    def told(self, op: str) -> str:
        """An op as far as the protocol tells it: Open has no word for an insert."""
        return "U" if op == "I" and self.wire.name == "open" else op

    def again(self) -> None:
        """TiCDC starts again: everything comes once more."""
        for message in self.broker.read(("cdc", 0), 0, self.broker.end_offsets()["cdc", 0]):
            self.broker.append(("cdc", 0), message.key, message.value, self.ts >> 18)

    def history(self, table: str, schema: str = SCHEMA) -> list[tuple[Any, ...]]:
        """Rows of a history as the log has them: op, commit_ts, values that are not NULL; in the order of commits."""
        found = self.lake(table, schema)
        assert found is not None, table
        rows = []
        for row in found.rows:
            values = {
                name: row[name] for name in found.columns if not name.startswith("_tidb") and row[name] is not None
            }
            rows.append((self.told(row["_tidb_op"]), row["_tidb_commit_ts"], values))
        return sorted(rows, key=lambda one: (one[1], one[0] != "D", one[0]))

    def sent(self, *tables: str) -> list[tuple[Any, ...]]:
        found = [
            (self.told(op), ts, {name: one for name, one in row.items() if one is not None})
            for table, op, ts, row in self.log
            if table in tables
        ]
        return sorted(found, key=lambda one: (one[1], one[0] != "D", one[0]))


def recorded(protocol: str = "simple", **job: Any) -> Recorded:
    shop = Recorded(protocol, **job)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="10")
    shop.insert("t", id="2", v="20")
    shop.watermark()
    return shop


@PROTOCOLS
@pytest.mark.parametrize("rows", [1, 1000])
def test_every_change_is_in_the_history_once(protocol: str, rows: int) -> None:
    shop = recorded(protocol)
    shop.run(rows)
    shop.update("t", id="1", v="11")
    shop.update("t", id="1", v="12")
    shop.delete("t", id="2")
    shop.insert("t", id="2", v="21")
    shop.watermark()
    shop.run(rows, again=True)
    assert shop.history("t_history") == shop.sent("t")
    assert shop.rows("t") == [(1, 12), (2, 21)]
    assert shop.condition("t") == "clean"
    found = shop.lake("t_history")
    assert found is not None
    assert {row["_tidb_commit_time"].year for row in found.rows} == {2026}
    shop.run(again=True)
    assert shop.history("t_history") == shop.sent("t")


@PROTOCOLS
@pytest.mark.parametrize("rows", [1, 1000])
def test_a_history_with_before_images_has_what_updates_and_deletes_replace(protocol: str, rows: int) -> None:
    shop = recorded(protocol, histories=BEFORES)
    shop.update("t", id="1", v="11")
    shop.sql("ALTER TABLE t ADD COLUMN w INT")
    shop.update("t", id="1", v="12", w="5")
    shop.again()
    shop.update("t", id="1", v="13", w=None)
    shop.delete("t", id="2")
    shop.watermark()
    shop.run(rows, again=True)
    found = [(op, values) for op, _, values in shop.history("t_history") if op not in ("I", shop.told("I"))]
    updates = [("B", {"id": 1, "v": 10}), ("B", {"id": 1, "v": 11}), ("B", {"id": 1, "v": 12, "w": 5})]
    assert [one for one in found if one[0] == "B"] == updates
    assert [one for one in found if one[0] == "D"] == [("D", {"id": 2, "v": 20})]
    assert shop.rows("t") == [(1, 13, None)]
    assert shop.condition("t") == "clean"


def test_a_before_image_that_lacks_values_is_unreadable() -> None:
    shop = recorded(histories=BEFORES, on_reject="continue")
    shop.run()
    change = shop.row("delete", ("shop", "t"), {"id": "2", "v": "20"})
    shop.send_row(msgspec.structs.replace(change, before={"id": "2"}))
    shop.watermark()
    shop.run()
    assert [row for row in shop.history("t_history") if row[0] == "D"] == []
    assert shop.condition("t") == "diverged"
    (letters,) = open_letters(shop.lab.tables, "sim").held.values()
    assert [("before-images needs whole old values" in one.reason, "`v`" in one.reason) for one in letters] == [
        (True, True)
    ]


@PROTOCOLS
def test_changes_that_come_again_are_there_once(protocol: str) -> None:
    shop = recorded(protocol)
    shop.again()
    shop.run()
    shop.again()
    shop.update("t", id="1", v="11")
    shop.again()
    shop.watermark()
    shop.run()
    assert shop.history("t_history") == shop.sent("t")


@PROTOCOLS
def test_whatever_kills_the_job_every_change_is_there_once(protocol: str) -> None:
    def make() -> Shop:
        shop = recorded(protocol)
        shop.update("t", id="1", v="11")
        shop.sql("ALTER TABLE t ADD COLUMN w INT")
        shop.update("t", id="1", v="12", w="1")
        shop.delete("t", id="2")
        shop.sql("TRUNCATE TABLE t")
        shop.insert("t", id="3", v="30", w="3")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert isinstance(shop, Recorded)
        found = shop.history("t_history")
        assert [row for row in found if row[0] != "T"] == shop.sent("t")
        assert [row[0] for row in found][-2:] == ["T", shop.told("I")]
        assert shop.rows("t") == [(3, 30, 3)]

    assert after_every_death(make, judge) > 10
    assert after_every_death(make, judge, rows=4) > 20


def test_a_death_before_more_changes_come_loses_none_and_repeats_none() -> None:
    for at in ("append to", "apply rows"):
        for after in (False, True):
            shop = recorded()
            shop.dies(at, after=after)
            shop.update("t", id="1", v="11")
            shop.watermark()
            shop.run(again=True)
            assert shop.history("t_history") == shop.sent("t")


def test_a_batch_that_goes_further_than_the_one_before_the_death_appends_the_rest() -> None:
    shop = recorded()
    shop.run()
    before = shop.lab.state.save()
    shop.update("t", id="1", v="11")
    shop.watermark()
    shop.dies("append to", after=True)
    shop.lab.state.restore(before)
    shop.update("t", id="1", v="12")
    shop.watermark()
    shop.run(again=True)
    assert shop.history("t_history") == shop.sent("t")


def test_a_table_that_is_dropped_in_the_same_batch_leaves_its_history() -> None:
    def make() -> Shop:
        shop = recorded()
        shop.update("t", id="1", v="11")
        shop.sql("DROP TABLE t")
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        shop.insert("t", id="5", v="50")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert isinstance(shop, Recorded)
        found = shop.history("t_history")
        assert [row for row in found if row[0] != "T"] == shop.sent("t")
        assert [row[0] for row in found] == ["I", "I", "U", "T", "I"]
        assert shop.rows("t") == [(5, 50)]

    assert after_every_death(make, judge) > 10
    assert after_every_death(make, judge, rows=3) > 10


def test_the_history_of_a_dropped_table_stays() -> None:
    shop = recorded()
    shop.run()
    dropped = shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    assert shop.lake("t") is None
    assert shop.history("t_history") == [*shop.sent("t"), ("T", dropped, {})]


def test_a_rename_takes_the_history_along() -> None:
    def make() -> Shop:
        shop = recorded()
        shop.sql("RENAME TABLE t TO u")
        shop.update("u", id="1", v="11")
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
        shop.insert("t", id="7", x="70")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert isinstance(shop, Recorded)
        logged = sorted(shop.log, key=lambda one: one[2])
        of_t = [(op, ts, row) for name, op, ts, row in logged]
        assert shop.history("u_history") == of_t[:3]
        assert shop.history("t_history") == of_t[3:]
        assert set(shop.lab.lake.tables()) == {(SCHEMA, name) for name in ("t", "u", "t_history", "u_history")}

    assert after_every_death(make, judge) > 10
    assert after_every_death(make, judge, rows=3) > 10


def test_tables_that_change_their_names_change_their_histories() -> None:
    def make() -> Shop:
        shop = recorded()
        shop.sql("CREATE TABLE u (id INT PRIMARY KEY, v INT)")
        shop.insert("u", id="5", v="50")
        shop.sql("RENAME TABLE t TO x")
        shop.sql("RENAME TABLE u TO t")
        shop.sql("RENAME TABLE x TO u")
        shop.insert("t", id="6", v="60")
        shop.insert("u", id="3", v="30")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert isinstance(shop, Recorded)
        ids = {name: [row[2]["id"] for row in shop.history(f"{name}_history")] for name in ("t", "u")}
        assert ids == {"t": [5, 6], "u": [1, 2, 3]}

    assert after_every_death(make, judge) > 10
    assert after_every_death(make, judge, rows=3) > 10


def test_a_history_makes_room_where_a_table_takes_the_name_of_one_that_is_gone() -> None:
    shop = recorded()
    shop.run()
    shop.sql("DROP TABLE t")
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY, v INT)")
    shop.insert("u", id="5", v="50")
    renamed = shop.sql("RENAME TABLE u TO t")
    shop.insert("t", id="6", v="60")
    shop.watermark()
    shop.run()
    assert [row[2]["id"] for row in shop.history("t_history")] == [5, 6]
    assert [row[2].get("id") for row in shop.history(f"t_history_until_{renamed}")] == [1, 2, None]


def test_a_rename_to_a_name_without_history_ends_it() -> None:
    rules = (Recording(tables=("shop.t",)),)
    shop = recorded(histories=rules)
    shop.run()
    shop.sql("RENAME TABLE t TO u")
    shop.insert("u", id="5", v="50")
    shop.watermark()
    shop.run()
    assert [row[0] for row in shop.history("t_history")] == ["I", "I", "T"]
    back = shop.sql("RENAME TABLE u TO t")
    shop.insert("t", id="6", v="60")
    shop.watermark()
    shop.run()
    found = shop.history("t_history")
    assert [row[0] for row in found] == ["I", "I", "T", "R", "S", "S", "S", "I"]
    assert {row[1] for row in found[3:-1]} == {back}


def test_ddl_changes_no_row_that_is_there() -> None:
    shop = recorded()
    shop.run()
    shop.sql("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
    shop.update("t", id="1", v="11", w="7")
    shop.sql("ALTER TABLE t RENAME COLUMN w TO x")
    shop.update("t", id="1", v="12", x="8")
    shop.sql("ALTER TABLE t DROP COLUMN x")
    shop.update("t", id="1", v="13")
    changed = shop.sql("ALTER TABLE t MODIFY COLUMN v VARCHAR(20)")
    shop.update("t", id="1", v="14")
    wider = shop.sql("ALTER TABLE t ADD COLUMN x VARCHAR(5)")
    shop.update("t", id="1", v="15", x="9")
    shop.watermark()
    shop.run(3)
    assert shop.rows("t") == [(1, "15", "9"), (2, "20", None)]
    kept, old = f"v_until_{changed}", f"x_until_{wider}"
    assert [row[2] for row in shop.history("t_history")] == [
        {"id": 1, kept: 10},
        {"id": 2, kept: 20},
        {"id": 1, kept: 11, old: 7},
        {"id": 1, kept: 12, old: 8},
        {"id": 1, kept: 13},
        {"id": 1, "v": "14"},
        {"id": 1, "v": "15", "x": "9"},
    ]


def test_a_column_that_is_promoted_stays_one() -> None:
    shop = recorded()
    shop.sql("ALTER TABLE t MODIFY COLUMN v BIGINT")
    shop.insert("t", id="3", v="5000000000")
    shop.watermark()
    shop.run(2)
    assert [row[2]["v"] for row in shop.history("t_history")] == [10, 20, 5000000000]


def test_whatever_kills_the_job_a_type_change_makes_room_once() -> None:
    def make() -> Shop:
        shop = recorded()
        shop.sql("ALTER TABLE t MODIFY COLUMN v VARCHAR(20)")
        shop.update("t", id="1", v="11")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert isinstance(shop, Recorded)
        assert len(shop.columns("t_history")) == 6
        assert [row[2]["id"] for row in shop.history("t_history")] == [1, 2, 1]
        assert shop.history("t_history")[-1][2] == {"id": 1, "v": "11"}

    assert after_every_death(make, judge) > 10


def read_once(**job: Any) -> Recorded:
    """A table with rows from before the changefeed, read in full and changed since."""
    shop = Recorded(snapshot="now", **job)
    shop.tables.clear()
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)")
    shop.bootstrap("t")
    for key in ("1", "2", "3"):
        shop.row("insert", (SCHEMA, "t"), {"id": key, "v": "10", "w": "5"})
    shop.watermark()
    for _ in range(3):
        shop.watermark()
        shop.run()
    shop.update("t", id="1", v="11", w="5")
    shop.watermark()
    shop.run()
    return shop


def rebuilt(shop: Shop) -> None:
    for _ in range(3):
        shop.watermark()
        shop.run()


def test_a_full_read_brings_its_rows_into_the_history() -> None:
    shop = read_once()
    assert len(shop.rows("t")) == 3
    found = shop.history("t_history")
    assert [row[0] for row in found] == ["R", "S", "S", "S", "U"]
    base = found[0][1]
    assert [row[1:] for row in found[1:4]] == [(base, {"id": key, "v": 10, "w": 5}) for key in (1, 2, 3)]
    shop.rebuild("t")
    rebuilt(shop)
    found = shop.history("t_history")
    assert [row[0] for row in found[5:]] == ["R", "S", "S", "S"]
    assert sorted((row[2]["id"], row[2]["v"]) for row in found[6:]) == [(1, 11), (2, 10), (3, 10)]
    assert {row[1] for row in found[5:]} == {found[-1][1]}


def test_whatever_kills_the_job_a_full_read_is_in_the_history_once() -> None:
    def make() -> Shop:
        shop = read_once()
        shop.rebuild("t")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert isinstance(shop, Recorded)
        rebuilt(shop)
        found = shop.history("t_history")
        assert Counter(row[0] for row in found) == {"R": 2, "S": 6, "U": 1}
        assert shop.rows("t") == [(1, 11, 5), (2, 10, 5), (3, 10, 5)]

    assert after_every_death(make, judge) > 5


def test_the_rows_of_a_full_read_are_in_the_history_as_a_rule_shapes_them() -> None:
    rule = Route(
        tables=("*.*",), mask_columns=(("v", "constant:7"),), drop_columns=("id2",), rename_columns=(("w", "y"),)
    )
    shop = read_once(routes=(msgspec.structs.replace(rule, where="id < 3"),))
    found = shop.history("t_history")
    assert [(row[0], row[2]) for row in found if row[0] == "S"] == [
        ("S", {"id": 1, "v": 7, "y": 5}),
        ("S", {"id": 2, "v": 7, "y": 5}),
    ]


def test_a_history_that_was_not_written_for_a_while_says_so() -> None:
    shop = recorded()
    shop.run()
    shop.configure(histories=())
    shop.update("t", id="1", v="11")
    shop.sql("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
    shop.watermark()
    shop.run()
    shop.configure(histories=EVERY)
    shop.sql("ALTER TABLE t ADD COLUMN x INT DEFAULT 8")
    shop.update("t", id="1", v="12", w="7", x="8")
    shop.watermark()
    shop.run()
    _, _, told, *rows, changed = [(row[0], row[2]) for row in shop.history("t_history")]
    assert sorted([told, *rows, changed], key=repr) == [
        ("R", {}),
        ("S", {"id": 1, "v": 11, "w": 7, "x": 8}),
        ("S", {"id": 2, "v": 20, "w": 7, "x": 8}),
        ("U", {"id": 1, "v": 12, "w": 7, "x": 8}),
    ]


def test_a_history_that_begins_later_begins_with_the_rows_of_its_table() -> None:
    def make() -> Shop:
        shop = recorded(histories=())
        shop.run()
        shop.configure(histories=EVERY)
        shop.update("t", id="1", v="12")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert isinstance(shop, Recorded)
        assert [(row[0], row[2]) for row in shop.history("t_history")] == [
            ("R", {}),
            ("S", {"id": 1, "v": 10}),
            ("S", {"id": 2, "v": 20}),
            ("U", {"id": 1, "v": 12}),
        ]

    assert after_every_death(make, judge) > 3


def test_what_a_rule_masks_drops_or_renames_is_so_in_the_history() -> None:
    rule = Route(
        tables=("*.*",), mask_columns=(("v", "constant:7"),), drop_columns=("w",), rename_columns=(("x", "y"),)
    )
    shop = Recorded(routes=(rule,))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT, x INT)")
    shop.insert("t", id="1", v="10", w="20", x="30")
    shop.update("t", id="1", v="11", w="21", x="31")
    shop.watermark()
    shop.run()
    assert [row[2] for row in shop.history("t_history")] == [{"id": 1, "v": 7, "y": 30}, {"id": 1, "v": 7, "y": 31}]
    assert set(shop.columns("t_history")) == {"_tidb_op", "_tidb_commit_ts", "_tidb_commit_time", "id", "v", "y"}


def test_status_and_a_lost_state_know_of_no_history() -> None:
    shop = recorded()
    shop.run()
    assert set(shop.lab.view().tables) == {(SCHEMA, "t")}
    fresh = Recorded()
    fresh.lab.tables.tables = shop.lab.tables.tables
    with pytest.raises(DecisionNeeded, match=r"but not the state of the job: `shop`.`t`[^`]*$|: `shop`.`t`\W"):
        fresh.start()


def test_a_table_that_is_no_history_is_not_written_to() -> None:
    shop = Recorded(histories=(Recording(tables=("shop.t",), target="shop.{table}_h"),))
    shop.sql("CREATE TABLE first (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    other = msgspec.structs.replace(shop.tables[SCHEMA, "first"], name="t_h")
    shop.lab.lake.create(other, [{"id": "1"}])
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.watermark()
    with pytest.raises(
        DecisionNeeded, match=r"`shop`.`t_h`, which is not the history of `shop`.`t`: rename or drop it"
    ):
        shop.run()


@pytest.mark.parametrize("rows", [1, 1000])
def test_a_history_that_would_share_a_name_stops_the_job(rows: int) -> None:
    shop = recorded()
    shop.sql("CREATE TABLE t_history (id INT PRIMARY KEY)")
    shop.watermark()
    with pytest.raises(UsageError, match=r"the history of `shop`.`t` and `shop`.`t_history` would both be .*`target`"):
        shop.run(rows)


def test_two_histories_of_one_name_stop_the_job() -> None:
    shop = recorded(histories=(Recording(tables=("*.*",), target="all.{table}"),))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)", schema="other")
    shop.watermark()
    with pytest.raises(UsageError, match=r"the history of `other`.`t` and the history of `shop`.`t` would both be"):
        shop.run()


def test_a_column_that_every_history_has_stops_the_job() -> None:
    shop = Recorded()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, _tidb_op INT)")
    shop.watermark()
    with pytest.raises(UsageError, match=r"has a column `_tidb_op`, a name that every history uses: .*rename-columns"):
        shop.run()


def test_without_watermarks_there_is_no_history() -> None:
    shop = recorded("canal-json", mode="arrival")
    with pytest.raises(UsageError, match=r"\[\[history\]\] needs watermarks"):
        shop.run()


def test_a_dropped_table_that_is_kept_ends_when_another_takes_its_name() -> None:
    shop = recorded(drop_table="keep")
    dropped = shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    assert [row[0] for row in shop.history("t_history")] == ["I", "I"]
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="1")
    shop.watermark()
    shop.run()
    assert [row[:2] for row in shop.history("t_history")][2] == ("T", dropped)
    assert [row[0] for row in shop.history("t_history")] == ["I", "I", "T", "I"]


def test_late_rows_come_into_the_history_with_their_own_time() -> None:
    def make() -> Shop:
        shop = recorded(late_rows="apply-if-newest")
        shop.run()
        late = shop.row("insert", (SCHEMA, "t"), {"id": "3", "v": "30"})
        shop.update("t", id="1", v="11")
        shop.watermark()
        shop.run()
        shop.send_row(late, "cdc2")
        shop.update("t", id="2", v="21")
        shop.watermark("cdc", "cdc2")
        return shop

    def judge(shop: Shop) -> None:
        assert isinstance(shop, Recorded)
        assert shop.history("t_history") == shop.sent("t")
        assert shop.rows("t") == [(1, 11), (2, 21), (3, 30)]

    assert after_every_death(make, judge) > 5


def test_rows_that_go_with_their_partition_are_named() -> None:
    shop = Recorded()
    shop.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    )
    for key in (1, 5, 11):
        shop.insert("t", id=str(key), v="0")
    gone = partition_ddl(shop, "ALTER TABLE t DROP PARTITION p0")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(11, 0)]
    found = [(row[1], row[2]["id"]) for row in shop.history("t_history") if row[0] == "P"]
    assert sorted(found) == [(gone, 1), (gone, 5)]


@pytest.mark.parametrize("there", [True, False])
def test_a_history_that_was_not_written_takes_whole_rows_of_an_exchange(there: bool) -> None:
    shop = Recorded(histories=EVERY if there else ())
    shop.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    )
    shop.sql("CREATE TABLE o (id INT PRIMARY KEY, v INT)")
    shop.watermark()
    shop.run()
    shop.configure(histories=())
    for table in ("t", "o"):
        shop.sql(f"ALTER TABLE {table} ADD COLUMN w INT")
    shop.insert("o", id="3", v="33", w="7")
    shop.watermark()
    shop.run()
    shop.configure(histories=EVERY)
    partition_ddl(shop, "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE o")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(3, 33, 7)]
    assert [row[2] for row in shop.history("t_history") if row[0] == "I"] == [{"id": 3, "v": 33, "w": 7}]


def test_a_history_that_begins_after_a_partition_went_has_the_rows_that_stayed() -> None:
    shop = Recorded(histories=())
    shop.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    )
    for key in ("1", "11"):
        shop.insert("t", id=key, v="10")
    shop.watermark()
    shop.run()
    shop.configure(histories=EVERY)
    partition_ddl(shop, "ALTER TABLE t DROP PARTITION p0")
    shop.watermark()
    shop.run()
    assert shop.lake("t_history") is None
    shop.update("t", id="11", v="12")
    shop.watermark()
    shop.run()
    assert [(row[0], row[2].get("id")) for row in shop.history("t_history")] == [("R", None), ("S", 11), ("U", 11)]


def test_a_column_that_takes_the_name_of_one_of_every_history_leaves_it_as_it_is() -> None:
    shop = recorded()
    shop.run()
    before = shop.columns("t_history")
    shop.sql("ALTER TABLE t RENAME COLUMN v TO _tidb_op")
    shop.watermark()
    with pytest.raises(UsageError, match=r"has a column `_tidb_op`, a name that every history uses: .*rename-columns"):
        shop.run()
    assert shop.columns("t_history") == before


def test_the_name_of_a_history_that_makes_room_fits_every_target() -> None:
    long = "orders_of_the_previous_financial_years_all"
    shop = Recorded()
    for ddl in (f"CREATE TABLE {long}", "CREATE TABLE u"):
        shop.sql(f"{ddl} (id INT PRIMARY KEY, v INT)")
    shop.sql(f"DROP TABLE {long}")
    shop.sql(f"RENAME TABLE u TO {long}")
    shop.watermark()
    shop.run()
    names = [name for _, name in shop.lab.lake.tables()]
    assert len([name for name in names if "_until_" in name]) == 1
    assert max(map(len, names)) <= 64


@pytest.mark.parametrize("first", ["", "rename shop.u_history to shop.u3_history", "rename shop.u to shop.u3"])
def test_a_table_that_is_renamed_and_dropped_does_not_hold_a_job_that_died_behind_it(first: str) -> None:
    shop = Shop(histories=(Recording(tables=("*.*",)),))
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY, v INT)")
    shop.insert("u", id="1", v="1")
    shop.watermark()
    shop.run()
    shop.insert("u", id="5", v="5")
    shop.sql("RENAME TABLE u TO u3")
    shop.insert("u3", id="6", v="6")
    shop.sql("DROP TABLE u3")
    shop.watermark()
    if first:
        shop.dies(first)
    shop.dies("drop shop.u3", after=True)
    shop.run()
    assert shop.lake("u3") is None
    found = shop.lake("u3_history")
    assert found is not None
    assert [(row["_tidb_op"], row["id"]) for row in found.rows] == [("I", 1), ("I", 5), ("I", 6), ("T", None)]


def test_an_adopted_table_of_other_types_stops_where_its_rows_would_lack_values() -> None:
    shop = Recorded(adopt=True)
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT)")
    shop.lab.lake.create(shop.tables[SCHEMA, "t"], [{"id": "1", "v": "1"}, {"id": "7", "v": "9"}])
    shop.tables.clear()
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.bootstrap("t")
    shop.row("insert", (SCHEMA, "t"), {"id": "1", "v": "1"})
    shop.update("t", id="1", v="2")
    shop.watermark()
    with pytest.raises(DecisionNeeded, match=r"`v` \(bigint, there int\).*\[\[history\]\]"):
        shop.run()
