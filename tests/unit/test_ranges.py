"""Ranges of keys of a server's table."""

import pytest

from ticdc_spark.capture.snapshot.keys import Key, next_ranges
from ticdc_spark.errors import SourceFault
from ticdc_spark.mysql import parse_type


def test_a_key_that_does_not_rise_ends_the_planning() -> None:
    def fetch(query: str) -> Key | None:
        return ("?",)

    with pytest.raises(SourceFault, match=r"`d`.`t`: ranges of its key \(`k`\) do not get past"):
        next_ranges("`d`.`t`", ["k"], [parse_type("varchar(9)")], "", 10, 4, fetch, repr)
