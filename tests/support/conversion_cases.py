"""Column types and values for tests of MODIFY COLUMN: every type is tried with every other."""

from collections.abc import Iterator

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Value
from ticdc_spark.mysql import Ambiguous, parse_type
from ticdc_spark.sinks.conversions import Conversion, conversion
from ticdc_spark.spark.types import LakeColumn, LakeOptions, lake_type

ZONE = "America/New_York"
_TEXT = ("", "0", "12", " 7 ", "-3.5", "2.5", "1e2", ".5", "abc", "A", "b", "a,b", "b,a", "é😀", "tail  ", "x\t ")
_TEXT += ("2024-02-29", "20240229", "2024-2-9 1:2:3.5", "2024-07-01 23:59:59.999999", "20240101103000", "10:20:30.5")
_TEXT += ("-838:59:59", "-00:00:00.6", "1999", "00", "0000", "70", "2024-13-01", "1.5e-7", "99999999999999999999")
_TEXT += ("2023-03-12 02:30:00", "2023-11-05 01:30:00", "9007199254740993", "nan", "1\n")

VALUES: dict[str, tuple[str | bytes, ...]] = {
    "tinyint(4)": ("0", "1", "-1", "127", "-128", "69", "70"),
    "tinyint(3) unsigned": ("0", "1", "2", "255", "99"),
    "int(11)": ("0", "1", "-1", "2", "3", "2147483647", "-2147483648", "20240229", "240229", "103000", "-103000"),
    "int(10) unsigned": ("0", "5", "4294967295", "101", "991231"),
    "bigint(20)": (
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "20240229103000",
        "240229103000",
        "16777217",
        "2024",
    ),
    "bigint(20) unsigned": ("0", "3", "18446744073709551615", "9007199254740993", "9223372036854775808"),
    "year(4)": ("0", "1901", "2024", "2155"),
    "bit(1)": ("0", "1"),
    "bit(9)": ("0", "1", "511", "97"),
    "bit(64)": ("0", "18446744073709551615", "9223372036854775807"),
    "float": ("0", "-0", "0.1", "2.5", "-3.5", "1e-45", "3.4028235e38", "16777216", "1.1754944e-38", "0.5", "1.5"),
    "double": (
        "0",
        "0.1",
        "0.5",
        "1.5",
        "2.5",
        "-0.5",
        "1e22",
        "1e-7",
        "1.7976931348623157e308",
        "5e-324",
        "123456.789",
        "9007199254740992",
        "9.223372036854775e18",
        "1.844674407370955e19",
        "0.002",
        "1.1e23",
        "2.2250738585072014e-308",
    ),
    "decimal(10,2)": ("0.00", "1.50", "-1.50", "2.50", "-0.50", "0.49", "99999999.99", "0.01"),
    "decimal(20,6)": ("0.000000", "0.000001", "1234567.499999", "-2.500000", "0.005000"),
    "decimal(50,5)": ("0.00000", "1.50000", "-123456789012345678901234567890.12345"),
    "decimal(50,7)": ("0.0000000", "1.5000000"),
    "char(9)": ("", "abc", "b", "12", "é😀", "2.5", "2024"),
    "varchar(30)": _TEXT,
    "varchar(6)": ("", "a", "b", "tail  ", "12", "é😀"),
    "text": (*_TEXT, "long " * 9),
    "binary(4)": (b"\0\0\0\0", b"ab\0\0", b"abcd", b"\xff\0\0\0", b"2024"),
    "binary(6)": (b"\0" * 6, b"abcd\0\0"),
    "varbinary(9)": (b"", b"ab", b"\xff\xfe", b"a\0", b"12", "é".encode(), b"ab  "),
    "blob": (b"", b"ab", b"\xff" * 20, b"2024-02-29"),
    "date": ("2024-02-29", "1999-12-31", "0001-01-01", "9999-12-31", "2023-03-12"),
    "datetime": ("2024-02-29 10:20:30", "1969-12-31 23:59:59", "9999-12-31 23:59:59", "2023-11-05 01:30:00"),
    "datetime(3)": ("2024-02-29 10:20:30.500", "2024-12-31 23:59:58.999", "2023-07-01 00:00:00.000"),
    "datetime(6)": (
        "2024-02-29 10:20:30.000000",
        "1969-12-31 23:59:59.500000",
        "1960-01-01 00:00:00.499999",
        "2024-02-28 23:59:59.999999",
        "9999-12-31 23:59:59.999999",
        "1901-01-01 00:00:00.000001",
        "2024-01-01 10:20:30.000500",
        "2023-03-12 02:30:00.000000",
        "2023-11-05 01:30:00.250000",
        "0999-05-06 07:08:09.100000",
    ),
    "timestamp": ("2024-02-29 10:20:30", "1970-01-01 00:00:01", "2038-01-19 03:14:07", "2023-11-05 05:30:00"),
    "timestamp(4)": ("2024-02-29 10:20:30.5000", "2023-03-12 06:59:59.9999", "2023-11-05 06:30:00.1234"),
    "timestamp(6)": ("2024-02-29 10:20:30.499999", "2038-01-19 03:14:07.999999", "2024-06-30 23:59:59.999500"),
    "time": ("00:00:00", "-00:00:01", "838:59:59", "-838:59:59", "10:20:30"),
    "time(3)": ("10:20:30.500", "-10:20:30.501", "23:59:59.999", "837:59:59.999", "-00:00:00.400"),
    "time(6)": ("10:20:30.499999", "-00:00:00.000001", "838:59:58.500000", "100:00:00.999999"),
    "enum('a','b','A2')": ("0", "1", "2", "3"),
    "enum('b','a','x''y')": ("1", "2", "3"),
    "enum('','1','5')": ("1", "2", "3"),
    "set('a','b','c')": ("0", "1", "2", "3", "5", "7"),
    "set('c','b','a','d')": ("0", "1", "6", "15"),
    "json": ('{"a": [1, null]}',),
}


def column(kind: str, options: LakeOptions | None = None) -> LakeColumn:
    """A lake column ``c`` of a MySQL type."""
    found = parse_type(kind)
    return LakeColumn(
        source="c", name="c", type=lake_type(found, options or LakeOptions()), column=Column(name="c", type=found)
    )


def converted(change: Conversion, value: Value) -> Value | MessageError:
    """The Python result, or the error."""
    try:
        return change.python(value)
    except MessageError as error:
        return error


def every_conversion(
    zone: str | None = ZONE, ambiguous: Ambiguous = "earlier"
) -> Iterator[tuple[str, str, LakeColumn, LakeColumn, Conversion]]:
    """Every pair of types, as written and as columns."""
    columns = {kind: column(kind) for kind in VALUES}
    for old in VALUES:
        for new in VALUES:
            yield old, new, columns[old], columns[new], conversion(columns[old], columns[new], zone, ambiguous)
