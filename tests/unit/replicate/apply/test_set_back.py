"""Lake and state of different times: the job stops, and names what there is to do."""

from __future__ import annotations

import pytest

from tests.simulator.seams import Copy
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import DecisionNeeded, SourceChanged, UnsupportedDdl


def written(protocol: str = "simple", **keys: object) -> Shop:
    """A table with a row from each of four batches, and one that changes in each of them."""
    shop = Shop(protocol, **keys)  # type: ignore[arg-type]
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="0", v="0")
    for number in range(1, 5):
        shop.insert("t", id=str(number), v="x")
        shop.update("t", id="0", v=str(number))
        if number == 3:
            shop.delete("t", id="2")
        goes_on(shop)
    return shop


WHOLE = [(0, "4"), (1, "x"), (3, "x"), (4, "x")]
MODES = pytest.mark.parametrize(
    "keys", [{}, {"protocol": "canal-json", "mode": "arrival"}], ids=["watermark", "arrival"]
)


def goes_on(shop: Shop) -> None:
    if shop.keys.get("mode") != "arrival":
        shop.watermark()
    shop.run()


def values(shop: Shop) -> list[tuple[object, ...]]:
    """The rows of the table, without the column that arrival mode adds."""
    return [row[:2] for row in shop.rows("t") or ()]


def backup(shop: Shop) -> tuple[Copy, Copy]:
    """Of lake and state, at one moment."""
    return shop.saved(), shop.lab.state.save()


def restore(shop: Shop, held: tuple[Copy, Copy]) -> None:
    shop.stop()
    shop.lab.lake.restore(held[0])
    shop.lab.state.restore(held[1])


def kept(shop: Shop) -> str:
    """The tables, and what the state says but for its owner."""
    state = shop.lab.state.now()
    return repr((shop.lab.tables.tables, state.progress, state.plan))


def stops(shop: Shop, *texts: str) -> None:
    """Every start ends with the same sentence, and changes nothing."""
    before = kept(shop)
    for _ in range(2):
        with pytest.raises(DecisionNeeded) as told:
            shop.run(again=True)
        for text in texts:
            assert text in str(told.value)
    assert kept(shop) == before


# ---- no state


@MODES
def test_tables_without_the_state_of_their_job_stop_it_and_without_the_tables_it_begins_from_scratch(
    keys: dict[str, str],
) -> None:
    shop = written(**keys)
    shop.stop()
    shop.lab.state.wipe()
    stops(shop, "tables of job 'sim'", "`shop`.`t`", "Restore the target from a backup", "drop these tables")
    shop.lab.lake.drop((SCHEMA, "t"))
    goes_on(shop)
    assert values(shop) == WHOLE


def test_a_lost_state_is_restored_from_the_backup_of_the_lake() -> None:
    shop = written()
    held = backup(shop)
    shop.lab.state.wipe()
    shop.insert("t", id="9", v="y")
    shop.watermark()
    stops(shop, "Restore the target from a backup")
    shop.lab.state.restore(held[1])
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([*WHOLE, (9, "y")], "clean")


def test_at_most_five_tables_without_a_state_are_named() -> None:
    shop = Shop()
    for number in range(7):
        shop.sql(f"CREATE TABLE t{number} (id INT PRIMARY KEY)")
    goes_on(shop)
    shop.stop()
    shop.lab.state.wipe()
    stops(shop, "`shop`.`t4` and 2 more")


# ---- an older state


@MODES
def test_a_state_that_is_an_older_copy_stops_the_job(keys: dict[str, str]) -> None:
    """The marks of the tables show it."""
    shop = written(**keys)
    older = shop.lab.state.save()
    for number in ("7", "8"):
        shop.insert("t", id=number, v="y")
        goes_on(shop)
    shop.stop()
    newer = shop.lab.state.save()
    shop.lab.state.restore(older)
    stops(shop, "is an older copy. Restore the whole target from one backup")
    shop.lab.state.restore(newer)
    goes_on(shop)
    assert values(shop) == [*WHOLE, (7, "y"), (8, "y")]


def test_a_table_that_an_older_state_does_not_know_stops_the_job_once_it_comes_to_it() -> None:
    shop = written()
    older = shop.lab.state.save()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    first = shop.watermark()
    shop.insert("u", id="1")
    goes_on(shop)
    shop.lab.state.restore(older)
    with pytest.raises(DecisionNeeded, match=r"`shop`.`u` is at \d+, .* is an older copy"):
        shop.run(1, again=True)
    assert shop.applied < first


@pytest.mark.parametrize("at", ["apply rows", "save the progress"])
def test_a_batch_that_goes_less_far_after_a_death_is_of_no_older_state(at: str) -> None:
    """It had left a DDL out that cannot be replayed, and ``skip-ddl`` is taken back."""
    shop = written()
    refused = shop.sql("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE x")
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.insert("u", id="1")
    shop.insert("t", id="9", v="y")
    shop.watermark()
    skip = (SkipDdl(refused, "*"),)
    shop.configure(skip_ddl=skip)
    shop.dies(at, after=at == "apply rows")
    shop.configure(skip_ddl=())
    for _ in range(2):
        with pytest.raises(UnsupportedDdl):
            shop.run(again=True)
    shop.configure(skip_ddl=skip)
    goes_on(shop)
    assert (shop.rows("t"), shop.rows("u")) == ([*WHOLE, (9, "y")], [(1,)])


# ---- a table that is behind, or gone


@MODES
@pytest.mark.parametrize("back", [1, 3, 5])
@pytest.mark.parametrize("later", [False, True])
def test_a_table_that_was_rolled_back_stops_the_job_until_it_is_rolled_forward(
    later: bool, back: int, keys: dict[str, str]
) -> None:
    shop = written(**keys)
    newest = shop.saved()
    shop.stop()
    shop.rollback("t", back)
    if later:
        shop.insert("t", id="9", v="y")
        shop.watermark()
    cure = "drop all tables" if keys else "ticdc-spark rebuild job.toml shop.t"
    stops(shop, "it was set back to an older snapshot", "Restore the table as the job left it", cure)
    shop.lab.lake.restore_table((SCHEMA, "t"), newest)
    goes_on(shop)
    assert values(shop) == [*WHOLE, (9, "y")][: len(WHOLE) + later]


def test_a_table_that_is_rolled_back_under_a_running_job_stops_it_before_its_next_commit() -> None:
    shop = written()
    shop.rollback("t", 2)
    before = shop.rows("t")
    shop.insert("t", id="9", v="y")
    shop.watermark()
    with pytest.raises(DecisionNeeded, match=r"set back.*ticdc-spark rebuild job.toml shop.t"):
        shop.run()
    assert shop.rows("t") == before


@MODES
def test_a_table_that_was_replaced_by_an_older_copy_stops_the_job(keys: dict[str, str]) -> None:
    shop = written(**keys)
    older = shop.saved()
    shop.update("t", id="0", v="new")
    goes_on(shop)
    newest = shop.saved()
    shop.stop()
    shop.lab.lake.restore_table((SCHEMA, "t"), older)
    stops(shop, "it was restored, or replaced by an older copy", "Restore the table as the job left it")
    shop.lab.lake.restore_table((SCHEMA, "t"), newest)
    goes_on(shop)
    assert values(shop) == [(0, "new"), *WHOLE[1:]]


@MODES
def test_a_table_that_is_gone_stops_the_job(keys: dict[str, str]) -> None:
    shop = written(**keys)
    newest = shop.saved()
    shop.stop()
    shop.lab.lake.drop((SCHEMA, "t"))
    stops(shop, "is no longer in the target", "exclude it with `tables`")
    shop.lab.lake.restore_table((SCHEMA, "t"), newest)
    goes_on(shop)
    assert values(shop) == WHOLE


@MODES
def test_a_table_that_is_gone_and_excluded_does_not_stop_the_others(keys: dict[str, str]) -> None:
    shop = written(**keys)
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    goes_on(shop)
    newest = shop.saved()
    shop.stop()
    shop.lab.lake.drop((SCHEMA, "t"))
    shop.configure(tables=("shop.u",))
    shop.insert("u", id="1")
    goes_on(shop)
    assert [row[0] for row in shop.rows("u") or ()] == [1]
    shop.stop()
    shop.configure(tables=())
    stops(shop, "is no longer in the target")
    shop.lab.lake.restore_table((SCHEMA, "t"), newest)
    goes_on(shop)
    assert values(shop) == WHOLE


@pytest.mark.parametrize("how", ["is rolled back", "is gone", "is an older copy", "lost its files"])
def test_a_table_that_a_person_has_read_again_goes_on_whatever_became_of_it(how: str) -> None:
    shop = written(snapshot="now")
    older = shop.saved()
    shop.update("t", id="0", v="new")
    goes_on(shop)
    shop.stop()
    match how:
        case "is gone":
            shop.lab.lake.drop((SCHEMA, "t"))
        case "is rolled back":
            shop.rollback("t", 3)
        case "lost its files":
            shop.lab.tables.lost.add((SCHEMA, "t"))
        case _:
            shop.lab.lake.restore_table((SCHEMA, "t"), older)
    stops(shop, "`ticdc-spark rebuild job.toml shop.t` reads it again")
    shop.rebuild("t")
    for _ in range(4):
        goes_on(shop)
    assert (shop.rows("t"), shop.condition("t")) == ([(0, "new"), *WHOLE[1:]], "clean")


@pytest.mark.parametrize("point", ["change columns", "set column", "save the progress"])
@pytest.mark.parametrize(
    "ddl", ["ADD COLUMN n INT DEFAULT 5", "MODIFY COLUMN d DATETIME", "DROP COLUMN d, ADD COLUMN n INT DEFAULT 5"]
)
def test_a_table_rolled_back_beyond_a_ddl_of_an_interrupted_batch_stops_the_job(ddl: str, point: str) -> None:
    """The progress does not know of the DDL, and no rollback undoes the columns that it has made."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d="2024-01-01")
    goes_on(shop)
    shop.sql(f"ALTER TABLE t {ddl}")
    shop.watermark()
    shop.dies(point, after=point != "save the progress")
    newest = shop.saved()
    shop.rollback("t", 1)
    stops(shop, "set back", "Restore the table as the job left it")
    shop.lab.lake.restore_table((SCHEMA, "t"), newest)
    shop.run()
    (row,) = shop.rows("t") or ()
    day = "2024-01-01"
    assert " ".join(map(str, row)) == {"ADD": f"1 {day} 5", "MOD": f"1 {day} 00:00:00", "DRO": "1 5"}[ddl[:3]]
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize("point", ["change columns", "set column"])
@pytest.mark.parametrize(
    ("ddl", "row"),
    [
        ("ADD COLUMN n INT DEFAULT 5", {"d": "2024-01-01", "n": "5"}),
        ("MODIFY COLUMN d DATETIME", {"d": "2024-01-01 00:00:00"}),
        ("RENAME COLUMN d TO e, ADD COLUMN n INT DEFAULT 5", {"e": "2024-01-01", "n": "5"}),
    ],
)
def test_a_rebuild_reads_a_table_that_was_rolled_back_beyond_a_ddl(ddl: str, row: dict[str, str], point: str) -> None:
    """It is the way out that the stop names. Until it begins, the DDL must not be begun again."""
    shop = Shop(snapshot="now")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d="2024-01-01")
    shop.watermark()
    shop.run()
    shop.sql(f"ALTER TABLE t {ddl}")
    shop.held = {at: {"id": "1", **row} for at in shop.held}
    shop.watermark()
    shop.dies(point, after=True)
    shop.rollback("t", 1)
    with pytest.raises(DecisionNeeded, match=r"set back.*ticdc-spark rebuild"):
        shop.run()
    shop.rebuild("t")
    shop.run()
    assert shop.condition("t") in ("diverged", "snapshot")
    for _ in range(3):
        shop.watermark()
        shop.run()
    assert shop.columns("t") == ("id", *row)
    assert [tuple(map(str, found)) for found in shop.rows("t") or ()] == [("1", *row.values())]
    assert "diverged" not in shop.condition("t")


# ---- the lake as a whole


def test_a_lake_that_was_restored_without_the_state_stops_the_job() -> None:
    shop = written()
    older = shop.saved()
    shop.update("t", id="0", v="new")
    goes_on(shop)
    shop.stop()
    shop.lab.lake.restore(older)
    stops(shop, "If you restored the target, restore all of it")


def grown() -> tuple[Shop, tuple[Copy, Copy]]:
    """A job with a backup, after which tables changed, came, went and were renamed."""
    shop = written()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.insert("u", id="1")
    shop.run()
    held = backup(shop)
    shop.update("t", id="0", v="new")
    shop.sql("ALTER TABLE t ADD COLUMN n INT DEFAULT 3")
    shop.sql("RENAME TABLE t TO w")
    goes_on(shop)
    shop.sql("DROP TABLE u")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="5")
    goes_on(shop)
    restore(shop, held)
    return shop, held


def judge(shop: Shop) -> None:
    assert shop.rows("w") == [(0, "new", 3), *((*row, 3) for row in WHOLE[1:])]
    assert (shop.rows("t"), shop.rows("u")) == ([(5,)], None)
    assert (shop.condition("w"), shop.condition("t")) == ("clean", "clean")


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_a_lake_that_is_restored_with_its_state_goes_on_from_there(rows: int) -> None:
    shop, _ = grown()
    shop.run(rows)
    judge(shop)


def test_a_lake_that_is_restored_with_its_state_survives_every_death() -> None:
    assert after_every_death(lambda: grown()[0], judge, 5) > 20


def test_a_lake_that_is_restored_with_its_state_needs_the_messages_that_came_since() -> None:
    shop, _ = grown()
    before = kept(shop)
    shop.broker.trim(("cdc", 0), shop.broker.end_offsets()["cdc", 0])
    with pytest.raises(SourceChanged, match="the messages between were removed before they were read"):
        shop.run()
    assert kept(shop) == before
