"""TiCDC's storage sink as far as its files go: written byte for byte as its code writes them.

Source: ``downstreamadapter/sink/cloudstorage``, ``pkg/cloudstorage`` and ``pkg/sink/codec/csv`` of TiCDC.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ticdc_spark.model import Column, RowChange, SchemaChange, Table, Value
from ticdc_spark.mysql import is_bytes
from ticdc_spark.mysql.values import enum_name, set_names
from ticdc_spark.protocols.base import Encoder
from ticdc_spark.topics.storage.csv_lines import CsvFormat

Name = tuple[str, str]
_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"}


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a changefeed is configured."""

    csv: CsvFormat | None = None
    header: bool = False
    date: Callable[[], str] | None = lambda: "2026-01-01"
    """The folder of a day; ``None``: date-separator = "none"."""
    table_ids: bool = False
    """use-table-id-as-path."""
    dispatcher: str = ""
    """Of tables across nodes."""
    width: int = 6


DEFAULT = SinkOptions()


class StorageSink:
    """Writes what a changefeed sends to a folder."""

    def __init__(self, folder: Path, encoder: Encoder, options: SinkOptions = DEFAULT) -> None:
        self.folder, self.encoder, self.options = folder, encoder, options
        self.versions: dict[Name, int] = {}
        """The version that the rows of a table go to; those of an older schema go to the folder of that one."""
        self.known: dict[Name, list[tuple[int, str]]] = {}
        """The schema files of a table: version and columns."""
        self.waiting: dict[Name, list[RowChange]] = {}
        self.partitions: dict[Name, int] = {}
        """The physical id of the partition that the rows of a table are of."""
        self.written: list[Path] = []
        """Files with rows."""

    def row(self, change: RowChange) -> None:
        self.waiting.setdefault((change.table.schema, change.table.name), []).append(change)

    def ddl(self, change: SchemaChange) -> None:
        """All rows before a DDL are in files when it is written."""
        self.flush()
        table = change.table or change.pre_table
        if table is None or not change.name:
            if not self.options.table_ids:
                self._schema_file(change.schema, Table(schema=change.schema, name="", columns=()), change)
            return
        name = (table.schema, table.name)
        self.versions[name] = change.commit_ts
        self._schema_file(self._root(table), table, change)

    def flush(self) -> None:
        """Write the rows that wait, a file a table."""
        for name, rows in self.waiting.items():
            if rows:
                self.write(name, rows)
        self.waiting = {}

    def checkpoint(self, commit_ts: int) -> None:
        self.flush()
        self._replace(self.folder / "metadata", b'{"checkpoint-ts":%d}' % commit_ts)

    def write(self, name: Name, rows: list[RowChange], *, index: bool = True) -> Path:
        """One file with rows. Without ``index``, the sink died before it wrote the index file."""
        table = rows[0].table
        folder = self.folder / self._root(table) / str(self._version(name, table, rows[0].commit_ts))
        if name in self.partitions:
            folder /= str(self.partitions[name])
        if self.options.date is not None:
            folder /= self.options.date()
        who = f"_{self.options.dispatcher}" if self.options.dispatcher else ""
        of_index = folder / "meta" / f"CDC{who}.index"
        number = int(of_index.read_text().split(".")[0][-self.options.width :]) if of_index.exists() else 0
        while True:
            number += 1
            path = folder / f"CDC{who}{'_' if who else ''}{number:0{self.options.width}d}{self.extension}"
            if not path.exists():
                break
        self._replace(path, self.encoded(rows))
        self.written.append(path)
        if index:
            self._replace(of_index, f"{path.name}\n".encode())
        return path

    def _version(self, name: Name, table: Table, commit_ts: int) -> int:
        """As CheckOrWriteSchema: the last version with these columns."""
        same = [version for version, columns in self.known.get(name, ()) if columns == _columns(table)]
        if not same:
            self.versions[name] = commit_ts - 1
            self._schema_file(self._root(table), table, None)
            return commit_ts - 1
        return self.versions[name] if self.versions.get(name) in same else max(same)

    @property
    def extension(self) -> str:
        return ".json" if self.options.csv is None else ".csv"

    def encoded(self, rows: list[RowChange]) -> bytes:
        """The content of a file."""
        if self.options.csv is not None:
            header = csv_header(self.options.csv, rows[0].table) if self.options.header else b""
            return header + b"".join(csv_record(self.options.csv, row) for row in rows)
        return b"".join((one.value or b"") + b"\r\n" for one in self.encoder.rows(rows))

    def _root(self, table: Table) -> str:
        return str(table.table_id) if self.options.table_ids else f"{table.schema}/{table.name}"

    def _schema_file(self, root: str, table: Table, change: SchemaChange | None) -> None:
        content = schema_file(table, self.versions.get((table.schema, table.name), 0), change)
        version = msgspec.json.decode(content)["TableVersion"]
        described = _columns(table)
        self.known.setdefault((table.schema, table.name), []).append((version, described))
        name = f"schema_{version}_{zlib.crc32(described.encode()):010d}.json"
        self._replace(self.folder / root / "meta" / name, content)

    def _replace(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.tmp.0")
        partial.write_bytes(content)
        partial.replace(path)


def _columns(table: Table) -> str:
    return json.dumps([_column(column, table) for column in table.columns])


def schema_file(table: Table, version: int, change: SchemaChange | None) -> bytes:
    """A schema file, as Go writes it."""
    columns = [_column(column, table) for column in table.columns]
    found = {
        "Table": table.name,
        "Schema": table.schema,
        "Version": 1,
        "TableVersion": version if change is None else change.commit_ts,
        "Query": "" if change is None else change.query,
        "Type": 0 if change is None else 3,
        "TableColumns": columns or None,
        "TableColumnsTotal": len(columns),
    }
    return json.dumps(found, indent=4, ensure_ascii=False).encode()


def _column(column: Column, table: Table) -> dict[str, Any]:
    type_ = column.type
    found: dict[str, Any] = {
        "ColumnName": column.name,
        "ColumnType": type_.name.upper() + (" UNSIGNED" if type_.unsigned else ""),
    }
    if column.default is not None:
        found["ColumnDefault"] = column.default
    if type_.name in ("datetime", "timestamp", "time"):
        found |= {"ColumnScale": str(type_.decimal)} if type_.decimal else {}
    elif type_.name in ("enum", "set"):
        pass
    elif type_.length is not None and type_.name not in ("json", "date"):
        found["ColumnPrecision"] = str(type_.length)
    if type_.name == "decimal":
        found["ColumnScale"] = str(type_.decimal)
    if not column.nullable:
        found["ColumnNullable"] = "false"
    if any(index.primary and column.name in index.columns for index in table.indexes):
        found["ColumnIsPk"] = "true"
    if type_.elements:
        found["ColumnElems"] = list(type_.elements)
    return found


def csv_header(form: CsvFormat, table: Table) -> bytes:
    names = ["ticdc-meta$operation", "ticdc-meta$table", "ticdc-meta$schema", "ticdc-meta$commit-ts"]
    names += ["ticdc-meta$is-update"] if form.old_values else []
    names += [column.name for column in table.columns if not column.virtual]
    return form.delimiter.join(names).encode() + form.terminator.encode()


def csv_record(form: CsvFormat, change: RowChange) -> bytes:
    """The record of a row; of an update with old values, two."""
    if change.op == "update" and form.old_values:
        return _record(form, "D", change, change.before, updated=True) + _record(
            form, "I", change, change.after, updated=True
        )
    op = {"insert": "I", "update": "U", "delete": "D"}[change.op]
    return _record(form, op, change, change.before if op == "D" else change.after, updated=change.op == "update")


def _record(form: CsvFormat, op: str, change: RowChange, row: Any, *, updated: bool) -> bytes:
    fields = [_quoted(form, text.encode()) for text in (op, change.table.name, change.table.schema)]
    fields.append(str(change.commit_ts).encode())
    fields += [b"true" if updated else b"false"] if form.old_values else []
    fields += [_field(form, column, row[column.name]) for column in change.table.columns if not column.virtual]
    return form.delimiter.encode().join(fields) + form.terminator.encode()


def _field(form: CsvFormat, column: Column, value: Value) -> bytes:
    type_ = column.type
    if value is None:
        return form.null.encode()
    if is_bytes(type_):
        raw = value if isinstance(value, bytes) else value.encode()
        return _quoted(form, base64.b64encode(raw) if form.binary == "base64" else raw.hex().encode())
    text = value.decode() if isinstance(value, bytes) else value
    if type_.name in _INTEGERS or type_.name in ("float", "double"):
        return text.encode()
    if type_.name == "enum":
        text = enum_name(type_, text)
    elif type_.name == "set":
        text = set_names(type_, text)
    return _quoted(form, text.encode())


def _quoted(form: CsvFormat, text: bytes) -> bytes:
    quote, delimiter = form.quote.encode(), form.delimiter.encode()
    if quote:
        return quote + text.replace(quote, quote * 2) + quote
    found, at = bytearray(), 0
    while at < len(text):
        one = text[at : at + 1]
        if text.startswith(delimiter, at):
            found += b"".join(b"\\" + bytes([byte]) for byte in delimiter)
            at += len(delimiter)
            continue
        found += {b"\n": b"\\n", b"\r": b"\\r", b"\\": b"\\\\"}.get(one, one)
        at += 1
    return bytes(found)
