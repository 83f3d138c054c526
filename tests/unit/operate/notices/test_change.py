"""What a notice says, and when there is none."""

from __future__ import annotations

import msgspec

from tests.support.page_examples import HOSTILE, many, seen
from tests.support.status_examples import NOW, PROGRESS, WELL, beat
from ticdc_spark.operate.notices.change import SHOWN, Message, Standing, message, standing_of
from ticdc_spark.replicate.state.conditions import Clean, Quarantined
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.table import TableState


def standing(progress: Progress, status: str = "normal") -> Standing:
    return standing_of(seen(progress, beat(status, phase="waiting")).status, lambda *_: True)


def test_a_job_that_is_as_before_is_no_news() -> None:
    assert message("shop", standing(WELL), standing(WELL), NOW) is None
    busy = msgspec.structs.replace(standing(WELL), reason="writing the tables")
    assert message("shop", standing(WELL), busy, NOW) is None


def test_a_notice_says_what_the_state_was_and_what_to_do() -> None:
    found = message("shop", standing(WELL), standing(PROGRESS), NOW)
    assert found is not None
    assert (found.state, found.was, found.job, found.at) == ("warning", "normal", "shop", NOW)
    assert found.text.startswith("shop is warning (was normal): 1 of 4 tables is quarantined, 1 of 4")
    assert "quarantined: shop.b" in found.text and "ticdc-spark dead-letters shop.toml" in found.text
    assert [(one.name, one.condition, one.was, one.detail) for one in found.tables] == [
        ("shop.a", "diverged", None, found.tables[0].detail),
        ("shop.b", "quarantined", None, "bad [json]"),
    ]


def test_a_table_that_is_clean_again_is_news_and_one_that_is_new_is_not() -> None:
    bad = TableState(schema="shop", name="orders", applied=WELL.applied, condition=Quarantined(why="x"))
    before = standing(msgspec.structs.replace(WELL, tables=(bad,)))
    found = message("shop", before, standing(WELL), NOW)
    assert found is not None and found.state == "normal"
    assert [(one.name, one.was, one.condition) for one in found.tables] == [("shop.orders", "quarantined", "clean")]
    assert message("shop", standing(msgspec.structs.replace(WELL, tables=())), standing(WELL), NOW) is None


def test_ten_thousand_tables_are_one_short_notice() -> None:
    tables = tuple(
        TableState(schema="shop", name=f"t{at:05}", condition=Quarantined(why="y" * 100)) for at in range(10_000)
    )
    broken = standing(msgspec.structs.replace(WELL, tables=tables))
    found = message("shop", standing(many(100)), broken, NOW)
    assert found is not None
    assert (found.tables_changed, len(found.tables)) == (10_000, SHOWN)
    assert "quarantined: shop.t00000, shop.t00001, shop.t00002 and 9,997 more" in found.text
    assert len(msgspec.json.encode(found)) < 10_000


def test_a_notice_is_one_json_object_whatever_a_table_is_called() -> None:
    tables = (TableState(schema="shop", name=HOSTILE + '"\n', applied=WELL.applied, condition=Clean()),)
    bad = tuple(msgspec.structs.replace(one, condition=Quarantined(why="x")) for one in tables)
    with_tables = [standing(msgspec.structs.replace(WELL, tables=one)) for one in (tables, bad)]
    found = message("shop", *with_tables, NOW)
    encoded = msgspec.json.encode(found)
    assert b"\n" not in encoded and msgspec.json.decode(encoded, type=Message) == found
