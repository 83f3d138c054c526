"""Reads whole tables from a folder of Dumpling: schema files, data files, and ``metadata`` with their commit_ts.

A chunk is a data file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from ticdc_spark.capture.snapshot.base import Wanted, Wave, comments_of, has_wanted, table_of
from ticdc_spark.capture.snapshot.dump_rows import Cell, read_file
from ticdc_spark.capture.snapshot.kept_rows import KeptRows
from ticdc_spark.capture.snapshot.typed import typed
from ticdc_spark.ddl import Comments
from ticdc_spark.errors import MessageError, SourceFault, UsageError, os_reason
from ticdc_spark.model import Column, Row, Table, TableName, Value
from ticdc_spark.mysql import enum_index, is_bytes, set_mask
from ticdc_spark.spark.tasks import UNREADABLE, ArrowTask, Counter, SourceMoved, in_worker

_SCHEMA = re.compile(r"(?P<schema>[^.]+)\.(?P<table>[^.]+)-schema\.sql(\.gz|\.zst)?")
_DATA = re.compile(r"(?P<schema>[^.]+)\.(?P<table>[^.]+)\.\d+\.(sql|csv)(\.gz|\.zst|\.zstd)?", re.IGNORECASE)
_POSITION = re.compile(r"^SHOW (?:MASTER|BINARY LOG) STATUS:.*\n\s*Log:\s*(\S+)\s*\n\s*Pos:\s*(\d+)", re.MULTILINE)


class DumpReader:
    """Reads whole tables from the files of a Dumpling export."""

    exact = True

    def __init__(self, folder: Path, commit_ts: int | None = None) -> None:
        """``commit_ts``: of the dump; ``None``: from its metadata.

        Raises: UsageError if the metadata has none, or the folder has no table; SourceFault
        """
        self.folder = folder
        self.fixed: int | None = commit_ts or _commit_ts(folder)
        try:
            names = sorted(path.name for path in folder.iterdir() if path.is_file())
        except OSError as error:
            raise SourceFault(f"the dump cannot be read: {os_reason(error)}") from error
        found = ((name, _SCHEMA.fullmatch(name)) for name in names)
        self._schemas = {_name_of(match): name for name, match in found if match is not None}
        self._files: dict[TableName, list[str]] = {}
        for name in names:
            if (match := _DATA.fullmatch(name)) is not None:
                self._files.setdefault(_name_of(match), []).append(name)
        if not self._schemas:
            raise UsageError(f"[snapshot] path: {folder} has no schema files of Dumpling (`schema.table-schema.sql`)")

    def tables(self) -> Sequence[TableName]:
        return sorted(self._schemas)

    def schema(self, name: TableName, at: int | None) -> Table | None:
        create = self._create(name)
        return None if create is None else table_of(create, name[0])

    def comments(self, name: TableName, at: int | None) -> Comments:
        return comments_of(self._create(name))

    def _create(self, name: TableName) -> str | None:
        """A table's CREATE statement; ``None``: there is no such table. Raises: MessageError"""
        file = self._schemas.get(name)
        if file is None:
            return None
        with pa.OSFile(str(self.folder / file)) as raw:
            kinds = {".gz": "gzip", ".zst": "zstd"}
            kind = kinds.get(Path(file).suffix)
            text = bytes((raw if kind is None else pa.CompressedInputStream(raw, kind)).read()).decode()
        create = text[text.upper().index("CREATE TABLE") :] if "CREATE TABLE" in text.upper() else ""
        if not create:
            raise MessageError(f"{self.folder / file} has no CREATE TABLE")
        return create.strip().rstrip(";")

    def identity(self, name: TableName) -> str:
        return ""

    def estimate(self, name: TableName) -> int:
        return 0

    def now(self) -> int:
        return self.fixed or 0

    def wave(self, wanted: Wanted) -> Wave:
        table = self.schema(wanted.name, None)
        if table is None:
            raise SourceMoved("the dump has no such table")
        if not has_wanted(table, wanted):
            raise SourceMoved("it has other columns, or another key")
        files = [name for name in self._files.get(wanted.name, []) if name > wanted.upto]
        chosen = files[: wanted.parts]
        paths = tuple(self.folder / name for name in chosen)
        upto = chosen[-1] if chosen else wanted.upto
        read = _ReadFiles(table, wanted, paths)
        return Wave(parts=max(1, len(chosen)), read=read, upto=upto, done=len(chosen) == len(files))

    def rows(self, table: Table, keys: Sequence[Row], at: int | None) -> list[Row]:
        raise AssertionError("a dump has no rows of now")

    def close(self) -> None: ...


class _ReadFiles:
    """The code of tasks, which is sent to them."""

    def __init__(self, table: Table, wanted: Wanted, paths: tuple[Path, ...]) -> None:
        self.table, self.wanted, self.paths = table, wanted, paths

    def __call__(self, zeros: Counter) -> ArrowTask:
        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    if number < len(self.paths):
                        yield from self._file(self.paths[number], zeros)

        return in_worker(run)

    def _file(self, path: Path, zeros: Counter) -> Iterator[pa.RecordBatch]:
        of = {column.name: column for column in self.table.columns}
        kept = KeptRows(self.wanted, self.table)
        listed = tuple(column.name for column in self.table.columns if not (column.virtual or column.stored))
        try:
            for names, rows in read_file(path):
                have = names or listed
                if rows and len(rows[0]) != len(have):
                    raise MessageError(f"{path}: a row has {len(rows[0])} values; expected: {len(have)}")
                columns = list(zip(*rows, strict=True))
                cells = {name: _values(of[name], columns[at]) for at, name in enumerate(have) if name in of}
                none: list[Value] = [None] * len(rows)
                chosen = [cells.get(name, none) for name in kept.columns]
                if wanted := kept.of(list(zip(*chosen, strict=True))):
                    yield typed(wanted, self.wanted.columns, self.wanted.lake, zeros)
        except MessageError as error:
            text = str(error)
            raise MessageError(text if text.startswith(UNREADABLE) else f"{UNREADABLE}: {text}") from error
        except ValueError as error:
            raise MessageError(f"{UNREADABLE}: {path}: {error}") from error
        except OSError as error:
            raise SourceFault(f"the dump cannot be read: {path}: {os_reason(error)}") from error


def _values(column: Column, cells: Sequence[Cell]) -> list[Value]:
    """Cells in the canonical form that ``typed`` needs."""
    kind = column.type
    if is_bytes(kind):
        return list(cells)
    if kind.name == "bit":
        return [None if cell is None else str(int.from_bytes(cell, "big")) for cell in cells]
    texts = [None if cell is None else cell.decode() for cell in cells]
    if kind.name == "enum":
        return [None if text is None else enum_index(kind, text) for text in texts]
    if kind.name == "set":
        return [None if text is None else set_mask(kind, text) for text in texts]
    return list(texts)


def _name_of(match: re.Match[str]) -> TableName:
    return unquote(match["schema"]), unquote(match["table"])


def _commit_ts(folder: Path) -> int:
    path = folder / "metadata"
    try:
        text = path.read_text()
    except OSError as error:
        raise UsageError(f"[snapshot] path: {os_reason(error)}; a whole dump has this file") from error
    if "Finished dump at:" not in text:
        raise UsageError(f"{path}: the dump was not finished")
    found = _POSITION.search(text)
    if found is None or found[1] != "tidb-binlog":
        raise UsageError(f"{path} has no TSO, as it is no dump of TiDB: write `commit-ts` under [snapshot]")
    return int(found[2])
