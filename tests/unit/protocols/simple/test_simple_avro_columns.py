"""Images of Simple in Avro read together are what they are one by one, whatever their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.simple_examples import one_column
from tests.unit.protocols.simple.test_simple_avro import image
from tests.unit.protocols.simple.test_simple_properties import tables_and_rows
from ticdc_spark import mysql
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Table, Value
from ticdc_spark.protocols.base import Columns, ReadOptions, RowReader
from ticdc_spark.protocols.shared import avro_images
from ticdc_spark.protocols.simple.avro.rows import row_reader, row_writer
from ticdc_spark.wire.avro_binary import write_long, write_text

OPTIONS = ReadOptions(source_timezone="UTC")
MANY = avro_images._MANY


def values_at(columns: Columns, at: int, names: Sequence[str]) -> object:
    absent = {name for name in names if at in columns.absent.get(name, ())}
    return [cells[at] for cells in columns.values], absent, columns.bad.get(at)


def assert_the_same(read: RowReader, table: Table, images: Sequence[bytes | None]) -> Columns:
    """Read together and one by one; gives what was read together."""
    names = [column.name for column in table.columns]
    images = [*images, *([images[0]] * (MANY - len(images)))]
    together = read(images)
    for at, single in enumerate(images):
        assert values_at(together, at, names) == values_at(read([single]), 0, names), (at, single)
    return together


def shuffled(table: Table, row: dict[str, Value], random: Random) -> bytes:
    """An image with its columns in no order, as TiCDC writes them."""
    names = [*row]
    random.shuffle(names)
    cells = [bytes(row_writer(table, "Asia/Shanghai", [name])({name: row[name]})) for name in names]
    # each is the union's branch, a block of one, the cell, no more blocks
    return b"\2" + (write_long(len(cells)) + b"".join(cell[2:-1] for cell in cells) if cells else b"") + b"\0"


def mutated(raw: bytes, random: Random) -> bytes:
    at, more = random.randrange(len(raw) + 1), random.choice([b"\0", b"\2", b"\x80", b"\xff" * 10, raw, b"{"])
    return random.choice(
        [
            raw,
            raw[:at],
            raw[:at] + more + raw[at:],
            raw[:at] + raw[at + 1 :],
            raw[:at] + bytes([random.randrange(256)]) + raw[at + 1 :],
            raw + more,
        ]
    )


@settings(max_examples=60)
@given(tables_and_rows(), st.integers(0, 2**32), st.booleans())
def test_whatever_the_bytes_are(drawn: tuple[Table, list[dict[str, Value]]], seed: int, all_columns: bool) -> None:
    table, rows = drawn
    random = Random(seed)
    whole = [shuffled(table, row, random) for row in rows or [{}]]
    some = [shuffled(table, dict(random.sample([*row.items()], len(row) // 2)), random) for row in rows]
    wrong = [mutated(random.choice(whole), random) for _ in range(MANY)]
    only = None if all_columns else frozenset(column.name for column in table.columns[::2])
    read = row_reader(table, OPTIONS, only)
    assert_the_same(read, table, [*whole, None, *some, *wrong, b""])
    assert not assert_the_same(read, table, whole).bad


EDGES = [0, 1, -1, 63, 64, -64, -65, 2**20, -(2**20) - 1, 2**55, 2**56, 2**62, -(2**62), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("column_type", ["bigint", "bigint unsigned", "bit(64)", "enum('a')"])
def test_numbers_of_every_length(column_type: str) -> None:
    table = one_column(mysql.parse_type(column_type))
    branch = b"\x0e" if "unsigned" in column_type else b"\2"
    head = b"\2\2\2c" + branch
    right = [head + write_long(number) + b"\0" for number in EDGES]
    # not the shortest form; eleven bytes; more than 64 bits
    odd = [head + raw + b"\0" for raw in (b"\x82\0", b"\x82" * 9 + b"\0", b"\x82" * 10 + b"\0", b"\xff" * 9 + b"\2")]
    found = assert_the_same(row_reader(table, OPTIONS), table, [*right, *odd])
    assert sorted(found.bad) == [len(right) + 2, len(right) + 3]
    assert len({*found.values[0][: len(right)]}) == len(EDGES)


def test_names_of_every_length() -> None:
    names = ["n" * length for length in range(1, 65)] + ["n" * 7 + end for end in ("äö", "aö", "é")]
    table = parse_create(f"CREATE TABLE s.t ({', '.join(f'`{name}` INT' for name in names)})", "s")
    row = {name: str(at) for at, name in enumerate(names)}
    images = [shuffled(table, row, Random(seed)) for seed in range(MANY)]
    found = assert_the_same(row_reader(table, OPTIONS), table, images)
    assert not found.bad
    assert [cells[0] for cells in found.values] == [*row.values()]
    unknown = [b"\2\2" + write_text(name) + b"\2\2\0" for name in ("N", "nm", "n\0", "n" * 63 + "m", "")]
    found = assert_the_same(row_reader(table, OPTIONS), table, [*images, *unknown])
    assert sorted(found.bad) == [*range(MANY, MANY + len(unknown))]


def test_a_name_with_a_zero_behind_it_is_another() -> None:
    table = one_column(mysql.parse_type("int"))
    images = [b"\2\2\2c\2\2\0"] * MANY + [b"\2\2\4c\0\2\2\0"]
    assert [*assert_the_same(row_reader(table, OPTIONS), table, images).bad] == [MANY]


def test_a_table_without_a_usual_name() -> None:
    table = parse_create(f"CREATE TABLE s.t (`{'n' * 64}` INT)", "s")
    images = [bytes(row_writer(table, "UTC")({"n" * 64: str(at)})) for at in range(MANY)]
    assert assert_the_same(row_reader(table, OPTIONS), table, images).values[0][-1] == str(MANY - 1)


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(b"\2\4\2a\2\2\2a\2\4\0", id="a column twice"),
        pytest.param(b"\2\4\2a\x08\2x\2a\2\4\0", id="a column twice, once wrong"),
        pytest.param(b"\2", id="one byte"),
        pytest.param(b"", id="no byte"),
        pytest.param(b"\2\2\2a\2\2\2\2b\2\4\0", id="two blocks"),
        pytest.param(b"\2\1\x0a\2a\2\2\2\2\0", id="a block with its size"),
        pytest.param(b"\2\0", id="empty"),
        pytest.param(b"\2\2\2a\0", id="no end"),
        pytest.param(b"\2\2\xff", id="a name's length that is none"),
        pytest.param(b"\2\2\2a\2\2\0\0", id="more behind the end"),
        pytest.param(b'{"a":1}', id="JSON"),
        pytest.param(b"\0\2\2a\2\2\0", id="another branch of the image"),
        pytest.param(b"\2\2\2a\x10\2\0", id="a branch beyond the union"),
        pytest.param(b"\2\2\2a\x08\2x\0", id="another branch than the column's"),
        pytest.param(b"\2\2\2c\x08\2\xff\0", id="text that is not UTF-8"),
        pytest.param(b"\2\2\2d\x08\2\xff\0", id="a date that is not UTF-8"),
        pytest.param(b"\2\2\2c\x08\1x\0", id="a negative length"),
        pytest.param(b"\2\2\2c\x08\x81\0", id="a negative length that ends at a zero"),
        pytest.param(b"\2\2\2c\x08" + b"\x82" + b"\x80" * 9 + b"\0x\0", id="a length of eleven bytes"),
        pytest.param(b"\2\2\2t\x0c\x90\3x\0", id="a zone beyond all images"),
        pytest.param(b"\2\2\2c\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1x\0", id="a length bomb"),
        pytest.param(b"\2\2\2t\x0c\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1x\0", id="a length bomb in a timestamp"),
        pytest.param(b"\2\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1\2a\2\2\0", id="a count bomb"),
        pytest.param(b"\2\2\2t\x0c\x06UTC\x02x\0", id="a time that is none"),
        pytest.param(b"\2\2\2f\4\0\0\xc0\x7f\0", id="NaN"),
        pytest.param(b"\2\2\2f\4\0\0", id="half a float"),
    ],
)
def test_one_odd_image_among_others(odd: bytes) -> None:
    table = parse_create("CREATE TABLE s.t (a INT, b INT, c VARCHAR(9), d DATE, t TIMESTAMP NULL, f FLOAT)", "s")
    usual = image({"a": 1, "b": None, "c": "x", "d": "2024-02-29", "t": None, "f": ("float", 1.5)})
    read = row_reader(table, OPTIONS)
    for at in (0, MANY // 2, MANY - 1):
        images = [usual] * MANY
        images[at] = odd
        found = assert_the_same(read, table, images)
        assert {*found.bad} <= {at}
        assert found.values[2].count("x") >= MANY - 1
