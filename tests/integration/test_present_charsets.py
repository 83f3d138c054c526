"""Texts in character sets other than Unicode's, of a real server: the same in its binlog, full reads and look-ups."""

from __future__ import annotations

import pyarrow as pa
import pytest
from msgspec.structs import replace

from tests.integration.test_binlog_values import _captured_rows
from tests.integration.test_present_tables import all_rows, look, ranges
from tests.support.mariadb_server import Server
from ticdc_spark.capture.snapshot.base import Wanted
from ticdc_spark.capture.snapshot.database import DatabaseReader
from ticdc_spark.capture.snapshot.typed import typed
from ticdc_spark.clients.mysql_texts import MULTI_BYTE
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Envelope, Row, RowChange, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.spark.types import LakeOptions, lake_columns


@pytest.mark.parametrize(
    "charset",
    [pytest.param(one, marks=() if one in ("gbk", "big5") else pytest.mark.slow) for one in sorted(MULTI_BYTE)],
)
def test_every_character_of_a_set_is_the_servers(server: Server, charset: str) -> None:
    """Alone, between letters and beside each other: also those that Python's codecs read otherwise, or not at all."""
    all_of = [bytes((first, second)) for first in range(0x80, 256) for second in range(0x30, 256)]
    all_of += [bytes((byte,)) for byte in range(256)]
    if charset in ("ujis", "eucjpms"):
        all_of += [b"\x8f" + bytes((second, third)) for second in range(0xA1, 0xFF) for third in range(0xA1, 0xFF)]
    server.execute(f"CREATE TABLE d.raw (id INT PRIMARY KEY, c VARCHAR(99) CHARACTER SET {charset})", "USE d")
    # what is no character in the set becomes a ? here; what is one, and not of Unicode, stays
    made = [f"({at}, CONVERT(X'{raw.hex()}' USING {charset}))" for at, raw in enumerate(all_of)]
    server.execute("SET sql_mode = ''", f"INSERT INTO d.raw VALUES {', '.join(made)}")
    _, rows = _captured_rows(
        server,
        f"CREATE TABLE d.t (id INT PRIMARY KEY, c VARCHAR(99) CHARACTER SET {charset}, "
        f"x LONGTEXT CHARACTER SET {charset}, e ENUM('a', 'b') CHARACTER SET {charset})",
        "INSERT INTO d.t SELECT id, c, CONCAT('x\\n', c, '/', c, c, 'y'), 'b' FROM d.raw",
    )
    oracle = server.execute("SELECT id, CONVERT(c USING utf8mb4), CAST(c AS BINARY) FROM d.t ORDER BY id")
    read = all_rows(server, look(server, "t"))
    unknown = 0
    for (at, text, raw), row, present in zip(oracle, rows, read, strict=True):
        if text.count("?") > raw.count(b"?"):
            text, unknown = None, unknown + 1
        expected = {
            "id": str(at),
            "c": raw if text is None else text,
            "x": b"x\n" + raw + b"/" + raw + raw + b"y" if text is None else f"x\n{text}/{text}{text}y",
            "e": "2",
        }
        assert row == expected and present == expected, raw
    assert len(rows) == len(all_of) and (unknown or charset in ("cp932", "gb2312"))
    assert any(text != "?" and len(raw) > 1 for _, text, raw in oracle)
    _replicates_own_read_is_the_same(server, rows, read_of=look(server, "t").table)


def _replicates_own_read_is_the_same(server: Server, rows: list[Row], read_of: Table) -> None:
    """The full read of a job and its look-ups, and what a job makes of the changefeed's messages of these rows."""
    with Upstream(server.uri) as upstream:
        # as a message may have it that has no character sets
        plain = replace(read_of, columns=tuple(_in_utf8(column) for column in read_of.columns))
        assert upstream.lookup(plain, [{"id": row["id"]} for row in rows], 0) == rows
    unknown = [row for row in rows if isinstance(row["c"], bytes)]
    if unknown:
        with pytest.raises(MessageError, match=rf"the row id='{unknown[0]['id']}': column `c`: b.* has characters of"):
            full_read(server, read_of.name)
        server.execute(f"DELETE FROM d.{read_of.name} WHERE id IN ({', '.join(str(row['id']) for row in unknown)})")
    known = [row for row in rows if not isinstance(row["c"], bytes)]
    sent, opener = encoder(SimpleConfig()), decoder("simple")
    table = replace(read_of, version=7)
    changes = (RowChange(op="insert", table=table, commit_ts=9, after=row) for row in known)
    came = [event for one in sent.rows(changes) for event in opener.open_message(one.key, one.value)]
    images = opener.row_reader(read_of, ReadOptions())([one.after for one in came if isinstance(one, Envelope)])
    assert not images.bad and not images.absent
    columns = lake_columns(read_of, handle_key(read_of), LakeOptions())
    replicated = typed(list(zip(*images.values, strict=True)), columns, LakeOptions(), Nothing())
    assert (
        full_read(server, read_of.name) == pa.Table.from_batches([replicated]).sort_by("id")
        and len(came) == len(known) > 0
    )


class Nothing:
    """A counter that is never needed."""

    def add(self, number: int) -> None:
        raise AssertionError(number)


def _in_utf8(column: Column) -> Column:
    return replace(column, type=replace(column.type, charset=column.type.charset and "utf8mb4"))


def full_read(server: Server, name: str) -> pa.Table:
    """All that a job reads of a table, in several waves of several ranges. Raises: MessageError"""
    reader, upto, batches = DatabaseReader(server.uri), "", list[pa.RecordBatch]()
    table = reader.schema(("d", name), None)
    assert table is not None
    columns = lake_columns(table, handle_key(table), LakeOptions())
    while True:
        wanted = Wanted(
            name=("d", name), columns=columns, lake=LakeOptions(), at=None, upto=upto, chunk_rows=3000, parts=2
        )
        wave = reader.wave(wanted)
        batches += wave.read(Nothing())([pa.record_batch({"part": list(range(wave.parts))})])
        upto = wave.upto
        if wave.done:
            reader.close()
            return pa.Table.from_batches(batches).sort_by("id")


GAPS = {"ascii": "80", "cp1250": "81", "cp1251": "98", "cp1256": "8a", "cp1257": "81", "dec8": "a4", "geostd8": "81"}
GAPS |= {"greek": "a4", "hebrew": "a1", "hp8": "ff", "swe7": "7f"}


@pytest.mark.mariadb
def test_bytes_of_small_sets_that_are_no_character_are_never_a_question_mark(server: Server) -> None:
    """In none of the ways: binlog, full read of the changefeed, of a job, look-up."""
    kinds = ", ".join(f"{charset} VARCHAR(9) CHARACTER SET {charset}" for charset in GAPS)
    texts = ", ".join(["'?Ab 1'"] * len(GAPS))
    bad = ", ".join(f"X'41{raw}'" for raw in GAPS.values())
    table, rows = _captured_rows(
        server,
        f"CREATE TABLE d.t (id INT PRIMARY KEY, {kinds}, u UUID)",
        f"INSERT INTO d.t VALUES (1, {texts}, UUID()), (2, {bad}, UUID())",
    )
    assert rows[0] == {"id": "1", **dict.fromkeys(GAPS, "?Ab 1"), "u": rows[0]["u"]}
    assert {name: rows[1][name] for name in GAPS} == {name: b"A" + bytes.fromhex(raw) for name, raw in GAPS.items()}
    assert all_rows(server, look(server, "t")) == rows and len(str(rows[1]["u"])) == 36
    with Upstream(server.uri) as upstream:
        assert upstream.lookup(table, [{"id": "1"}, {"id": "2"}], 0) == rows
    server.execute("ALTER TABLE d.t DROP u")
    for charset in GAPS:
        with pytest.raises(MessageError, match=rf"the row id='2': column `{charset}`: .*of {charset} that"):
            full_read(server, "t")
        server.execute(f"ALTER TABLE d.t DROP {charset}")
    assert full_read(server, "t").num_rows == 2


@pytest.mark.parametrize("charset", ["big5", "sjis", "greek"])
def test_ranges_of_a_key_whose_characters_are_none_of_unicode(server: Server, charset: str) -> None:
    """Such a key is a bound of ranges like another, in the changefeed's read and in a job's."""
    raw = [f"{first:02x}{second:02x}" for first in (0xC7, 0xC8, 0xF0) for second in range(0xA1, 0xC1)]
    raw = [f"{'a4' * at}41" for at in range(1, 60)] if charset == "greek" else raw
    server.execute(
        "SET sql_mode = ''",
        f"CREATE TABLE d.t (k VARCHAR(99) CHARACTER SET {charset} PRIMARY KEY, id INT)",
        f"INSERT INTO d.t VALUES ('?', 0), ('a', 1), {', '.join(f'(X{chr(39)}{one}{chr(39)}, 2)' for one in raw)}",
    )
    found = look(server, "t")
    parts = [all_rows(server, found, of) for of in ranges(server, found, 5, 3)]
    keys = [row["k"] for rows in parts for row in rows]
    there = [key for (key,) in server.execute("SELECT CAST(k AS BINARY) FROM d.t")]
    assert sorted(key if isinstance(key, bytes) else key.encode(charset) for key in keys) == sorted(there)  # type: ignore[union-attr]
    assert max(map(len, parts)) <= 5 and sum(isinstance(key, bytes) for key in keys) > 20
    with pytest.raises(MessageError, match=r"the row k=b.*: column `k`"):
        full_read(server, "t")
