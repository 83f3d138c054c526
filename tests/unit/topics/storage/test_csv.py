"""CSV of a storage sink: TiCDC's own examples, values of every type there and back, and bytes that are no CSV."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.storage_sink import csv_header, csv_record, schema_file
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Index, Row, RowChange, Table, Value
from ticdc_spark.mysql import parse_type
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.protocols.base import ReadOptions, decode
from ticdc_spark.streams.storage_messages import PROTOCOL, Form
from ticdc_spark.topics.storage.csv_lines import CsvFormat
from ticdc_spark.topics.storage.csv_rows import CsvRows
from ticdc_spark.topics.storage.schema_file import read_schema_file

TYPES = {
    "id": "bigint(20)",
    "u": "bigint(20) unsigned",
    "small": "tinyint(4)",
    "bits": "bit(12)",
    "year": "year(4)",
    "price": "decimal(12,3)",
    "single": "float",
    "double": "double",
    "text": "varchar(200)",
    "long": "longtext",
    "raw": "varbinary(50)",
    "blob": "blob",
    "day": "date",
    "at": "datetime(3)",
    "stamp": "timestamp(6)",
    "time": "time(2)",
    "kind": "enum('a','b''c','d,e')",
    "kinds": "set('x','y','z')",
    "doc": "json",
}
TABLE = Table(
    schema="shop",
    name="t",
    columns=tuple(Column(name=name, type=parse_type(text), nullable=name != "id") for name, text in TYPES.items()),
    indexes=(Index(name="primary", unique=True, primary=True, nullable=False, columns=("id",)),),
)
VALUES: dict[str, st.SearchStrategy[Value]] = {
    "id": st.integers(-(2**63), 2**63 - 1).map(str),
    "u": st.integers(0, 2**64 - 1).map(str),
    "small": st.integers(-128, 127).map(str),
    "bits": st.integers(0, 4095).map(str),
    "year": st.sampled_from(["0", "1999", "2155"]),
    "price": st.integers(-(10**12) + 1, 10**12 - 1).map(
        lambda n: f"{'-' if n < 0 else ''}{abs(n) // 1000}.{abs(n) % 1000:03d}"
    ),
    "single": st.sampled_from(["0", "-1.5", "3.4028235e38", "1e-10"]),
    "double": st.sampled_from(["0", "0.1", "-1e308", "5e-324"]),
    "text": st.text(max_size=8) | st.sampled_from(["\\N", '"', "\r\n", ",", "|+", "\\", "'", "ticdc-meta$operation"]),
    "long": st.text(max_size=8),
    "raw": st.binary(max_size=8),
    "blob": st.binary(max_size=8),
    "day": st.sampled_from(["2026-01-31", "0000-00-00"]),
    "at": st.just("2026-01-31 01:02:03.456"),
    "stamp": st.sampled_from(["2026-01-31 01:02:03.456789", "0000-00-00 00:00:00.000000"]),
    "time": st.sampled_from(["-838:59:59.00", "00:00:01.50"]),
    "kind": st.sampled_from(["0", "1", "2", "3"]),
    "kinds": st.integers(0, 7).map(str),
    "doc": st.sampled_from(['{"a": [1, "x,\\"y"]}', "null"]),
}
ROWS = st.fixed_dictionaries({name: of if name == "id" else of | st.none() for name, of in VALUES.items()})
FORMATS = [
    CsvFormat(),
    CsvFormat(old_values=True, binary="hex"),
    CsvFormat(quote=""),
    CsvFormat(quote="", delimiter="|+", terminator="\n"),
    CsvFormat(quote="'", delimiter="[*]", terminator="\n"),
    CsvFormat(delimiter="\t", null="", binary="hex"),
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("header", [False, True])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_row_comes_back_as_it_was_written(form: CsvFormat, header: bool, data: st.DataObject) -> None:
    rows = [data.draw(ROWS) for _ in range(2)]
    changes = [
        RowChange(op="insert", table=TABLE, commit_ts=7, after=rows[0]),
        RowChange(op="delete", table=TABLE, commit_ts=8, before=rows[1]),
    ]
    content = (csv_header(form, TABLE) if header else b"") + b"".join(csv_record(form, one) for one in changes)
    messages = list(Form(csv=form).rows("t/1/CDC000001.csv", content, schema_file(TABLE, 5, None)))
    assert len(messages) == Form(csv=form).count("t/1/CDC000001.csv", content) == 2
    tables = {("shop", "t", ""): TABLE}
    decoder = PROTOCOLS[PROTOCOL].decoder()
    found = [decode(decoder, *one, tables, ReadOptions(source_timezone="UTC"))[0] for one in messages]
    assert [(one.op, one.commit_ts) for one in found if isinstance(one, RowChange)] == [("insert", 7), ("delete", 8)]
    images: list[Row | None] = [found[0].after, found[1].before]  # type: ignore[union-attr]
    assert images == rows


@pytest.mark.parametrize(
    ("form", "line", "fields"),
    [
        (
            CsvFormat(terminator="\n"),
            b'"I","table1","test",435661838416609281,123,"hello,world"',
            [b"123", b"hello,world"],
        ),
        (CsvFormat(delimiter="!", quote=""), rb"U!table2!test!435661838416609281!a\!b\!c!def", [b"a!b!c", b"def"]),
        (CsvFormat(delimiter="[*]", quote=""), rb"D[*]t[*]s[*]1[*]a\[\*\]b\[\*\]c[*]def", [b"a[*]b[*]c", b"def"]),
        (
            CsvFormat(delimiter="[*]", quote="'"),
            rb"'I'[*]'t'[*]'s'[*]1[*]'a[*]b[*]c'[*]'def'[*]\N[*]12345.678",
            [b"a[*]b[*]c", b"def", None, b"12345.678"],
        ),
        (CsvFormat(quote=""), rb"U,t,s,1,a\\b\\c,def\n", [rb"a\b\c", b"def\n"]),
        (CsvFormat(quote="'"), b"'I','t','s',1,'\\','\\\r','\\\\'", [b"\\", b"\\\r", b"\\\\"]),
    ],
)
def test_the_examples_of_ticdc_are_read(form: CsvFormat, line: bytes, fields: list[bytes | None]) -> None:
    assert form.fields(line)[4:] == fields


@pytest.mark.parametrize("form", FORMATS)
@given(content=st.binary(max_size=60) | st.text('ID",\\N\r\nshopt01', max_size=60).map(str.encode))
@settings(max_examples=25, deadline=None)
def test_bytes_that_are_no_csv_become_messages_that_are_rejected(form: CsvFormat, content: bytes) -> None:
    whole = Form(csv=form)
    messages = list(whole.rows("t/1/CDC000001.csv", content, schema_file(TABLE, 5, None)))
    assert len(messages) == whole.count("t/1/CDC000001.csv", content)
    decoder = PROTOCOLS[PROTOCOL].decoder()
    for number, (key, value) in enumerate(messages, 1):
        (event,) = decoder.open_message(key, value)
        assert str(getattr(event, "reason", "")).startswith(f"t/1/CDC000001.csv, line {number}: ")


@pytest.mark.parametrize("form", [CsvFormat(), CsvFormat(quote="", terminator="\n")])
def test_a_record_that_is_cut_off_is_not_read(form: CsvFormat) -> None:
    table = msgspec.structs.replace(TABLE, columns=TABLE.columns[:2])
    rows = [RowChange(op="insert", table=table, commit_ts=7, after={"id": "1", "u": "345"}) for _ in range(2)]
    content = b"".join(csv_record(form, one) for one in rows)
    cut = len(form.terminator) + 1
    messages = list(Form(csv=form).rows("t/1/CDC000001.csv", content[:-cut], schema_file(table, 5, None)))
    assert [b"it is cut off" in value for _, value in messages] == [False, True]


def test_a_line_break_of_another_terminator_is_not_part_of_a_value() -> None:
    form = CsvFormat(quote="", terminator="\n")
    with pytest.raises(MessageError, match="field 5 cannot be read"):
        form.fields(b"I,t,s,1,text\r")


@given(content=st.binary(max_size=60))
@settings(max_examples=25, deadline=None)
def test_bytes_in_place_of_a_schema_file_are_rejected(content: bytes) -> None:
    (event,) = PROTOCOLS[PROTOCOL].decoder().open_message(b"shop/t/meta/schema_1_0000000001.json", content)
    assert str(getattr(event, "reason", "")).startswith("shop/t/meta/schema_1_0000000001.json: ")
    for _, value in Form(csv=CsvFormat()).rows("t/1/CDC000001.csv", b'"I"\r\n', content):
        assert b"schema file" in value


HEADED = msgspec.structs.replace(TABLE, columns=(TABLE.columns[0], TABLE.columns[8]))


def headed(form: CsvFormat) -> bytes:
    """A file with a header and two rows. A text has a line break."""
    rows: list[Row] = [{"id": "1", "text": "a\r\nb"}, {"id": "2", "text": "c"}]
    changes = [RowChange(op="insert", table=HEADED, commit_ts=7, after=row) for row in rows]
    return csv_header(form, HEADED) + b"".join(csv_record(form, one) for one in changes)


def reasons(form: CsvFormat, content: bytes) -> list[str]:
    """Why the records of a file are not read; "" for one that is."""
    whole = Form(csv=form)
    messages = list(whole.rows("t/1/CDC000001.csv", content, schema_file(HEADED, 5, None)))
    assert len(messages) == whole.count("t/1/CDC000001.csv", content)
    return [msgspec.json.decode(value).get("unreadable", "") for _, value in messages]


def test_a_file_with_a_header_is_read_as_the_changefeed_wrote_it() -> None:
    for form in FORMATS:
        assert reasons(form, headed(form)) == ["", ""]


@pytest.mark.parametrize("written", ["\r\n", "\n", "\r", "|||"])
@pytest.mark.parametrize("read", ["\r\n", "\n", "\r", "|||"])
@pytest.mark.parametrize("quote", ['"', ""])
def test_no_row_is_lost_below_a_header_of_another_terminator(written: str, read: str, quote: str) -> None:
    found = reasons(CsvFormat(terminator=read, quote=quote), headed(CsvFormat(terminator=written, quote=quote)))
    if written == read:
        assert found == ["", ""]
    else:
        assert found
        assert all(found)


def test_a_header_of_another_terminator_names_the_key_and_its_place() -> None:
    (found,) = reasons(CsvFormat(), headed(CsvFormat(terminator="\n")).replace(b"\r\n", b""))
    assert "the file ends without '\\r\\n': it is cut off, or `terminator` under [source] is not that of the" in found
    assert "which has it under [sink], not [sink.csv]" in found


@pytest.mark.parametrize(
    ("written", "read", "named"),
    [
        (CsvFormat(delimiter=";"), CsvFormat(), "delimiter, output-old-value or include-commit-ts under [source.csv]"),
        (CsvFormat(), CsvFormat(delimiter=";"), "delimiter, output-old-value or include-commit-ts under [source.csv]"),
        (CsvFormat(old_values=True), CsvFormat(), "output-old-value or include-commit-ts under [source.csv]"),
        (CsvFormat(), CsvFormat(old_values=True), "output-old-value or include-commit-ts under [source.csv]"),
        (CsvFormat(quote="'"), CsvFormat(), "quote under [source.csv] is not that of the changefeed"),
        (CsvFormat(quote=""), CsvFormat(), "quote under [source.csv] is not that of the changefeed"),
        (CsvFormat(), CsvFormat(quote=""), "field 1 is b'\"I\"'; allowed: I, U, D"),
    ],
)
def test_no_row_below_a_header_is_read_by_other_keys_than_it_was_written(
    written: CsvFormat, read: CsvFormat, named: str
) -> None:
    found = reasons(read, headed(written))
    assert all(found)
    assert any(named in one for one in found)


def test_rows_below_a_header_without_commit_ts_are_not_read() -> None:
    content = b'ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,id,text\r\n"I","t","shop",1,"a"\r\n'
    (found,) = reasons(CsvFormat(), content)
    assert "include-commit-ts under [source.csv] is not that of the changefeed" in found


def test_an_update_without_its_old_values_keeps_its_key() -> None:
    rows = CsvRows(TABLE, CsvFormat(), None)
    line = csv_record(CsvFormat(), RowChange(op="update", table=TABLE, commit_ts=1, before=EMPTY, after=EMPTY))
    change = rows.change(line.removesuffix(b"\r\n"))
    assert change.op == "update"
    assert change.before == change.after == EMPTY


EMPTY: Row = {name: "1" if name == "id" else None for name in TYPES}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b'"X","t","shop",1', "a record with 4 fields, and the schema file has 19 columns behind 4 fields"),
        (b'"X","t","shop",1' + b",1" * 19, r"field 1 is b'X'; allowed: I, U, D"),
        (b'"I","t","shop",0' + b",1" * 19, r"field 4, the commitTs, is b'0'"),
        (b'"I","u","shop",1' + b",1" * 19, "a row of shop.u in a folder of shop.t"),
        (b'"I","t","shop",1' + b',"x"' * 19, "'x' is no integer"),
        (b"I,t,shop,1" + b",1" * 19, r"field 1 is not quoted in b'I,t,shop.*: quote under \[source.csv\] is not that"),
        (
            b'"I","t","shop",1' + b",NULL" * 19,
            r"field 5 is b'NULL', neither quoted, nor a number, nor .*: null or quote",
        ),
    ],
)
def test_a_record_that_cannot_be_read_says_why(record: bytes, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        CsvRows(TABLE, CsvFormat(), None).change(record)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ('{"ColumnName":"c","ColumnType":"TIME","ColumnScale":"5"}', "time(5)"),
        ('{"ColumnName":"c","ColumnType":"INT UNSIGNED","ColumnPrecision":"5"}', "int(10) unsigned"),
        ('{"ColumnName":"c","ColumnType":"FLOAT","ColumnPrecision":"7","ColumnScale":"3"}', "float(7,3)"),
        ('{"ColumnName":"c","ColumnType":"DOUBLE","ColumnPrecision":"5"}', "double"),
        ('{"ColumnName":"c","ColumnType":"BIT","ColumnPrecision":"5"}', "bit(5)"),
        ('{"ColumnName":"c","ColumnType":"TEXT","ColumnPrecision":"100"}', "text"),
        ('{"ColumnName":"c","ColumnType":"VAR_STRING","ColumnPrecision":"64"}', "var_string"),
        ('{"ColumnName":"c","ColumnType":"ENUM","ColumnElems":["a","b\'c"]}', "enum('a','b''c')"),
        ('{"ColumnName":"c","ColumnType":"DECIMAL","ColumnPrecision":"12","ColumnScale":"3"}', "decimal(12,3)"),
        ('{"ColumnName":"c","ColumnType":"YEAR","ColumnPrecision":"4"}', "year(4)"),
        ('{"ColumnName":"c","ColumnType":"TINYINT","ColumnPrecision":"1"}', "tinyint(1)"),
        ('{"ColumnName":"c","ColumnType":"TINYINT UNSIGNED","ColumnPrecision":"3"}', "tinyint unsigned"),
    ],
)
def test_the_types_of_a_schema_file_are_read(column: str, text: str) -> None:
    content = (
        '{"Table":"t","Schema":"s","Version":1,"TableVersion":1,"Query":"","Type":0,"TableColumns":['
        f'{column}],"TableColumnsTotal":1}}'
    )
    (found,) = read_schema_file(content.encode()).described().columns
    assert found.type == parse_type(text)
