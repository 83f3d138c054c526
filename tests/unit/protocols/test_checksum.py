"""Row checksums: the bytes of each type, what is verified and what is not, and what a mismatch reports."""

from __future__ import annotations

import random
import struct
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.simple_examples import ROW, TABLES, USER
from tests.support.simple_examples import change as user_change
from tests.unit.protocols.simple.test_simple_properties import tables_and_rows
from ticdc_spark import mysql
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Checksum, Column, Rejected, RowChange, Table, Value
from ticdc_spark.mysql.checksum import column_parts, row_checksums
from ticdc_spark.protocols.avro.decode import AvroDecoder
from ticdc_spark.protocols.avro.encode import AvroConfig
from ticdc_spark.protocols.avro.encode import encoder as avro
from ticdc_spark.protocols.avro.schema import table_from_schemas
from ticdc_spark.protocols.base import ReadOptions, decode, read_envelope, row_change
from ticdc_spark.protocols.checksums import Summer, expected, verifier
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

VERIFIED = ReadOptions(verify_checksum=True)
HELLO = b"\5\0\0\0hello"


@pytest.mark.parametrize(
    ("type_name", "value", "wanted"),
    [
        ("int", "-1", b"\xff" * 8),
        ("tinyint unsigned", "255", b"\xff" + bytes(7)),
        ("bigint unsigned", str(2**64 - 1), b"\xff" * 8),
        ("year", "1999", b"\xcf\x07" + bytes(6)),
        ("bit(64)", str(2**63), bytes(7) + b"\x80"),
        ("enum('a','b')", "2", b"\2" + bytes(7)),
        ("set('a','b')", "3", b"\3" + bytes(7)),
        ("float", "0.1", struct.pack("<d", 0.10000000149011612)),
        ("double", "0.1", struct.pack("<d", 0.1)),
        ("varchar(9)", "hello", HELLO),
        ("varbinary(9)", b"hello", HELLO),
        ("text", "é", b"\2\0\0\0\xc3\xa9"),
        ("text", b"\xff", b"\1\0\0\0\xff"),
        ("decimal(6,2)", "-0.10", b"\5\0\0\0-0.10"),
        ("time(1)", "-12:00:00.5", b"\x0b\0\0\0-12:00:00.5"),
        ("timestamp", "2020-01-01 00:00:00", b"\x13\0\0\0" + b"2020-01-01 00:00:00"),
        ("json", '{"a": 1}', b'\x08\0\0\0{"a": 1}'),
        ("vector", "[1,2.5]", struct.pack("<I2f", 2, 1, 2.5)),
        ("geometry", b"\0\1", b""),
        ("int", None, b""),
    ],
)
def test_what_a_value_adds(type_name: str, value: Value, wanted: bytes) -> None:
    assert column_parts(mysql.parse_type(type_name))([value]) == [wanted]


def test_a_checksum_is_over_all_columns_in_their_order() -> None:
    types = [mysql.parse_type("int"), mysql.parse_type("varchar(9)")]
    cells: list[list[Value]] = [["1", None], ["hello", "hello"]]
    assert row_checksums(types)(cells) == [crc32(b"\1" + bytes(7) + HELLO), crc32(HELLO)]


@pytest.mark.parametrize(("type_name", "value"), [("int", "x"), ("float", "1e300"), ("vector", "["), ("vector", "1")])
def test_what_is_no_value_has_no_checksum(type_name: str, value: Value) -> None:
    with pytest.raises(MessageError, match="to compute a checksum of"):
        column_parts(mysql.parse_type(type_name))([value])


def test_what_is_verified_of_a_message() -> None:
    sums = Checksum(version=2, corrupted=False, current=7, previous=8)
    assert expected(sums) == (8, 7)
    assert expected(None) == expected(sums, partial=True) == (None, None)
    # 0: the row was written without, or is half of a split update
    assert expected(replace(sums, current=0, previous=0)) == (None, None)
    # the old row may be that of a row before ADD COLUMN
    assert expected(replace(sums, version=0)) == (None, 7)


CONFIG = SimpleConfig(enable_row_checksum=True, compute_row_checksum=True)
UPDATE = user_change("update", 9, ROW, {**ROW, "age": None})


def sent(change: RowChange, sums: Checksum | None = None, **config: Any) -> RowChange | Rejected:
    """A change, as who verifies reads it."""
    to = encoder(SimpleConfig(enable_row_checksum=True, compute_row_checksum=True, **config))
    (encoded,) = to.rows([replace(change, checksum=sums) if sums else change])
    (read,) = decode(DECODER, encoded.key, encoded.value, TABLES, VERIFIED)
    assert isinstance(read, RowChange | Rejected)
    return read


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_a_wrong_value_is_bad_where_it_is_checked(encoding: Any) -> None:
    read = sent(UPDATE, encoding_format=encoding)
    assert isinstance(read, RowChange) and read.checksum and read.after == UPDATE.after
    wrong = replace(read.checksum, current=read.checksum.current ^ 1)
    found = sent(UPDATE, wrong, encoding_format=encoding)
    assert isinstance(found, Rejected)
    assert found.reason.startswith("after image of `simple`.`user`: the row's checksum is ")
    assert f"{read.checksum.current}, its message has {wrong.current}" in found.reason
    old = sent(UPDATE, replace(read.checksum, version=2, previous=1), encoding_format=encoding)
    assert isinstance(old, Rejected) and old.reason.startswith("before image of")

    (encoded,) = encoder(replace(CONFIG, encoding_format=encoding)).rows([replace(UPDATE, checksum=wrong)])
    (unverified,) = decode(DECODER, encoded.key, encoded.value, TABLES)
    assert isinstance(unverified, RowChange) and unverified.after == UPDATE.after


def test_a_row_that_its_source_marks_is_bad_even_if_it_fits() -> None:
    read = sent(UPDATE)
    assert isinstance(read, RowChange) and read.checksum
    marked = sent(UPDATE, replace(read.checksum, corrupted=True))
    assert isinstance(marked, Rejected) and marked.reason.endswith("TiCDC marked the row as corrupted")
    insert = sent(replace(UPDATE, op="insert", before=None), replace(read.checksum, corrupted=True, current=1))
    assert isinstance(insert, Rejected) and "its message has 1" in insert.reason
    assert insert.reason.endswith("; TiCDC marked the row as corrupted")


def test_keys_only_and_rows_without_a_checksum_are_not_verified() -> None:
    (event,) = DECODER.open_message(None, next(iter(encoder(CONFIG).rows([UPDATE]))).value)
    wrong = replace(event, checksum=Checksum(version=2, corrupted=False, current=1, previous=1))
    assert isinstance(read_envelope(DECODER, wrong, TABLES, VERIFIED), Rejected)
    assert isinstance(read_envelope(DECODER, replace(wrong, partial=True), TABLES, VERIFIED), RowChange)
    assert isinstance(read_envelope(DECODER, replace(event, checksum=None), TABLES, VERIFIED), RowChange)


def table(**types: str) -> Table:
    columns = tuple(Column(name=name, type=mysql.parse_type(text)) for name, text in types.items())
    return Table(schema="s", name="t", columns=columns)


def crc(of: Table, row: dict[str, Value]) -> int:
    (found,) = row_checksums([column.type for column in of.columns])([[row[c.name]] for c in of.columns])
    return found


def reasons(of: Table, row: dict[str, Value], wanted: int) -> dict[int, str]:
    return verifier(of)([[row[column.name]] for column in of.columns], [wanted], [False])


def test_a_mismatch_names_what_would_fit() -> None:
    of = table(a="int", v="varchar(9)", x="timestamp", y="timestamp")
    row: dict[str, Value] = {"a": "1", "v": "hello", "x": "2024-03-31 10:00:00", "y": "2024-11-03 01:30:00"}
    assert reasons(of, row, crc(of, row)) == {}
    assert reasons(of, row, crc(of, {**row, "v": None}))[0].endswith("; it fits if `v` is NULL")
    shifted = crc(of, {**row, "y": "2024-11-03 02:30:00"})
    assert "it fits if `y` is +60 minutes away" in reasons(of, row, shifted)[0]
    away = crc(of, {**row, "x": "2024-03-31 02:00:00", "y": "2024-11-02 17:30:00"})
    assert "it fits if `x`, `y` is -480 minutes away: source-timezone" in reasons(of, row, away)[0]
    assert "`v` holds U+FFFD" in reasons(of, {**row, "v": "\ufffd", "x": "0000-00-00 00:00:00"}, 5)[0]
    assert reasons(of, row, 5)[0].endswith("its message has 5")


def test_a_value_that_is_none_makes_only_its_own_row_bad() -> None:
    of = table(a="int")
    good = crc(of, {"a": "7"})
    found = verifier(of)([["7", "x", "7"]], [good, good, good], [False] * 3)
    assert found.keys() == {1} and "no int to compute a checksum of" in found[1]


@pytest.mark.parametrize(
    "by_id",
    ["bcda", "acdb", "cdba", "bacd", "abdc"],
    ids=["first added last", "second added last", "two added", "moved", "last moved"],
)
def test_columns_in_another_order_than_their_ids_fit(by_id: str) -> None:
    of = table(a="int", b="varchar(9)", c="int", d="int")
    source = replace(of, columns=tuple(next(c for c in of.columns if c.name == name) for name in by_id))
    verify = verifier(of)
    for number in range(3):  # the first finds the order, the others know it
        row: dict[str, Value] = {"a": str(number), "b": "x", "c": "5", "d": "-6"}
        cells = [[row[column.name]] for column in of.columns]
        assert verify(cells, [crc(source, row)], [False]) == {}
        assert verify(cells, [crc(source, {**row, "c": "6"})], [False])


def test_other_orders_are_not_looked_for_in_wide_tables() -> None:
    wide = table(**{f"c{at}": "int" for at in range(46)})
    row: dict[str, Value] = {f"c{at}": str(at) for at in range(46)}
    turned = replace(wide, columns=(*wide.columns[1:], wide.columns[0]))
    assert reasons(wide, row, crc(wide, row)) == {}
    assert reasons(wide, row, crc(turned, row))


def test_only_changes_without_a_checksum_get_one() -> None:
    fill = Summer()
    carried = Checksum(version=2, corrupted=False, current=1, previous=2)
    assert fill(replace(UPDATE, checksum=carried)).checksum == carried
    assert fill(replace(UPDATE, partial=True)).checksum is None
    insert = fill(replace(UPDATE, op="insert", before=None)).checksum
    assert insert and (insert.version, insert.previous) == (0, 0) and insert.current == crc(USER, UPDATE.after)  # type: ignore[arg-type]
    (plain,) = encoder(SimpleConfig(enable_row_checksum=True)).rows([UPDATE])
    assert b"checksum" not in (plain.value or b"")


class Schemas(dict[int, str]):
    def register(self, subject: str, schema: str) -> int:
        self[len(self) + 1] = schema
        return len(self)


def test_avro_computes_and_verifies_too() -> None:
    schemas = Schemas()
    config = AvroConfig(
        enable_tidb_extension=True,
        enable_row_checksum=True,
        compute_row_checksum=True,
        avro_decimal_handling_mode="string",
        avro_bigint_unsigned_handling_mode="string",
    )
    (encoded,) = avro(config, schemas).rows([replace(UPDATE, op="insert", before=None)])
    decoder = AvroDecoder(schemas)
    (event,) = decoder.open_message(encoded.key, encoded.value)
    of = table_from_schemas(schemas[1], schemas[2])
    reader = decoder.row_reader(of, ReadOptions())
    assert isinstance(row_change(event, of, reader, verifier(of)), RowChange)
    other = replace(event, checksum=Checksum(version=2, corrupted=False, current=3, previous=0))
    assert isinstance(row_change(other, of, reader, verifier(of)), Rejected)


@given(tables_and_rows(), st.sampled_from(["json", "avro"]), st.randoms(use_true_random=False))
def test_what_is_computed_is_what_is_verified(
    drawn: tuple[Table, list[dict[str, Value]]], encoding: Any, chance: random.Random
) -> None:
    of, rows = drawn
    if any(column.type.name == "vector" for column in of.columns):  # any text stands for one there
        return
    tables = {(of.schema, of.name, str(of.version)): of}
    changes = [RowChange(op="update", table=of, commit_ts=1, before=rows[0], after=row) for row in rows]
    for encoded in encoder(replace(CONFIG, encoding_format=encoding)).rows(changes):
        (read,) = decode(DECODER, None, encoded.value, tables, VERIFIED)
        assert isinstance(read, RowChange) and read.checksum
        # any bit that flips on its way is found
        (event,) = DECODER.open_message(None, encoded.value)
        flipped = replace(read.checksum, version=2, current=read.checksum.current ^ 1 << chance.randrange(32))
        result = read_envelope(DECODER, replace(event, checksum=flipped), tables, VERIFIED)
        assert isinstance(result, Rejected) or flipped.current == 0
