"""What stands in place of the values of masked columns."""

import hmac
from collections.abc import Sequence

import pytest

from ticdc_spark.model import Column, ColumnType, Value
from ticdc_spark.spark.masks import salt_mark
from ticdc_spark.spark.types import LakeColumn, LakeOptions, LakeType, Mask, lake_type, to_arrow

SALT = b"0123456789abcdef"
TEXT = LakeType("string", "string")


def masked(kind: ColumnType, cells: Sequence[Value], mask: Mask) -> tuple[list[object], dict[int, str]]:
    column = Column(name="c", type=kind)
    out = TEXT if mask.how == "hash" else mask.type
    array, bad, _ = to_arrow(LakeColumn(source="c", name="c", type=out, column=column, mask=mask), LakeOptions())(
        list(cells)
    )
    return array.to_pylist(), bad


def hash_of(kind: ColumnType, cell: Value) -> object:
    found, bad = masked(kind, [cell], Mask(how="hash", type=lake_type(kind, LakeOptions()), salt=SALT))
    assert not bad
    return found[0]


@pytest.mark.parametrize(
    ("kind", "cell", "text"),
    [
        (ColumnType(name="varchar", length=9), "ä", "ä".encode()),
        (ColumnType(name="blob", charset="binary"), b"\xff\0", b"\xff\0"),
        (ColumnType(name="int"), "-5", b"-5"),
        (ColumnType(name="bigint", unsigned=True), "18446744073709551615", b"18446744073709551615"),
        (ColumnType(name="bit", length=1), "1", b"1"),
        (ColumnType(name="decimal", length=9, decimal=2), "1.50", b"1.50"),
        (ColumnType(name="decimal", length=30, decimal=0), "1" + "0" * 25, b"1" + b"0" * 25),
        (ColumnType(name="double"), "1.5", b"1.5"),
        (ColumnType(name="date"), "2024-02-29", b"2024-02-29"),
        (ColumnType(name="datetime"), "2024-02-29 01:02:03", b"2024-02-29T01:02:03"),
        (ColumnType(name="timestamp", decimal=3), "2024-02-29 01:02:03.500", b"2024-02-29T01:02:03.500000"),
        (ColumnType(name="enum", elements=("a", "b")), "2", b"b"),
        (ColumnType(name="vector"), "[1,2]", b"[1.0,2.0]"),
    ],
)
def test_a_hash_is_of_the_text_of_the_value(kind: ColumnType, cell: Value, text: bytes) -> None:
    assert hash_of(kind, cell) == hmac.digest(SALT, text, "sha256").hex()
    assert hash_of(kind, None) is None


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ColumnType(name="int"), "7", 7),
        (ColumnType(name="varchar", length=9), "", ""),
        (ColumnType(name="blob", charset="binary"), "x", b"x"),
        (ColumnType(name="bit", length=1), "1", True),
    ],
)
def test_a_constant_is_in_every_row(kind: ColumnType, text: str, value: object) -> None:
    mask = Mask(how="constant", type=lake_type(kind, LakeOptions()), value=text)
    assert masked(kind, ["1", None, "no value"], mask) == ([value] * 3, {})


def test_null_is_in_every_row() -> None:
    kind = ColumnType(name="timestamp")
    mask = Mask(how="null", type=lake_type(kind, LakeOptions()))
    assert masked(kind, ["2024-02-29 01:02:03", "no time"], mask) == ([None, None], {})


def test_what_cannot_be_read_is_named_without_the_value() -> None:
    kind = ColumnType(name="int")
    found, bad = masked(kind, ["1", "secret"], Mask(how="hash", type=lake_type(kind, LakeOptions()), salt=SALT))
    assert (found[1], bad) == (None, {1: "column `c`: a value, which is masked, is no int"})


def test_no_salt_is_shown() -> None:
    mask = Mask(how="hash", type=TEXT, salt=SALT)
    assert SALT.decode() not in repr(
        LakeColumn(source="c", name="c", type=TEXT, column=Column(name="c", type=ColumnType(name="int")), mask=mask)
    )
    assert salt_mark(SALT.decode()) != salt_mark(SALT.decode() + "0")
    assert (salt_mark(None), len(salt_mark("x"))) == ("", 16)
