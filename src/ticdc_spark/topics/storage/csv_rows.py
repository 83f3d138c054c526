"""A record of CSV as a row change, by the schema file of its version."""

import base64
import binascii
from collections.abc import Callable, Mapping

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Op, Row, RowChange, Table, Value
from ticdc_spark.mysql import canonical_float, canonical_integer, is_bytes
from ticdc_spark.mysql.values import enum_index, set_mask
from ticdc_spark.topics.storage.csv_lines import CsvFormat

_OPS: Mapping[bytes, Op] = {b"I": "insert", b"U": "update", b"D": "delete"}
_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"})


class CsvRows:
    """Reads the records of one version of a table."""

    def __init__(self, table: Table, form: CsvFormat, header: tuple[str, ...] | None) -> None:
        """``header``: the names of the columns, if the file has them. Raises: MessageError"""
        self._table, self._form = table, form
        columns = {column.name: column for column in table.columns}
        names = tuple(columns) if header is None else header
        if missing := [name for name in names if name not in columns]:
            raise MessageError(f"the header names a column `{missing[0]}`, which the schema file does not have")
        self._columns = [(name, _reader(columns[name], form)) for name in names]

    def change(self, record: bytes) -> RowChange:
        """Raises: MessageError"""
        fields = self._form.fields(record)
        first = self._form.first_column
        if len(fields) != first + len(self._columns):
            what = f"{len(fields)} fields, and the schema file has {len(self._columns)} columns behind {first} fields"
            few = ". Virtual generated columns are not sent: set output-field-header = true under [sink.csv] of TiCDC"
            raise MessageError(f"a record with {what}{few if len(fields) < first + len(self._columns) else ''}")
        op = _OPS.get(fields[0] or b"")
        if op is None:
            raise MessageError(f"field 1 is {fields[0]!r}; allowed: I, U, D")
        named = tuple((field or b"").decode("utf-8", "replace") for field in (fields[2], fields[1]))
        if named != self._table.full_name:
            raise MessageError(f"a row of {'.'.join(named)} in a folder of {self._table.schema}.{self._table.name}")
        stamp = fields[3] or b""
        if not stamp.isdigit() or not 0 < int(stamp) < 1 << 63:
            raise MessageError(f"field 4, the commitTs, is {stamp[:40]!r}; allowed: 1 … 2^63 - 1")
        row: Row = {
            name: None if text is None else read(text)
            for (name, read), text in zip(self._columns, fields[first:], strict=True)
        }
        # A row has one image. An update that changes the key is a delete and an insert, so the keys are the same.
        return RowChange(
            op=op,
            table=self._table,
            commit_ts=int(stamp),
            before=None if op == "insert" else row,
            after=None if op == "delete" else row,
        )


def _reader(column: Column, form: CsvFormat) -> Callable[[bytes], Value]:
    type_, name = column.type, column.name
    if is_bytes(type_):
        return lambda text: _bytes(text, form, name)

    def text_of(raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise MessageError(f"column `{name}`: not UTF-8: {raw[:40]!r}") from error

    if type_.name in _INTEGERS:
        return lambda raw: canonical_integer(text_of(raw))
    if type_.name in ("float", "double"):
        bits = 32 if type_.name == "float" else 64
        return lambda raw: canonical_float(text_of(raw), bits)
    if type_.name == "enum":
        return lambda raw: enum_index(type_, text_of(raw))
    if type_.name == "set":
        return lambda raw: set_mask(type_, text_of(raw))
    return text_of


def _bytes(text: bytes, form: CsvFormat, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if form.binary == "base64" else bytes.fromhex(text.decode())
    except (binascii.Error, ValueError) as error:
        raise MessageError(f"column `{name}`: not {form.binary}: {text[:40]!r}") from error
