"""Events and cells from bytes, for what the local server does not send: other forms, MySQL's, and broken ones."""

from __future__ import annotations

import struct
import zlib

import cramjam
import pytest

from ticdc_spark.capture.binlog.assemble import savepoint
from ticdc_spark.capture.binlog.position import (
    MariadbGtids,
    MysqlGtids,
    Place,
    Position,
    read_position,
    write_position,
)
from ticdc_spark.capture.binlog.sql_text import is_control, is_dml, plain_sql, words
from ticdc_spark.capture.binlog.uri import parse_uri
from ticdc_spark.capture.binlog.values import numbers, times
from ticdc_spark.capture.binlog.values.charsets import Charsets
from ticdc_spark.capture.binlog.values.foreign import inet6_text
from ticdc_spark.capture.binlog.values.json_text import json_text
from ticdc_spark.capture.binlog.values.rows import RowReader
from ticdc_spark.capture.binlog.wire.events import (
    ANSI_QUOTES,
    NO_BACKSLASH_ESCAPES,
    Event,
    Kind,
    inflate,
    mariadb_gtid,
    mysql_gtid,
    query,
    rows_head,
)
from ticdc_spark.capture.binlog.wire.payload import unpack
from ticdc_spark.capture.binlog.wire.table_map import TableMap, Wire, table_map
from ticdc_spark.capture.binlog.wire.tagged import tagged_gtid
from ticdc_spark.config.secrets import redact
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import MessageError, UsageError

COLLATIONS = {8: ("latin1", "latin1_swedish_ci"), 45: ("utf8mb4", "utf8mb4_general_ci"), 63: ("binary", "binary")}
LATIN1 = bytes(range(256)).decode("latin1")
CHARSETS = Charsets(COLLATIONS, lambda charset: LATIN1)


def event(kind: int, body: bytes, end: int = 1000, timestamp: int = 7) -> Event:
    return Event(kind, timestamp, end, len(body) + 23, body)


def lengthed(data: bytes) -> bytes:
    return bytes([len(data)]) + data


def test_mariadb_gtids_with_and_without_a_group_commit() -> None:
    plain = struct.pack("<QIB", 41, 3, 0x09) + bytes(6)
    assert mariadb_gtid(event(162, plain), 7) == ("3-7-41", True, 0, "")
    grouped = struct.pack("<QIBQ", 42, 0, 0x0E, 99)
    assert mariadb_gtid(event(162, grouped), 1) == ("0-1-42", False, 0, "")
    starts = struct.pack("<QIBB", 43, 0, 0x29, 2) + bytes(5)
    assert mariadb_gtid(event(162, starts), 1).alter == "start"
    commits = struct.pack("<QIBBQ", 44, 0, 0x29, 4, 43)
    assert mariadb_gtid(event(162, commits), 1).alter == ""
    prepared = struct.pack("<QIBIBB", 45, 0, 0x4C, 1, 1, 1) + b"ab" + b"\x08"
    assert mariadb_gtid(event(162, prepared), 1).alter == "rollback"
    with pytest.raises(MessageError, match="ends at byte 5"):
        mariadb_gtid(event(162, bytes(5)), 1)


def test_mysql_gtids_have_microseconds_since_8_0() -> None:
    uuid = bytes(range(16))
    text = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    head = b"\1" + uuid + struct.pack("<Q", 5)
    assert mysql_gtid(event(33, head)) == (f"{text}:5", False, 0, "")
    times_7 = (1_700_000_000_123_456).to_bytes(7, "little")
    assert mysql_gtid(event(33, head + b"\2" + bytes(16) + times_7)).timestamp_us == 1_700_000_000_123_456
    both = (1_700_000_000_123_456 | 1 << 55).to_bytes(7, "little") + bytes(7)
    assert mysql_gtid(event(34, head + b"\2" + bytes(16) + both)) == ("", False, 1_700_000_000_123_456, "")


SOURCE = "3d782166-ebd0-11f1-809b-02fc00000001"
TAGGED = """02 72 00 00 02 02 7a f0 42 cc ad 03 41 03 22 c5 03 01 02 6d 02 04 f1 03 00 00 00 02 04 04 06 0a 6d 79 74 61
67 08 1c 0a 20 0c 7f cb 92 11 57 66 61 06 10 15 03 12 83 12 0b"""
"""As MySQL 9.7.4 wrote it."""
PREVIOUS = """01 03 00 00 00 00 00 01
3d 78 21 66 eb d0 11 f1 80 9b 02 fc 00 00 00 01 00 01 00 00 00 00 00 00 00
01 00 00 00 00 00 00 00 0a 00 00 00 00 00 00 00
3d 78 21 66 eb d0 11 f1 80 9b 02 fc 00 00 00 01 0a 6d 79 74 61 67 01 00 00 00 00 00 00 00
01 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00
3d 78 21 66 eb d0 11 f1 80 9b 02 fc 00 00 00 01 10 6f 74 68 65 72 74 61 67 01 00 00 00 00 00 00 00
01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00"""
"""The same server's PREVIOUS_GTIDS."""


def test_a_gtid_with_a_tag() -> None:
    assert tagged_gtid(event(42, bytes.fromhex(TAGGED))) == (f"{SOURCE}:mytag:1", False, 0x066166571192CB, "")
    without = bytes.fromhex(TAGGED).replace(b"\x0amytag", b"\0")
    assert tagged_gtid(event(42, without)).text == f"{SOURCE}:1"
    with pytest.raises(MessageError, match="ends at byte"):
        tagged_gtid(event(42, bytes.fromhex(TAGGED)[:20]))
    with pytest.raises(MessageError, match="has no GTID"):
        tagged_gtid(event(42, bytes.fromhex(TAGGED)[:5]))
    with pytest.raises(MessageError, match="is of version 2"):
        tagged_gtid(event(42, b"\4" + bytes.fromhex(TAGGED)[1:]))


def test_a_gtid_set_with_tags_is_written_as_the_server_writes_it() -> None:
    found = MysqlGtids(f"{SOURCE}:1-9:mytag:1:othertag:1")
    found.add(f"{SOURCE}:mytag:2")
    assert str(found) == f"{SOURCE}:1-9,{SOURCE}:mytag:1-2,{SOURCE}:othertag:1"
    assert str(MysqlGtids(str(found))) == str(found)
    assert found.has(f"{SOURCE}:mytag:2") and not found.has(f"{SOURCE}:mytag:9") and found.has(f"{SOURCE}:9")
    assert found.encoded() == bytes.fromhex(PREVIOUS)


def test_gtid_sets() -> None:
    uuid, other = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
    found = MysqlGtids(f"{uuid.upper()}:1-5:7,\n{other}:3")
    for number in (8, 6, 10):
        found.add(f"{uuid}:{number}")
    assert str(found) == f"{uuid}:1-8:10,{other}:3"
    assert found.has(f"{uuid}:8") and not found.has(f"{uuid}:9") and not found.has(f"{other}:4")
    assert len(found.encoded()) == 8 + 2 * 24 + 3 * 16
    assert found.encoded()[24:48] == struct.pack("<QQQ", 2, 1, 9)
    with pytest.raises(UsageError, match="is not understood"):
        MysqlGtids(f"{uuid}:1-x")
    domains = MariadbGtids("0-1-5,2-1-7")
    domains.add("0-9-6")
    assert str(domains) == "0-9-6,2-1-7"
    assert domains.has("0-1-6") and not domains.has("2-1-8") and not domains.has("1-1-1")
    assert str(MariadbGtids("")) == "" and MariadbGtids("1-1-1,2-2-2").equals(MariadbGtids("2-2-2,1-1-1"))


def test_positions_are_text_and_others_are_refused() -> None:
    position = Position(server="x", place=Place("b.1", 4, "0-1-2"), part=1, since=Place("b.0", 9))
    assert read_position(write_position(position)) == position
    with pytest.raises(UsageError, match="is none of a binlog"):
        read_position("{}")


def test_queries_of_both_servers() -> None:
    status = b"\0" + bytes(4) + b"\1" + struct.pack("<Q", ANSI_QUOTES) + b"\6\3std" + b"\x0c\1d\0"
    status += b"\4" + struct.pack("<HHH", 8, 8, 45) + b"\5\6SYSTEM" + b"\x08" + struct.pack("<H", 63)
    body = struct.pack("<IIBHH", 1, 0, 1, 1051, len(status)) + status + b"d\0" + "DROP TABLE é".encode("latin1")
    assert query(event(2, body)) == ("d", "DROP TABLE é".encode("latin1"), 8, 63, ANSI_QUOTES, 1051)
    # an unknown variable ends what is understood
    unknown = struct.pack("<IIBHH", 1, 0, 0, 0, 4) + b"\xf0\4\1\1" + b"\0BEGIN"
    assert query(event(2, unknown)) == ("", b"BEGIN", None, None, 0, 0)
    packed = b"\x82\0\5" + zlib.compress(b"BEGIN")
    assert query(event(165, struct.pack("<IIBHH", 1, 0, 0, 0, 0) + b"\0" + packed)).sql == b"BEGIN"


def test_broken_compression_is_named() -> None:
    for data, text in (
        (b"\x91\5" + zlib.compress(b"BEGIN"), "begins with 0x91"),
        (b"\x81\4" + zlib.compress(b"BEGIN"), "has 5 bytes instead of 4"),
        (b"\x81\5junk", "cannot be unpacked"),
    ):
        with pytest.raises(MessageError, match=text):
            inflate(data)


def test_a_transaction_that_mysql_compressed() -> None:
    def inner(kind: int, body: bytes) -> bytes:
        return struct.pack("<IBIIIH", 5, kind, 1, 19 + len(body), 0, 0) + body

    events = inner(2, b"query") + inner(16, bytes(8))
    packed = bytes(cramjam.zstd.compress(events))
    fields = b"\2\1\0" + b"\3\1" + bytes([len(events)]) + b"\1\1" + bytes([len(packed)]) + b"\0"
    found = list(unpack(event(Kind.TRANSACTION_PAYLOAD, fields + packed)))
    assert [(one.kind, one.body, one.end) for one in found] == [(2, b"query", 0), (16, bytes(8), 1000)]
    assert [one.kind for one in unpack(event(40, b"\2\3\xfc\xff\0\0" + events))] == [2, 16]
    with pytest.raises(MessageError, match="by method 3"):
        list(unpack(event(40, b"\2\1\3\0" + events)))
    with pytest.raises(MessageError, match="cannot be unpacked"):
        list(unpack(event(40, b"\0junk")))


def test_row_events_of_mysql_have_more_in_their_head() -> None:
    body = (5).to_bytes(6, "little") + b"\1\0" + struct.pack("<H", 4) + b"xx" + b"\3\xff\xff" + b"ROWS"
    head = rows_head(event(Kind.UPDATE_ROWS_2, body))
    assert head == (5, 3, True, b"ROWS")
    assert not rows_head(event(Kind.UPDATE_ROWS_2, body.replace(b"\3\xff\xff", b"\3\xff\x05"))).whole
    assert not rows_head(event(Kind.DELETE_ROWS_1, bytes(8) + b"\2\1" + b"ROWS")).whole


def full_table_map(*, mariadb: bool) -> TableMap:
    codes = bytes([3, 13, 8, 255, 252, 254, 254, 246])
    meta = bytes([4, 2, 247, 1, 206, 252, 10, 4])
    fields = b"\1" + lengthed(b"\xa0") + b"\2" + lengthed(b"\x2d" + (b"\1\x3f" if mariadb else b"\0\x3f"))
    fields += b"\4" + lengthed(b"".join(lengthed(f"c{at}".encode()) for at in range(8)))
    fields += b"\6" + lengthed(b"\2\1x\2\xc3\xa9") + b"\x0a" + lengthed(b"\x2d")
    body = (9).to_bytes(6, "little") + b"\1\0" + b"\1d\0" + b"\1t\0" + b"\x08" + codes + lengthed(meta) + b"\0" + fields
    table_id, found = table_map(body, mariadb=mariadb)
    assert table_id == 9
    return found


def test_table_maps_with_full_metadata() -> None:
    maria = full_table_map(mariadb=True)
    assert maria.names == tuple(f"c{at}" for at in range(8))
    assert [one.unsigned for one in maria.columns] == [True, False, True, None, None, None, None, False]
    # geometries count among MariaDB's texts, not among MySQL's
    assert [one.collation for one in maria.columns[3:6]] == [45, 63, 45]
    mysql = full_table_map(mariadb=False)
    assert [one.collation for one in mysql.columns[3:6]] == [None, 63, 45]
    assert mysql.columns[0].unsigned and mysql.columns[2].unsigned is None
    enum, char, decimal = maria.columns[5:]
    assert (enum.code, enum.meta, enum.members) == (247, 1, (b"x", "é".encode()))
    assert (char.code, char.meta) == (254, 1020)
    assert decimal.meta == 10 << 8 | 4


def reader(columns: str, *wire: Wire) -> RowReader:
    table = parse_create(f"CREATE TABLE t ({columns})", "d", "escape")
    return RowReader(table, TableMap("d", "t", wire, tuple(one.name for one in table.columns)), CHARSETS)


def test_a_null_pattern_each_and_rows_that_end_early() -> None:
    found = reader("a INT, b VARCHAR(9), c TINYINT", Wire(3, 0), Wire(15, 36, collation=45), Wire(1, 0))
    rows = b"\xf8\1\0\0\0\2hi\xff" + b"\xf9\1x\5" + b"\xff"
    assert [change.after for change in found.changes("insert", rows, 1)] == [
        {"a": "1", "b": "hi", "c": "-1"},
        {"a": None, "b": "x", "c": "5"},
        {"a": None, "b": None, "c": None},
    ]
    for short in (b"\xf8\1\0", b"\xf8\1\0\0\0", b"\xf8\1\0\0\0\x7fhi", b"\xf8\1\0\0\0\2hi"):
        with pytest.raises(MessageError, match=r"row of `d`.`t`"):
            list(found.changes("insert", short, 1))


def test_text_that_is_none_stays_bytes() -> None:
    found = reader(
        "a VARCHAR(9), b VARCHAR(9) CHARACTER SET latin1", Wire(15, 36, collation=45), Wire(15, 9, collation=8)
    )
    (change,) = found.changes("delete", b"\xfc\2\xff\xfe\1\xe9", 1)
    assert change.before == {"a": b"\xff\xfe", "b": "é"}


def test_a_schema_that_does_not_fit_is_never_guessed() -> None:
    for columns, wire, text in (
        ("a INT UNSIGNED", Wire(3, 0, unsigned=False), "unsigned is False, not True"),
        ("a DECIMAL(9,2)", Wire(246, 9 << 8 | 3), r"\(9, 3\), not \(9, 2\)"),
        ("a DATETIME(3)", Wire(18, 2), "fractional digits is 2, not 3"),
        ("a TIME(3)", Wire(11, 0), "old format is 3, not 0"),
        ("a BIT(3)", Wire(16, 4), "bits is 4, not 3"),
        ("a ENUM('x')", Wire(247, 1, members=(b"y",)), r"\('y',\), not \('x',\)"),
        ("a TEXT", Wire(252, 2, collation=63), "bytes, not text"),
        ("a BLOB", Wire(252, 2, collation=45), "character set is 45, not 63"),
        ("a VARCHAR(9)", Wire(254, 36, collation=45), "type is 254, not 15"),
        ("a VARCHAR(9)", Wire(141, 36, collation=45), "type is 141, not 15"),
        ("a VARCHAR(9)", Wire(15, 36, collation=99), "collation 99"),
        ("a JSON", Wire(252, 4, collation=45), "type is 252, not 245"),
        ("a VECTOR(3)", Wire(252, 4, collation=63), "type is 252, not 242"),
    ):
        with pytest.raises(MessageError, match=f"column `a` of `d`.`t` does not fit its schema: .*{text}"):
            reader(columns, wire)
    table = parse_create("CREATE TABLE t (a INT)", "d")
    with pytest.raises(MessageError, match="has columns"):
        RowReader(table, TableMap("d", "t", (Wire(3, 0),), ("b",)), CHARSETS)
    with pytest.raises(MessageError, match="binlog_row_metadata was not FULL"):
        RowReader(table, TableMap("d", "t", (Wire(3, 0),), ()), CHARSETS)


def test_what_a_ddl_leaves_to_the_server_is_that_of_the_table_map() -> None:
    found = reader(
        "a TEXT, b VARCHAR(21000), c BLOB, d ENUM('x ', 'y'), e VARCHAR(9) CHARACTER SET latin1",
        Wire(252, 3, collation=45),
        Wire(252, 3, collation=45),
        Wire(252, 1, collation=63),
        Wire(247, 1, collation=45, members=(b"x", b"y")),
        Wire(15, 36, collation=45),
    )
    kinds = [column.type for column in found.table.columns]
    assert [kind.name for kind in kinds] == ["mediumtext", "mediumtext", "tinyblob", "enum", "varchar"]
    assert (kinds[3].elements, kinds[4].charset) == (("x", "y"), "utf8mb4")


def test_a_hidden_column_of_a_key_on_a_long_text_is_read_over() -> None:
    table = parse_create("CREATE TABLE t (a TINYINT, b TINYINT)", "d")
    wire = TableMap("d", "t", (Wire(1, 0), Wire(8, 0, unsigned=True), Wire(1, 0)), ("a", "DB_ROW_HASH_1", "b"))
    (change,) = RowReader(table, wire, CHARSETS).changes("insert", b"\xf8\1" + bytes(8) + b"\2", 1)
    assert change.after == {"a": "1", "b": "2"}
    with pytest.raises(MessageError, match="has columns"):
        RowReader(table, wire._replace(names=("a", "DB_ROW_x", "b")), CHARSETS)


def test_times_of_the_old_format() -> None:
    assert times.old_datetime_text((20240229235959).to_bytes(8, "little")) == "2024-02-29 23:59:59"
    assert times.old_datetime_text(bytes(8)) == "0000-00-00 00:00:00"
    assert times.old_time_text((8385959).to_bytes(3, "little")) == "838:59:59"
    assert times.old_time_text((-8385959).to_bytes(3, "little", signed=True)) == "-838:59:59"
    assert times.old_timestamp_text((86400).to_bytes(4, "little")) == "1970-01-02 00:00:00"
    assert times.old_timestamp_text(bytes(4)) == "0000-00-00 00:00:00"


def test_decimals_of_odd_sizes() -> None:
    assert numbers.decimal_size(65, 30) == 30 and numbers.decimal_size(1, 0) == 1
    assert numbers.decimal_text(14, 4)(bytes.fromhex("810dfb38d204d2")) == "1234567890.1234"
    assert numbers.decimal_text(14, 4)(bytes.fromhex("7ef204c72dfb2d")) == "-1234567890.1234"
    assert numbers.decimal_text(4, 2)(b"\x80\0") == "0.00"


# Documents as the format's description has them: the type, then the value.
JSONS = {
    b"\x04\0": "null",
    b"\x04\1": "true",
    b"\x05\xff\xff": "-1",
    b"\x06\xff\xff": "65535",
    b"\x09" + struct.pack("<q", -(2**63)): str(-(2**63)),
    b"\x0a" + struct.pack("<Q", 2**64 - 1): str(2**64 - 1),
    b"\x0b" + struct.pack("<d", 1.0): "1.0",
    b"\x0b" + struct.pack("<d", 1e15): "1e15",
    b"\x0b" + struct.pack("<d", -1.5e-20): "-1.5e-20",
    b"\x0b" + struct.pack("<d", 0.001): "0.001",
    b"\x0b" + struct.pack("<d", 123456.5): "123456.5",
    b"\x0b" + struct.pack("<d", -0.0): "-0.0",
    b'\x0c\7a"\\\n\x01\xc3\xa9': '"a\\"\\\\\\n\\u0001é"',
    b"\0\2\0\x22\0\x12\0\1\0\x13\0\2\0\5\1\0\2\x15\0abb\2\0\x0d\0\4\1\0\x0c\x0a\0\1x": '{"a": 1, "bb": [true, "x"]}',
    b"\2\0\0\4\0": "[]",
    b"\0\0\0\4\0": "{}",
    b"\x0f\xf6\4\4\2\x8c\x22": "12.34",
    b"\x0f\x0a\x08" + struct.pack("<q", (((2024 * 13 + 2) << 5 | 29) << 17) << 24): '"2024-02-29"',
    b"\x0f\x0c\x08" + struct.pack("<q", (((2024 * 13 + 2) << 5 | 29) << 17 | 1 << 12 | 2 << 6 | 3) << 24 | 4): (
        '"2024-02-29 01:02:03.000004"'
    ),
    b"\x0f\x0b\x08" + struct.pack("<q", -((1 << 12 | 2 << 6 | 3) << 24)): '"-01:02:03.000000"',
    b"\x0f\xfc\2\1\2": '"base64:type252:AQI="',
    b"": "null",
}


@pytest.mark.parametrize("data", JSONS)
def test_binary_json(data: bytes) -> None:
    assert json_text(data) == JSONS[data]


@pytest.mark.parametrize(
    "data", [b"\0", b"\x0c\x05ab", b"\x04\x09", b"\x63\0", b"\x0b\0", b"\2\5\0\4\0", b"\x0c\xff\xff\xff\xff\xff"]
)
def test_broken_json_is_named(data: bytes) -> None:
    with pytest.raises(MessageError, match="binary JSON"):
        json_text(data)


def test_statements() -> None:
    assert words("  /* x */ -- y\n#z\n/*!40000 ALTER TABLE */ t").startswith("/*!40000 alter")
    assert (
        is_control("BEGIN") and is_control("xa end X'61'") and not is_control("BEGINNING") and not is_control("ALTER")
    )
    assert is_dml("/* c */ Update t SET a = 1") and not is_dml("UPDATED") and not is_dml("CREATE TABLE t AS SELECT 1")
    both = ANSI_QUOTES | NO_BACKSLASH_ESCAPES
    for sql, mode, wanted in (
        ('"a""b" \'c"d\\\\\' `e"f`', ANSI_QUOTES, '`a"b` \'c"d\\\\\' `e"f`'),
        ("'a\\' \"b\\\"", NO_BACKSLASH_ESCAPES, "'a\\\\' 'b\\\\'"),
        ("'\\'", both, "'\\\\'"),
        ('"it\'s" "say ""x"""', 0, "'it''s' 'say \"x\"'"),
        ('t -- "x"\n /* \'y */ # "', 0, 't -- "x"\n /* \'y */ # "'),
        ("t WITH  system versioning COMMENT 'with system versioning'", 0, "t  COMMENT 'with system versioning'"),
    ):
        assert plain_sql(sql, mode) == wanted


WRONG_URIS = {
    "postgres://h": "source-uri is written",
    "mysql://u:secret%20word@h:port": "source-uri is written",
    "mysql://u@h/db": "source-uri is written",
    "mysql://u@h/?ssl-mode=x": "key 'ssl-mode' is not known; allowed: max-transaction-bytes, server-id",
    "mysql://u@h/?server-id=0": "server-id is '0'; allowed: a whole number from 1 to 4294967295",
    "mysql://u@h/?server-id=²": "server-id is '²'",
    "mysql://u@h/?max-transaction-bytes=1k": "max-transaction-bytes is '1k'",
    "mysql://u@h/?tls=yes": "tls is 'yes'; allowed: true, false",
    "mysql://u@h/?ssl-key=k": "ssl-key needs ssl-cert",
}


@pytest.mark.parametrize("uri", WRONG_URIS)
def test_wrong_uris_name_the_key_and_no_password(uri: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_uri(uri)
    assert WRONG_URIS[uri] in str(found.value) and "secret" not in str(found.value)


def test_a_uri_with_everything() -> None:
    found = parse_uri("mariadb://us%40er:pass%3Aword%21@h:3307/?server-id=9&tls=true&ssl-verify=0&skip=b.1:4,b.2:5")
    assert (found.user, found.password, found.port, found.server_id) == ("us@er", "pass:word!", 3307, 9)
    assert found.tls.on and not found.tls.verify and found.skip == ("b.1:4", "b.2:5")
    assert "pass" not in repr(found) and redact("x pass:word! y") == "x (secret) y"
    with pytest.raises(UsageError, match="ssl-ca, ssl-cert or ssl-key cannot be used"):
        parse_uri("mysql://h/?ssl-ca=/does/not/exist").options()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("00010000000200000003000000040000", "1::2:0:3:0:4:0"),
        ("00010002000300040005000600070000", "1:2:3:4:5:6:7::"),
        ("00000000000000000000000001020304", "::1.2.3.4"),
        ("00000000000000000000ffff01020304", "::ffff:1.2.3.4"),
        ("00000000000000000000000000000001", "::1"),
        ("00000000000000000000000000000000", "::"),
        ("00010000000000020000000000030004", "1::2:0:0:3:4"),
    ],
)
def test_inet6_is_written_as_mariadb_writes_it(raw: str, text: str) -> None:
    assert inet6_text(bytes.fromhex(raw)) == text


@pytest.mark.parametrize("text", ["a", " A ;", "`A`", "SAVEPOINT `a`", "savepoint A"])
def test_savepoints_compare_without_case_and_quotes(text: str) -> None:
    assert savepoint(text) == "a"
