"""The page of the source has every option, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ticdc_spark.config.job import NATIVE
from ticdc_spark.datasource.generic import FIELDS
from ticdc_spark.datasource.options import ReadOptionsOfSource
from ticdc_spark.datasource.writer import WriteOptionsOfSource

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "spark-source.md").read_text(encoding="utf-8")
FREE = {"kafka", "schema-registry-options", "csv", "store"}
ROW = re.compile(r"^\| (.+?) \|\s*(✓?)\s*\|\s*(✓?)\s*\|", re.MULTILINE)
NOT_NAMED = FREE | {name.replace("_", "-") for name in NATIVE[1:]}
"""Options whose names begin as others do, and those that stand for all of their kind."""


def names_of(kind: type[msgspec.Struct]) -> set[str]:
    names = {field.encode_name for field in msgspec.structs.fields(kind)}
    return {name.replace("-", "") for name in names - NOT_NAMED}


def documented(column: int) -> set[str]:
    found = set()
    for names, *marks in ROW.findall(PAGE):
        if marks[column]:
            found |= {name.replace("-", "").lower() for name in re.findall(r"`([\w-]+)`", names)}
    return found


def test_every_option_is_documented_and_every_documented_option_is_one() -> None:
    assert documented(0) == names_of(ReadOptionsOfSource)
    assert documented(1) == names_of(WriteOptionsOfSource)


def test_every_column_of_the_generic_form_is_documented() -> None:
    for name, _, _ in FIELDS:
        assert f"`{name}`" in PAGE
