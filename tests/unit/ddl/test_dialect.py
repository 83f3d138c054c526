"""SQL that servers read in different ways. MariaDB's values are those of a server (11.4)."""

from __future__ import annotations

import pytest

from ticdc_spark.ddl import Dialect, Server, apply_ddl, clarified, computed_columns

TABLES = {table.full_name: table for table in apply_ddl({}, "d", "CREATE TABLE t (a INT)").created}


def _added(sql: str, dialect: Dialect) -> tuple[object, str]:
    """The default of the last column after an ALTER TABLE, and the SQL as TiDB reads it in the same way."""
    effect = apply_ddl(TABLES, "d", sql, Server(dialect))
    (altered,) = effect.altered
    return altered.after.columns[-1].default, clarified(sql, effect.clarified)


@pytest.mark.parametrize(
    ("written", "dialect", "default", "clear"),
    [
        ("INT DEFAULT X'31'", "tidb", "49", "INT DEFAULT X'31'"),
        ("INT DEFAULT X'31'", "mysql", "49", "INT DEFAULT X'31'"),
        ("INT DEFAULT X'31'", "mariadb", "1", "INT DEFAULT '1'"),
        ("INT DEFAULT X'2D35' NOT NULL", "mariadb", "-5", "INT DEFAULT '-5' NOT NULL"),
        ("DECIMAL(9,2) DEFAULT _utf8mb4 0x31", "mariadb", "1", "DECIMAL(9,2) DEFAULT '1'"),
        ("INT DEFAULT 0x31", "mariadb", "49", "INT DEFAULT 0x31"),
        ("INT DEFAULT b'110001'", "mariadb", "49", "INT DEFAULT b'110001'"),
        ("BIT(8) DEFAULT X'31'", "mariadb", 49, "BIT(8) DEFAULT X'31'"),
        ("VARCHAR(9) DEFAULT X'31'", "mariadb", "1", "VARCHAR(9) DEFAULT X'31'"),
    ],
)
def test_a_hexadecimal_default(written: str, dialect: Dialect, default: object, clear: str) -> None:
    assert _added(f"ALTER TABLE t ADD b {written}", dialect) == (default, f"ALTER TABLE t ADD b {clear}")


def test_a_hexadecimal_default_that_is_set() -> None:
    sql = "ALTER TABLE t ALTER a SET DEFAULT X'31'"
    assert _added(sql, "mariadb") == ("1", "ALTER TABLE t ALTER a SET DEFAULT '1'")


def test_a_hexadecimal_default_with_a_character_set_is_not_known() -> None:
    assert computed_columns("ALTER TABLE t ADD a INT DEFAULT _latin1 X'31', ADD b INT DEFAULT X'31'") == ("a",)
