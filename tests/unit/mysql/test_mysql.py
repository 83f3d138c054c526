import struct
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark import mysql
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Index, Table


def binary(name: str, **fields: object) -> ColumnType:
    return ColumnType(name=name, charset="binary", collate="binary", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("decimal(10,2) unsigned zerofill", binary("decimal", length=10, decimal=2, unsigned=True, zerofill=True)),
        ("NUMERIC", binary("decimal", length=10, decimal=0)),
        ("SERIAL", binary("bigint", length=20, unsigned=True)),
        ("dec( 5 )", binary("decimal", length=5, decimal=0)),
        ("int", binary("int", length=11)),
        ("INTEGER UNSIGNED", binary("int", length=10, unsigned=True)),
        ("int4(5)", binary("int", length=5)),
        ("int(6) zerofill", binary("int", length=6, unsigned=True, zerofill=True)),
        ("bool", binary("tinyint", length=1)),
        ("Boolean", binary("tinyint", length=1)),
        ("tinyint unsigned", binary("tinyint", length=3, unsigned=True)),
        ("real", binary("double", length=22)),
        ("double precision", binary("double", length=22)),
        ("double(20,5)", binary("double", length=20, decimal=5)),
        ("float(24)", binary("float", length=12)),
        ("float(53)", binary("double", length=22)),
        ("float(10,3) unsigned", binary("float", length=10, decimal=3, unsigned=True)),
        ("timestamp(3)", binary("timestamp", length=23, decimal=3)),
        ("datetime", binary("datetime", length=19, decimal=0)),
        ("time(6)", binary("time", length=17, decimal=6)),
        ("date", binary("date", length=10)),
        ("year", binary("year", length=4, unsigned=True, zerofill=True)),
        ("bit(4)", binary("bit", length=4, unsigned=True)),
        ("bit", binary("bit", length=1, unsigned=True)),
        ("varbinary(16)", binary("varbinary", length=16)),
        ("char byte", binary("binary", length=1)),
        ("longblob", binary("longblob", length=4294967295)),
        ("json", binary("json", length=4294967295)),
        ("vector(3)", binary("vector", length=3)),
        ("vector", binary("vector")),
        ("varchar(20)", ColumnType(name="varchar", length=20)),
        ("char varying(7)", ColumnType(name="varchar", length=7)),
        ("national character varying(7)", ColumnType(name="varchar", length=7)),
        ("char", ColumnType(name="char", length=1)),
        ("text charset latin1", ColumnType(name="text", length=65535, charset="latin1")),
        (
            "varchar(5) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            ColumnType(name="varchar", length=5, charset="utf8mb4", collate="utf8mb4_bin"),
        ),
        ("enum('a','b''c')", ColumnType(name="enum", length=3, elements=("a", "b'c"))),
        ("enum('a)', 'x,y' ,'')", ColumnType(name="enum", length=3, elements=("a)", "x,y", ""))),
        ("set('世','x\\y')", ColumnType(name="set", length=7, elements=("世", "x\\y"))),
    ],
)
def test_parse_type(text: str, expected: ColumnType) -> None:
    assert mysql.parse_type(text) == expected


def test_parse_type_with_backslash_escapes() -> None:
    assert mysql.parse_type(r"enum('a\'b','c\\d','e\nf')", backslash_escapes=True).elements == ("a'b", "c\\d", "e\nf")


@pytest.mark.parametrize(
    "text", ["", "(3)", "int(", "int(a)", "enum", "enum('a'", "enum(1)", "int gigantic", "enum('a'b)"]
)
def test_parse_type_refuses(text: str) -> None:
    with pytest.raises(MessageError, match="column type"):
        mysql.parse_type(text)


@pytest.mark.parametrize(
    "text",
    [
        "int(10) unsigned zerofill",
        "bigint(20)",
        "tinyint(1)",
        "decimal(10,0)",
        "decimal(65,30) unsigned",
        "float",
        "float(10,3)",
        "double unsigned",
        "double(20,5)",
        "varchar(20)",
        "char(3)",
        "longtext",
        "varbinary(5)",
        "tinyblob",
        "enum('a','b''c','')",
        "set('x,y','世')",
        "datetime",
        "datetime(6)",
        "timestamp(3)",
        "time",
        "date",
        "year(4)",
        "bit(9)",
        "json",
        "vector(3)",
        "vector",
    ],
)
def test_format_type_prints_what_parse_type_read(text: str) -> None:
    assert mysql.format_type(mysql.parse_type(text)) == text


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("tinyint", (-128, 127)),
        ("mediumint unsigned", (0, 16777215)),
        ("bigint", (-(2**63), 2**63 - 1)),
        ("bigint unsigned", (0, 2**64 - 1)),
        ("bit(64)", (0, 2**64 - 1)),
        ("year", (0, 2155)),
        ("enum('a','b')", (0, 2)),
        ("set('a','b')", (0, 3)),
        ("decimal(3,0)", None),
    ],
)
def test_integer_range(text: str, bounds: tuple[int, int] | None) -> None:
    assert mysql.integer_range(mysql.parse_type(text)) == bounds


def test_the_charset_distinguishes_text_and_bytes() -> None:
    text = ColumnType(name="varchar", charset="utf8mb4")
    raw = ColumnType(name="varchar", charset="binary")
    assert (mysql.is_text(text), mysql.is_bytes(text)) == (True, False)
    assert (mysql.is_text(raw), mysql.is_bytes(raw)) == (False, True)
    assert mysql.is_bytes(mysql.parse_type("blob"))
    assert not mysql.is_text(mysql.parse_type("json"))
    assert not mysql.is_text(mysql.parse_type("enum('a')"))


def table(*indexes: Index, nullable: str = "", virtual: str = "") -> Table:
    columns = tuple(
        Column(name=n, type=mysql.parse_type("int"), nullable=n in nullable, virtual=n in virtual) for n in "abcd"
    )
    return Table(schema="s", name="t", columns=columns, indexes=indexes)


def unique(name: str, columns: str) -> Index:
    return Index(name=name, unique=True, primary=False, nullable=False, columns=tuple(columns))


def test_handle_key_prefers_the_primary_key_then_the_shortest_oldest_unique_key() -> None:
    primary = Index(name="primary", unique=True, primary=True, nullable=False, columns=("c", "a"))
    plain = Index(name="i", unique=False, primary=False, nullable=False, columns=("a",))
    assert mysql.handle_key(table(unique("u", "b"), primary)) == ("c", "a")
    assert mysql.handle_key(table(plain, unique("u", "ab"), unique("v", "c"), unique("w", "d"))) == ("c",)
    assert mysql.handle_key(table(unique("u", "b"), nullable="b")) == ()
    assert mysql.handle_key(table(unique("u", "b"), unique("v", "cd"), virtual="b")) == ("c", "d")
    assert mysql.handle_key(table(plain)) == ()


@pytest.mark.parametrize(
    ("text", "bits", "expected"),
    [
        ("0.1", 32, "0.1"),
        ("0.10000000149011612", 32, "0.1"),
        ("340282000000000000000000000000000000000", 32, "3.40282e38"),
        ("3.4028235e+38", 32, "3.4028235e38"),
        ("16777216", 32, "16777216"),
        ("1e-45", 32, "1e-45"),
        ("1.50", 64, "1.5"),
        ("-0", 64, "-0"),
        ("1" + "0" * 308, 64, "1e308"),
        ("0.0000001", 64, "1e-7"),
        ("9007199254740993", 64, "9007199254740992"),
        ("5e-324", 64, "5e-324"),
        ("+7", 64, "7"),
    ],
)
def test_canonical_float(text: str, bits: int, expected: str) -> None:
    assert mysql.canonical_float(text, bits) == expected


@pytest.mark.parametrize("text", ["", "abc", "inf", "nan", "1e999"])
def test_canonical_float_refuses(text: str) -> None:
    with pytest.raises(MessageError):
        mysql.canonical_float(text, 64)
    with pytest.raises(MessageError):
        mysql.canonical_float("3500000000" + "0" * 29, 32)
    with pytest.raises(MessageError):
        mysql.canonical_float("1e39", 32)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_canonical_float_32_reads_back_and_is_stable(number: float) -> None:
    text = mysql.canonical_float(repr(number), 32)
    assert struct.pack("<f", float(text)) == struct.pack("<f", number)
    assert mysql.canonical_float(text, 32) == text
    assert mysql.canonical_float(f"{number:.60f}", 32) == text or abs(number) < 1e-30


@given(
    st.from_regex(r"-?(0|[0-9]{1,9}|0\.0{0,6}[0-9]{1,9}|[0-9]{1,9}\.[0-9]{1,9})", fullmatch=True),
    st.sampled_from((32, 64)),
)
def test_a_number_as_ticdc_writes_it_is_canonical_by_its_text_as_by_its_value(text: str, bits: int) -> None:
    assert mysql.canonical_float(text, bits) == mysql.float_text(float(text), bits)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_canonical_float_64_reads_back_and_is_stable(number: float) -> None:
    text = mysql.canonical_float(repr(number), 64)
    assert struct.pack("<d", float(text)) == struct.pack("<d", number)
    assert mysql.canonical_float(text, 64) == text


def test_canonical_integer() -> None:
    assert [mysql.canonical_integer(t) for t in ("0042", "-0", "+5", "0000", "18446744073709551615")] == [
        "42",
        "0",
        "5",
        "0",
        "18446744073709551615",
    ]
    for bad in ("", "1.0", "1_0", " 1", "٣"):
        with pytest.raises(MessageError):
            mysql.canonical_integer(bad)


def test_canonical_decimal() -> None:
    cases = [("1.5", 2), ("-0.0", 1), ("007", 0), (".5", 1), ("1.2345", 2), ("1.2300", 2), ("-00.10", 2)]
    assert [mysql.canonical_decimal(*c) for c in cases] == ["1.50", "0.0", "7", "0.5", "1.2345", "1.23", "-0.10"]
    for bad in ("", ".", "1e5", "x", "1,5"):
        with pytest.raises(MessageError):
            mysql.canonical_decimal(bad, 2)


def test_canonical_datetime_changes_no_value() -> None:
    assert mysql.canonical_datetime("2024-01-02 03:04:05", 3) == "2024-01-02 03:04:05.000"
    assert mysql.canonical_datetime("-11:12:13.140000", 2) == "-11:12:13.14"
    assert mysql.canonical_datetime("11:12:13.145", 2) == "11:12:13.145"
    assert mysql.canonical_datetime("11:12:13.000", 0) == "11:12:13"


def test_enum_and_set_names() -> None:
    odd = mysql.parse_type("enum('a','')")
    plain = mysql.parse_type("enum('a','b')")
    assert [mysql.enum_name(odd, i) for i in "012"] == ["", "a", ""]
    assert (mysql.enum_index(odd, ""), mysql.enum_index(plain, ""), mysql.enum_index(plain, "b")) == ("2", "0", "2")
    flags = mysql.parse_type("set('x','y','z')")
    assert [mysql.set_names(flags, m) for m in ("0", "5", "7")] == ["", "x,z", "x,y,z"]
    assert [mysql.set_mask(flags, n) for n in ("", "z,x", "y")] == ["0", "5", "2"]
    for bad in (
        lambda: mysql.enum_name(plain, "3"),
        lambda: mysql.enum_index(plain, "c"),
        lambda: mysql.set_mask(flags, "q"),
    ):
        with pytest.raises(MessageError):
            bad()
    with pytest.raises(MessageError, match="beyond its 3 members"):
        mysql.set_names(flags, "8")


@given(st.integers(0, 2**64 - 1))
def test_set_of_64_members_round_trips(mask: int) -> None:
    wide = ColumnType(name="set", elements=tuple(f"m{i}" for i in range(64)))
    assert mysql.set_mask(wide, mysql.set_names(wide, str(mask))) == str(mask)


@pytest.mark.parametrize(
    ("local", "zone", "digits", "expected"),
    [
        ("2024-01-02 03:04:05.678", "UTC", 3, "2024-01-02 03:04:05.678"),
        ("2021-05-06 07:08:09", "Asia/Shanghai", 6, "2021-05-05 23:08:09.000000"),
        ("2021-05-06 07:08:09", "+08:00", 0, "2021-05-05 23:08:09"),
        ("2021-05-06 07:08:09", "-03:30", 0, "2021-05-06 10:38:09"),
        ("0000-00-00 00:00:00", "Asia/Shanghai", 0, "0000-00-00 00:00:00"),
        ("2023-11-05 00:30:00", "America/St_Johns", 0, "2023-11-05 03:00:00"),
        ("2024-03-10 01:59:59", "America/New_York", 0, "2024-03-10 06:59:59"),
        # clocks went from 02:00 to 03:00: read with the offset from before
        ("2024-03-10 02:30:00", "America/New_York", 0, "2024-03-10 07:30:00"),
        # an offset with seconds: -00:44:30
        ("1971-06-01 00:00:00.5", "Africa/Monrovia", 1, "1971-06-01 00:44:30.5"),
        ("2038-01-19 11:14:07.999999", "Asia/Shanghai", 6, "2038-01-19 03:14:07.999999"),
    ],
)
def test_utc_timestamp(local: str, zone: str, digits: int, expected: str) -> None:
    assert mysql.utc_timestamp(local, zone, digits) == expected


def test_ambiguous_timestamp_is_read_as_configured() -> None:
    twice = ("2024-11-03 01:30:00", "America/New_York", 0)
    assert mysql.utc_timestamp(*twice) == "2024-11-03 05:30:00"
    assert mysql.utc_timestamp(*twice, "later") == "2024-11-03 06:30:00"
    with pytest.raises(MessageError, match="happens twice"):
        mysql.utc_timestamp(*twice, "reject")
    with pytest.raises(MessageError, match="never happens"):
        mysql.utc_timestamp("2024-03-10 02:30:00", "America/New_York", 0, "reject")


@pytest.mark.parametrize("zone", ["Nowhere/Land", "", "../etc/passwd", "Local", "+99:00"])
def test_unknown_zone_is_named(zone: str) -> None:
    with pytest.raises(MessageError, match="time zone"):
        mysql.utc_timestamp("2024-01-01 00:00:00", zone, 0)


@pytest.mark.parametrize("text", ["", "2024-01-01", "2024-13-01 00:00:00", "2024-01-01 00:00:xx", "2024-01-01 00:00"])
def test_text_that_is_no_timestamp(text: str) -> None:
    with pytest.raises(MessageError, match="TIMESTAMP"):
        mysql.utc_timestamp(text, "Asia/Shanghai", 0)
    with pytest.raises(MessageError, match="TIMESTAMP"):
        mysql.local_timestamp(text, "Asia/Shanghai")


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2038, 1, 18)),  # noqa: DTZ001 - the text is UTC by definition
    st.sampled_from(["Asia/Shanghai", "America/St_Johns", "Africa/Monrovia", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_timestamp_round_trips_through_local_time(instant: datetime, zone: str) -> None:
    text = f"{instant:%Y-%m-%d %H:%M:%S.%f}"
    local = mysql.local_timestamp(text, zone)
    aware = instant.replace(tzinfo=ZoneInfo("UTC")).astimezone(ZoneInfo(zone))
    assert local == f"{aware:%Y-%m-%d %H:%M:%S.%f}"
    assert text in {mysql.utc_timestamp(local, zone, 6), mysql.utc_timestamp(local, zone, 6, "later")}


def test_tso() -> None:
    commit_ts = 447984099186180098
    assert mysql.tso_physical_ms(commit_ts) == 1708923718209
    assert mysql.tso(1708923718209, commit_ts & (1 << 18) - 1) == commit_ts


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [
        ("int", "7", "7"),
        ("bit(10)", 10, "10"),
        ("float", "1.50", "1.5"),
        ("decimal(10,4)", "1.5", "1.5000"),
        ("year", "0000", "0"),
        ("enum('x','y')", "y", "2"),
        ("set('r','s')", "r,s", "3"),
        ("date", "2020-02-29", "2020-02-29"),
        ("datetime(6)", "2020-02-29 01:02:03.456", "2020-02-29 01:02:03.456000"),
        ("timestamp", "2021-05-05 23:08:09", "2021-05-05 23:08:09"),
        ("timestamp", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        ("time(6)", "-11:12:13.141516", "-11:12:13.141516"),
        ("varchar(20)", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
        ("varchar(20)", "", ""),
        ("binary(4)", "xy", b"xy\0\0"),
        ("varbinary(4)", "xy", b"xy"),
        ("varbinary(4)", b"\xff", b"\xff"),
        ("varbinary(4)", "\ufffd", mysql.NO_CONSTANT),
        ("datetime", "CURRENT_TIMESTAMP", mysql.NO_CONSTANT),
        ("datetime(3)", "2000-01-02", "2000-01-02 00:00:00.000"),
        ("timestamp", "2000-1-2 3:4", "2000-01-02 03:04:00"),
        ("datetime(1)", "2000-01-02T03:04:05.5", "2000-01-02 03:04:05.5"),
        ("datetime", "20000102030405", "2000-01-02 03:04:05"),
        ("date", "20000102", "2000-01-02"),
        ("date", "2000-1-2", "2000-01-02"),
        ("date", "2000-01-02 03:04:05", mysql.NO_CONSTANT),
        ("datetime", "2000-01", mysql.NO_CONSTANT),
        ("timestamp(3)", "CURRENT_TIMESTAMP(3)", mysql.NO_CONSTANT),
        ("date", "curdate()", mysql.NO_CONSTANT),
        ("int", "rand()", mysql.NO_CONSTANT),
        ("json", "json_object(_utf8mb4'k', 1)", mysql.NO_CONSTANT),
        ("text", "abc", mysql.NO_CONSTANT),
    ],
)
def test_default_value(text: str, default: object, expected: object) -> None:
    column = Column(name="c", type=mysql.parse_type(text), nullable=False, default=default)  # type: ignore[arg-type]
    assert mysql.default_value(column) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", "0"),
        ("double", "0"),
        ("decimal(10,2)", "0.00"),
        ("varchar(3)", ""),
        ("binary(2)", b"\0\0"),
        ("blob", b""),
        ("enum('x','y')", "1"),
        ("set('x','y')", "0"),
        ("bit(4)", "0"),
        ("year", "0"),
        ("date", "0000-00-00"),
        ("datetime(3)", "0000-00-00 00:00:00.000"),
        ("timestamp", "0000-00-00 00:00:00"),
        ("time", "00:00:00"),
        ("json", "null"),
        ("vector(3)", "[]"),
    ],
)
def test_no_default_is_null_or_the_implicit_value(text: str, expected: object) -> None:
    column = Column(name="c", type=mysql.parse_type(text))
    assert mysql.default_value(column) is None
    assert mysql.default_value(Column(name="c", type=column.type, nullable=False)) == expected


@pytest.mark.parametrize(
    ("old", "new", "merges"),
    [
        ("int", "bigint unsigned", False),
        ("bigint", "tinyint", False),
        ("int", "varchar(9)", False),
        ("int", "decimal(10,2)", False),
        ("int", "float", True),
        ("varchar(20)", "varchar(10)", False),
        ("varchar(20)", "text", False),
        ("varchar(20)", "int", True),
        ("varchar(20)", "varbinary(20)", True),
        ("binary(4)", "blob", False),
        ("decimal(10,2)", "decimal(12,4)", False),
        ("decimal(10,2)", "decimal(10,1)", True),
        ("decimal(10,2)", "int", True),
        ("datetime(6)", "datetime", True),
        ("datetime", "datetime(3)", False),
        ("date", "datetime", False),
        ("datetime", "date", True),
        ("datetime", "varchar(30)", False),
        ("timestamp", "varchar(30)", True),
        ("timestamp", "datetime", True),
        ("enum('a','b')", "enum('b','a','c')", False),
        ("enum('a','b')", "enum('a')", True),
        ("enum('a')", "varchar(9)", False),
        ("float", "double", False),
        ("double", "float", True),
        ("year", "int", False),
        ("decimal(5,0)", "int", False),
        ("int", "double", False),
        ("bigint", "double", True),
        ("time", "varchar(20)", False),
        ("varchar(9)", "char(9)", True),
        ("varbinary(9)", "binary(9)", True),
        ("year", "year", False),
        ("bit(8)", "bit(16)", False),
    ],
)
def test_which_changes_of_a_type_may_make_two_values_equal(old: str, new: str, merges: bool) -> None:
    assert mysql.may_merge(mysql.parse_type(old), mysql.parse_type(new)) is merges


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,9})(\.[0-9]{1,6})?", fullmatch=True)
ODD = st.sampled_from(["", "\n", "1\n2", "-", "1.", "-0", "0.00001", "1e5", "inf", "nan", "1.50", "٣", "12345678"])


@given(st.lists(NUMBERS | ODD | st.none(), max_size=6), st.sampled_from((32, 64)))
def test_floats_that_are_canonical_together_are_canonical_alone(texts: list[str | None], bits: int) -> None:
    if mysql.are_canonical_floats(texts, bits):
        there = [text for text in texts if text is not None]
        assert [mysql.canonical_float(text, bits) for text in there] == there


def test_usual_floats_are_canonical_together() -> None:
    assert mysql.are_canonical_floats(["757.5", None, "-0.125", "0", "1234567"], 32)
    assert not mysql.are_canonical_floats(["757.5", "757.50"], 32)
    assert not mysql.are_canonical_floats(["1", "2\n3"], 32)
    assert not mysql.are_canonical_floats(["1", ""], 32)
