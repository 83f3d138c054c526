"""The source's types and names in PostgreSQL."""

from __future__ import annotations

import msgspec
import pytest

from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.mysql import parse_type
from ticdc_spark.sinks.postgres.types import PostgresTypes, definition, is_indexable
from ticdc_spark.spark.types import NUL, LakeColumn, LakeOptions, to_arrow

TYPES = PostgresTypes()
NAMES = {
    "tinyint": "smallint",
    "tinyint unsigned": "smallint",
    "smallint unsigned": "integer",
    "mediumint unsigned": "integer",
    "int unsigned": "bigint",
    "bigint": "bigint",
    "bigint unsigned": "numeric(20,0)",
    "year": "smallint",
    "bit(1)": "boolean",
    "bit(9)": "bigint",
    "bit(64)": "numeric(20,0)",
    "float": "real",
    "double": "double precision",
    "decimal(10,2)": "numeric(10,2)",
    "decimal(65,30)": "numeric(65,30)",
    "date": "date",
    "datetime": "timestamp(0) without time zone",
    "datetime(6)": "timestamp(6) without time zone",
    "timestamp(3)": "timestamp(3) with time zone",
    "time(6)": "text",
    "varchar(20)": "text",
    "longtext": "text",
    "enum('a')": "text",
    "set('a')": "text",
    "varbinary(9)": "bytea",
    "json": "json",
    "vector": "real[]",
}


def column(sql: str, name: str = "c", **options: bool) -> LakeColumn:
    table = Table(schema="s", name="t", columns=(Column(name=name, type=parse_type(sql)),), indexes=())
    (made,) = TYPES.columns(table, (name,), LakeOptions(**options))
    return made


@pytest.mark.parametrize("sql", NAMES)
def test_each_type_has_one_that_holds_all_its_values(sql: str) -> None:
    assert column(sql).type.name == NAMES[sql]


def test_a_tinyint_1_may_be_a_boolean() -> None:
    assert column("tinyint(1)", tinyint1_as_boolean=True).type.name == "boolean"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("n" * 64, "has 64 bytes, and PostgreSQL's names have 63 at most"),
        ("名" * 22, "has 66 bytes"),
        ("xmin", "is the name of a column that PostgreSQL gives every table"),
    ],
)
def test_a_name_that_would_be_another_one_is_refused(name: str, why: str) -> None:
    with pytest.raises(DecisionNeeded, match=rf"column `{name}`: its name {why}"):
        definition(column("int", name))


def test_other_names_are_taken_as_they_are() -> None:
    assert definition(column("int", "XMIN"), key=False) == '"XMIN" integer'
    assert definition(column("int", 'a"b'), key=False) == '"a""b" integer'
    assert definition(column("int", "n" * 63)) == f'"{"n" * 63}" integer NOT NULL'


PROMOTED = [
    ("tinyint", "int", True),
    ("int", "bigint", True),
    ("bigint", "int", False),
    ("float", "double", True),
    ("double", "float", False),
    ("decimal(10,2)", "decimal(12,2)", True),
    ("decimal(10,2)", "decimal(12,3)", False),
    ("bigint unsigned", "decimal(25,0)", True),
    ("datetime", "datetime(3)", True),
    ("datetime(3)", "datetime", False),
    ("datetime", "timestamp(3)", False),
    ("int", "varchar(9)", False),
]


@pytest.mark.parametrize(("old", "new", "promoted"), PROMOTED)
def test_the_server_does_what_loses_nothing(old: str, new: str, promoted: bool) -> None:
    assert TYPES.promotes(column(old).type.name, column(new).type.name) == promoted


def test_a_column_is_converted_if_its_type_here_changes_though_its_values_do_not() -> None:
    assert TYPES.conversion(column("int"), column("smallint"), None, "earlier") is not None
    assert TYPES.conversion(column("varchar(9)"), column("varchar(20)"), None, "earlier") is None
    assert TYPES.conversion(column("varchar(9)"), column("text"), None, "earlier") is None


def test_text_with_a_character_that_the_target_has_not_is_unreadable() -> None:
    text = column("varchar(9)")
    array, bad, _ = to_arrow(text, LakeOptions())(["a", "b\0c", None])
    assert (array.to_pylist(), bad) == (["a", None, None], {1: f"column `c`: 'b\\x00c' {NUL}"})
    other = msgspec.structs.replace(text, type=msgspec.structs.replace(text.type, refuses_nul=False))
    assert to_arrow(other, LakeOptions())(["b\0c"])[1] == {}
    assert to_arrow(column("json"), LakeOptions())(['"\\u0000"'])[1] == {}


def test_a_key_is_one_here_if_every_value_fits_into_an_index() -> None:
    def indexable(*kinds: ColumnType) -> bool:
        return is_indexable(
            [msgspec.structs.replace(column("int"), column=Column(name="c", type=one)) for one in kinds]
        )

    text = ColumnType(name="varchar", length=600, charset="utf8mb4", collate="utf8mb4_bin")
    assert indexable(text, ColumnType(name="bigint"))
    assert not indexable(text, text)
    assert not indexable(ColumnType(name="text", charset="utf8mb4"))
