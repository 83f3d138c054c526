"""Tables whose default character set is binary, in protocols whose DDL is only SQL."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop

_NO_TEXT = b"\xff\xfe"


@pytest.mark.parametrize("protocol", ["canal-json", "open"])
@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE t (id INT PRIMARY KEY, v TEXT) CHARSET=binary",),
        ("CREATE TABLE t (id INT PRIMARY KEY) CHARSET=binary", "ALTER TABLE t ADD v TEXT"),
        ("CREATE TABLE t (id INT PRIMARY KEY)", "ALTER TABLE t CHARSET=binary", "ALTER TABLE t ADD v TEXT"),
        ("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "ALTER TABLE t CONVERT TO CHARACTER SET binary"),
        (
            "CREATE TABLE u (id INT PRIMARY KEY) CHARSET=binary",
            "CREATE TABLE t LIKE u",
            "RENAME TABLE t TO w, w TO t",
            "TRUNCATE TABLE t",
            "ALTER TABLE t ADD v TEXT",
        ),
        ("CREATE DATABASE shop CHARSET binary", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"),
        ("ALTER DATABASE CHARSET binary", "CREATE TABLE t (id INT PRIMARY KEY)", "ALTER TABLE t ADD v TEXT"),
    ],
)
def test_text_columns_have_bytes_where_the_default_is_binary(protocol: str, statements: tuple[str, ...]) -> None:
    shop = Shop(protocol)
    for sql in statements:
        shop.sql(sql)
        shop.watermark()
        shop.run(again=True)
    shop.insert("t", id="1", v=_NO_TEXT)
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, _NO_TEXT)]


@pytest.mark.parametrize("sql", ["ALTER DATABASE shop CHARSET latin1", "DROP DATABASE shop", "CREATE DATABASE shop"])
def test_a_database_does_not_keep_an_old_default(sql: str) -> None:
    shop = Shop("canal-json")
    for one in ("CREATE DATABASE shop CHARSET binary", sql, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"):
        shop.sql(one)
        shop.watermark()
        shop.run(again=True)
    shop.insert("t", id="1", v="x")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, "x")]
