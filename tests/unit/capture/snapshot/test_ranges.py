"""Ranges of keys of a server's table."""

import pytest
from msgspec.structs import replace

from ticdc_spark.capture.snapshot.keys import Key, KeyedTable, Range, condition, next_ranges
from ticdc_spark.errors import SourceFault
from ticdc_spark.mysql import parse_type


def test_a_key_that_does_not_rise_ends_the_planning() -> None:
    def fetch(query: str) -> Key | None:
        return ("?",)

    table = KeyedTable(source="`d`.`t`", names=["k"], types=[parse_type("varchar(9)")], literal=repr)
    with pytest.raises(SourceFault, match=r"`d`.`t`: ranges of its key \(`k`\) do not get past"):
        next_ranges(table, fetch, "", rows=10, count=4)


def test_a_key_that_has_no_unicode_is_written_as_its_bytes() -> None:
    """Beside a number, and only where the column is text of such a set."""
    kinds = [parse_type("int"), replace(parse_type("varchar(9)"), charset="big5", collate="big5_chinese_ci")]
    of = Range(above=("7", b"\xc7\xa1'"), upto=("8", "a"))
    assert condition(["n", "k"], kinds, of, repr) == (
        "(`n` >= 7 AND (`n` > 7 OR (`n` = 7 AND `k` > _big5 X'c7a127')))"
        " AND (`n` <= 8 AND (`n` < 8 OR (`n` = 8 AND `k` <= 'a')))"
    )
    assert condition(["b"], [parse_type("varbinary(9)")], Range((b"x",), None), repr) == "`b` > b'x'"
