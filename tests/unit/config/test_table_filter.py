"""TiCDC's filter rules."""

import re

import pytest

from ticdc_spark.config.table_filter import read_patterns, table_filter


@pytest.mark.parametrize(
    ("rules", "wanted", "unwanted"),
    [
        ([], ["a.b"], []),
        (["shop.*"], ["shop.orders", "SHOP.Orders"], ["shop2.orders", "x.shop"]),
        (["*.*", "!shop.tmp_*"], ["shop.orders", "shop.tmp"], ["shop.tmp_1"]),
        (["!shop.tmp_*", "*.*"], ["shop.tmp_1"], []),
        (["!shop.x"], [], ["shop.x", "shop.y"]),
        (["s?.t[0-9]"], ["s1.t5"], ["s.t5", "s1.ta", "s1.t55"]),
        (["s.t[!0-9]"], ["s.ta"], ["s.t1"]),
        (["`a.b`.`c*`"], ["a.b.c*"], ["a.b.cd"]),
        (["库.订单"], ["库.订单"], ["库.订"]),
    ],
)
def test_the_last_rule_that_matches_decides(rules: list[str], wanted: list[str], unwanted: list[str]) -> None:
    matches = table_filter(read_patterns(rules))
    for name in wanted:
        assert matches(*name.rsplit(".", 1)), name
    for name in unwanted:
        assert not matches(*name.rsplit(".", 1)), name


@pytest.mark.parametrize("rules", [["shop"], ["a.b.c"], [""], "shop.*", [1], ["a b.c"]])
def test_what_is_no_rule_is_refused(rules: object) -> None:
    with pytest.raises(ValueError):
        read_patterns(rules)


@pytest.mark.parametrize(
    ("rule", "written"),
    [
        ("my-shop.*", r"my\-shop.*"),
        ("!my-shop.tmp-[a-z]*", r"!my\-shop.tmp\-[a-z]*"),
        ("my-shop.`a-b`", r"my\-shop.`a-b`"),
        (r"a\-b.c-d", r"a\-b.c\-d"),
    ],
)
def test_a_hyphen_is_escaped_as_in_a_changefeed_and_the_error_shows_how(rule: str, written: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"write '{written}'")):
        read_patterns([rule])
    assert read_patterns([written]) == (written,)
