"""MODIFY COLUMN that changes values, and TIMESTAMP defaults in SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.shop import Shop, after_every_death
from ticdc_spark.errors import UsageError

PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
SHANGHAI = "Asia/Shanghai"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


NEW_YEAR, LEAP_DAY = "2024-01-01 00:00:00", "2024-02-29 01:02:03"
MODIFIED: list[tuple[str, str, str | bytes, Any, str | bytes, Any]] = [
    # the column before and after; a value of before, what it becomes; a value that comes later, how the lake has it
    ("DATETIME(6)", "DATETIME", "2024-12-31 23:59:59.500000", at("2025-01-01"), LEAP_DAY, at(LEAP_DAY)),
    ("DATETIME(6)", "DATETIME", f"{NEW_YEAR}.499999", at(NEW_YEAR), LEAP_DAY, at(LEAP_DAY)),
    (
        "DATETIME(6)",
        "DATETIME(3)",
        f"{NEW_YEAR}.123500",
        at(f"{NEW_YEAR}.124"),
        f"{LEAP_DAY}.001",
        at(f"{LEAP_DAY}.001"),
    ),
    ("TIME(3)", "TIME", "23:59:59.500", "24:00:00", "01:00:00", "01:00:00"),
    ("TIME(3)", "TIME", "-10:00:00.501", "-10:00:01", "01:00:00", "01:00:00"),
    ("TIME", "TIME(2)", "10:00:00", "10:00:00.00", "01:00:00.50", "01:00:00.50"),
    ("DATETIME(3)", "VARCHAR(30)", f"{NEW_YEAR}.120", f"{NEW_YEAR}.120", "x", "x"),
    ("DATETIME", "TIMESTAMP", "2024-07-01 08:00:00", at("2024-07-01 00:00+00:00"), LEAP_DAY, at(f"{LEAP_DAY}+00:00")),
    ("TIMESTAMP", "DATETIME", "2024-07-01 00:00:00", at("2024-07-01 08:00:00"), LEAP_DAY, at(LEAP_DAY)),
    ("BINARY(2)", "BINARY(4)", b"ab", b"ab\0\0", b"cd\0\0", b"cd\0\0"),
    ("VARBINARY(4)", "BINARY(4)", b"a", b"a\0\0\0", b"cd\0\0", b"cd\0\0"),
]


def modified(case: int, protocol: str) -> Shop:
    old, new, value, _, later, _ = MODIFIED[case]
    shop = Shop(protocol, zone=SHANGHAI)
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v {old}, z INT)")
    shop.insert("t", id="1", v=value, z="7")
    shop.insert("t", id="2", v=None, z="8")
    shop.sql(f"ALTER TABLE t MODIFY COLUMN v {new}")
    shop.insert("t", id="3", v=later, z="9")
    shop.watermark()
    return shop


@PROTOCOLS
@pytest.mark.parametrize("case", range(len(MODIFIED)))
def test_values_follow_a_type_that_changes_them(case: int, protocol: str) -> None:
    """Whether the lake's type changes or not, the rows that are there have MySQL's new values."""
    shop = modified(case, protocol)
    shop.run(2 if case % 2 else 1000)
    *_, value, _, later = MODIFIED[case]
    assert shop.columns("t") == ("id", "v", "z")
    assert shop.rows("t") == [(1, value, 7), (2, None, 8), (3, later, 9)]
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize("case", [0, 6, 7, 9])
def test_a_death_while_values_are_converted_changes_nothing(case: int) -> None:
    """A conversion is three commits, and done once."""
    *_, value, _, later = MODIFIED[case]

    def judge(shop: Shop) -> None:
        assert shop.columns("t") == ("id", "v", "z")
        assert shop.rows("t") == [(1, value, 7), (2, None, 8), (3, later, 9)]

    assert after_every_death(lambda: modified(case, "simple"), judge) >= 18


INEXACT = [
    ("BIT(8)", "VARCHAR(9)", "5", "UTC"),
    ("DATETIME", "TIMESTAMP", "2024-07-01 08:00:00", None),
    ("TIMESTAMP", "VARCHAR(30)", "2024-07-01 08:00:00", None),
]


@pytest.mark.parametrize("case", INEXACT)
def test_a_conversion_that_is_not_exact_marks_the_table(case: tuple[str, str, str, str | None]) -> None:
    """What cannot be done exactly is shown by status, with the column and the reason."""
    old, new, value, zone = case
    shop = Shop()
    shop.configure(source_timezone=zone)
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v {old})")
    shop.insert("t", id="1", v=value)
    shop.sql(f"ALTER TABLE t MODIFY COLUMN v {new}")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "diverged"
    assert "column `v`: inexact" in shop.status("t").detail
    shop.sql("TRUNCATE TABLE t")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "clean"


def added(protocol: str, default: str, **job: Any) -> Shop:
    shop = Shop(protocol, zone=SHANGHAI, **job)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.sql(f"ALTER TABLE t ADD COLUMN c TIMESTAMP NOT NULL DEFAULT {default}")
    shop.insert("t", id="2", c="2024-07-01 00:00:00")
    shop.watermark()
    return shop


LATER = (2, at("2024-07-01 00:00+00:00"))


@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
@pytest.mark.parametrize("rows", [2, 1000])
@pytest.mark.parametrize(("zone", "hour"), [(None, 2), ("America/New_York", 14), ("UTC", 10)])
def test_a_new_timestamp_column_has_its_default_in_the_zone_of_the_session(
    zone: str | None, hour: int, rows: int, protocol: str
) -> None:
    """Rows that were there get the default of the SQL, which is local time of ``ddl-timezone``, by
    default ``source-timezone``."""
    shop = added(protocol, "'2010-10-10 10:10:10'", **({"ddl_timezone": zone} if zone else {}))
    shop.run(rows)
    assert shop.rows("t") == [(1, datetime(2010, 10, 10, hour, 10, 10, tzinfo=UTC)), LATER]
    assert shop.condition("t") == "clean"


def test_a_default_that_the_message_has_in_utc_is_not_shifted() -> None:
    """Simple sends the default of a TIMESTAMP in UTC."""
    shop = added("simple", "'2010-10-10 10:10:10'")
    shop.run()
    assert shop.rows("t") == [(1, at("2010-10-10 10:10:10+00:00")), LATER]


def test_a_default_that_is_the_moment_of_the_ddl_needs_no_zone() -> None:
    """CURRENT_TIMESTAMP."""
    shop = added("open", "CURRENT_TIMESTAMP")
    shop.run()
    assert shop.rows("t") == [(1, at("2026-01-01 00:00:03+00:00")), LATER]
    assert shop.condition("t") == "diverged"  # the server's clock when the statement ran is in no message


@pytest.mark.parametrize(("kind", "value"), [("DATETIME(3)", at("2026-01-01 08:00:03")), ("DATE", date(2026, 1, 1))])
def test_the_moment_of_a_ddl_is_in_the_zone_of_its_session(kind: str, value: object) -> None:
    shop = Shop("open", zone=SHANGHAI)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.sql(f"ALTER TABLE t ADD COLUMN c {kind} DEFAULT NOW(3)")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, value)]


@pytest.mark.parametrize(("ambiguous", "hour"), [("earlier", 5), ("later", 6), ("reject", None)])
def test_a_default_that_is_two_times_in_its_zone_is_chosen_as_rows_are(ambiguous: str, hour: int | None) -> None:
    """By ``ambiguous-timestamp``, which can refuse it."""
    keys = {"ddl_timezone": "America/New_York", "ambiguous_timestamp": ambiguous}
    shop = added("open", "'2024-11-03 01:30:00'", **keys)
    if hour is None:
        with pytest.raises(UsageError, match=r"ddl-timezone: the default of the new column `c`: .* happens twice"):
            shop.run()
        return
    shop.run()
    assert shop.rows("t") == [(1, datetime(2024, 11, 3, hour, 30, tzinfo=UTC)), LATER]


@pytest.mark.parametrize("kind", ["DATETIME", "TIMESTAMP"])
def test_a_value_with_more_digits_than_its_column_becomes_text_without_them(kind: str) -> None:
    """Seed 7314000: the message of a DDL that gave the column more digits could not be read."""
    shop = Shop("debezium", on_reject="continue")
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind} NULL)")
    shop.change(f"ALTER TABLE t MODIFY COLUMN v {kind}(3) NULL")
    shop.insert("t", id="1", v=f"{NEW_YEAR}.499")
    shop.sql("ALTER TABLE t MODIFY COLUMN v VARCHAR(40)")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, NEW_YEAR)]


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("DECIMAL(5,2)", "1.005", Decimal("1.01")),
        ("YEAR", "70", 1970),
        ("CHAR(6)", "'a  '", "a"),
        ("VARCHAR(6)", "1e2", "100"),
        ("ENUM('a','b')", "2", "b"),
        ("TIME", "'1:02:03'", "01:02:03"),
    ],
)
def test_old_rows_have_the_default_as_a_server_reads_it(kind: str, default: str, value: object) -> None:
    shop = Shop("open")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.sql(f"ALTER TABLE t ADD COLUMN c {kind} DEFAULT {default}")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, value)]
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("TIME", "'10:20:30.6'"),
        ("DATETIME", "'2020-01-01 10:20:30.6'"),
        ("FLOAT(5,2)", "1.005"),
        ("YEAR", "0"),
        ("DECIMAL(5,2)", "1000"),
        ("CHAR(6) CHARACTER SET latin1", "x'E9'"),
        ("INT", "1 + 1"),
        ("VARCHAR(30)", "CURRENT_TIMESTAMP"),
    ],
)
def test_a_default_that_servers_read_differently_marks_the_table(kind: str, default: str) -> None:
    shop = Shop("open")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.sql(f"ALTER TABLE t ADD COLUMN c {kind} DEFAULT {default}")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, None)]
    assert shop.condition("t") == "diverged"
    assert "column `c`: rows from before it have NULL in place of its default" in shop.status("t").detail
