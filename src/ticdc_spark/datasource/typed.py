"""The typed form: the changes of one table, in columns of the types that a job would give them in the lake.

Every image of a change becomes a separate row: an update has one row before and one after it. Images are read as a job
reads them (``spark.decode.rows``), each as if it were an insert. If only the key of an old image was sent, only the key
is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.changes.opening import Messages, Opened, Opener, of_batch, raw_rows
from ticdc_spark.datasource.generic import stop_if_rejected, timestamp_of, with_file
from ticdc_spark.datasource.planning import Reading
from ticdc_spark.datasource.schemas import Schemas
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Envelope, Rejected, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols import protocol
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.spark.decode.odd_columns import odd_columns
from ticdc_spark.spark.decode.raw import RAW_SCHEMA, of_arrow
from ticdc_spark.spark.decode.rows import BAD, META, SEQ, BadRow, read_rows
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.types import LakeColumn, arrow_type, lake_columns
from ticdc_spark.streams.event_lines import EventLine

FIELDS: tuple[tuple[str, str, pa.DataType], ...] = (
    ("_change_type", "string", pa.string()),
    ("_commit_version", "bigint", pa.int64()),
    ("_commit_timestamp", "timestamp", pa.timestamp("us", tz="UTC")),
    ("_topic", "string", pa.string()),
    ("_partition", "int", pa.int32()),
    ("_offset", "bigint", pa.int64()),
    ("_seq", "int", pa.int32()),
    ("_reason", "string", pa.string()),
)
"""The columns after the columns of the table."""
_UPDATE = ("update_preimage", "update_postimage")


def table_of(reading: Reading) -> Table:
    """The newest version of the table to read. Raises: UsageError if no message shows it"""
    wanted = reading.options.table
    assert wanted is not None
    found = reading.known.newest(wanted) or reading.shown
    if found is None:
        known = ", ".join(".".join(name) for name in reading.known.names) or "none"
        raise UsageError(
            f"option table: no message shows the schema of {'.'.join(wanted)}; known: {known}. Set the option ddl to "
            "its CREATE TABLE statement"
        )
    return found


def columns_of(reading: Reading) -> tuple[LakeColumn, ...]:
    """The table's columns. Raises: UsageError if one has the name of the source's own columns"""
    table = table_of(reading)
    try:
        columns = _lake_columns(reading, table)
    except MessageError as error:
        raise UsageError(f"option table: {error}") from error
    own = {name for name, _, _ in FIELDS}
    for column in columns:
        if column.name.lower() in own:
            raise UsageError(
                f"option table: column `{column.source}` of {table.schema}.{table.name} has the name of a column of "
                "the source; read the generic form (without `table`)"
            )
    return columns


def planned_columns(reading: Reading, planned: Mapping[str, str]) -> tuple[LakeColumn, ...]:
    """The columns of the query's plan, by name and type, even if the table has changed since.

    Raises: UsageError for a column that no version of the table has with this type
    """
    wanted = reading.options.table
    assert wanted is not None
    newest = table_of(reading)
    versions = [newest, *reversed([one for one in reading.known.tables(wanted) if one != newest])]
    found: dict[str, LakeColumn] = {}
    for version in versions:
        for column in _lake_columns(reading, version):
            if planned.get(column.name) == column.type.spark:
                found.setdefault(column.name, column)
    own = {name for name, _, _ in FIELDS}
    for name, kind in planned.items():
        if name not in own and name not in found:
            raise UsageError(
                f"column {name} ({kind}) of {'.'.join(wanted)}: no known version of the table has a column of this "
                "name and type; read without your own schema"
            )
    return tuple(found[name] for name in planned if name in found)


def _lake_columns(reading: Reading, table: Table) -> tuple[LakeColumn, ...]:
    return lake_columns(table, handle_key(table), reading.options.lake)


@dataclass(frozen=True)
class _Image:
    """One image of a row."""

    row: int
    """The number of the row among the decoded ones."""
    change_type: str
    image: bytes | None
    is_old: bool


def typed_rows(
    reading: Reading, columns: tuple[LakeColumn, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of messages. Raises: RejectedMessage, unless unreadable messages become rows"""
    opener, reader = Opener(reading.opening), _Reader(reading, columns)
    for batch in batches:
        messages = of_batch(batch)
        opened = opener.open(messages)
        yield from reader.rows(messages, opened)


class _Reader:
    """Reads the rows of the table. Each task has its own."""

    def __init__(self, reading: Reading, columns: tuple[LakeColumn, ...]) -> None:
        self._reading = reading
        self._columns = columns
        self._schemas = Schemas(reading.known, versioned=protocol(reading.protocol).traits.versioned_tables)
        self._of_row = protocol(reading.protocol).row_tables(reading.texts)
        self._values = _values(reading)
        self._tables: dict[Table, str] = {}
        self._own: dict[str, tuple[LakeColumn, ...]] = {}
        """By the key of a schema: the columns with which rows of that version are read."""
        self._by_schema_key: dict[str, str] = {}
        self._hidden: frozenset[str] = frozenset()
        self._schema = pa.schema(
            [*((one.name, arrow_type(one.type)) for one in columns), *((name, kind) for name, _, kind in FIELDS)]
        )

    def rows(self, messages: Messages, opened: Opened) -> Iterator[pa.RecordBatch]:
        """The rows of some messages, in order, and the messages that cannot be decoded."""
        wanted, bounds = self._reading.options.table, self._reading.bounds
        numbers: list[int] = []
        keys: list[str] = []
        bad: list[tuple[int, int, Rejected, Envelope | None]] = [
            (at, seq, event, None) for at, seq, event in opened.others if isinstance(event, Rejected)
        ]
        for number, (row, at) in enumerate(zip(opened.rows, opened.origin, strict=True)):
            if (row.schema, row.table) == wanted and bounds.wants_row(row):
                try:
                    keys.append(self._key(row, messages.keys[at], messages.values[at]))
                    numbers.append(number)
                except MessageError as error:
                    bad.append((at, 0 if opened.seqs is None else opened.seqs[number], Rejected(str(error)), row))
        if bad:
            yield self._unreadable(messages, bad)
        if numbers:
            raw = raw_rows(messages, opened, numbers, verify=self._reading.options.verify_checksum)
            by_version = raw.to_arrow().set_column(5, "schema_key", pa.array(keys, pa.string()))
            yield self._typed(by_version, dict(zip(messages.offsets, messages.keys, strict=True)))

    def _key(self, row: Envelope, key: bytes | None, value: bytes | None) -> str:
        """The key of the schema with which a row is read. Raises: MessageError"""
        table = self._schemas.of(row)
        if table is None and row.schema_key in self._by_schema_key:
            return self._by_schema_key[row.schema_key]
        if table is None and self._of_row is not None and row.schema_key:
            table = self._of_row(key, value, row)
            self._by_schema_key[row.schema_key] = self._key_of(table)
        if table is None:
            raise MessageError(
                f"the schema of `{row.schema}`.`{row.table}` at {row.commit_ts} is not known; set the option ddl to "
                "its CREATE TABLE statement"
            )
        return self._key_of(table)

    def _key_of(self, table: Table) -> str:
        if table not in self._tables:
            number = str(len(self._tables))
            self._own[number] = _columns_then(self._columns, _lake_columns(self._reading, table))
            self._tables[table] = number
        return self._tables[table]

    def _typed(self, raw: pa.RecordBatch, places: Mapping[int, bytes | None]) -> pa.RecordBatch:
        """``places``: the keys of the messages by offset; a part is of one partition."""
        images = list(_images(raw))
        read = self._read(_inserts(raw, images))
        reasons = _reasons(read)
        if again := [at for at in reasons if images[at].is_old]:
            # only the key was sent
            keys = self._read(_deletes(raw, images, again))
            kept = read.filter(pa.array([at not in {*again} for at in range(len(images))]))
            read = pa.Table.from_batches([kept, keys]).sort_by(SEQ).combine_chunks().to_batches()[0]
            reasons = _reasons(read)
        offsets = raw.column("offset")
        reasons = {at: with_file(reason, places[offsets[images[at].row].as_py()]) for at, reason in reasons.items()}
        return self._shaped(raw, images, read, reasons)

    def _read(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Read images in their order; again if they have a hidden column that the table lacks."""
        keys = rows.column("schema_key")
        parts = [(one, rows.filter(pc.equal(keys, one))) for one in pc.unique(keys).to_pylist()]
        tables = {key: table for table, key in self._tables.items()}
        while True:
            batches = [
                batch for key, part in parts for batch in read_rows(self._plan(key, tables[key]))([of_arrow(part)])
            ]
            read = pa.Table.from_batches(batches).sort_by(SEQ).combine_chunks().to_batches()[0]
            found = [odd_columns(reason) for reason in _reasons(read).values()]
            hidden = self._hidden.union(*(one.hidden for one in found if one is not None))
            if hidden == self._hidden:
                return read
            self._hidden = hidden

    def _plan(self, key: str, table: Table) -> ReadPlan:
        """How rows of one version of the table are read."""
        return ReadPlan(
            protocol=self._reading.protocol,
            tables={key: table},
            columns=self._own[key],
            hidden=self._hidden,
            options=self._values,
            lake=self._reading.options.lake,
            schemas=self._reading.texts,
            expects="nothing",
            upstream=self._reading.options.upstream,
        )

    def _shaped(
        self, raw: pa.RecordBatch, images: Sequence[_Image], read: pa.RecordBatch, reasons: dict[int, str]
    ) -> pa.RecordBatch:
        origin = raw.select(["commit_ts", "topic", "partition", "offset", "seq"]).to_pylist()
        rows = []
        for at, image in enumerate(images):
            place = origin[image.row]
            if at in reasons:
                self._stop(place, reasons[at])
            rows.append(_own(place, "unreadable" if at in reasons else image.change_type, reasons.get(at)))
        own = pa.RecordBatch.from_pylist(rows, schema=pa.schema([(name, kind) for name, _, kind in FIELDS]))
        return pa.RecordBatch.from_arrays([*read.columns[len(META) :], *own.columns], schema=self._schema)

    def _unreadable(
        self, messages: Messages, bad: Iterable[tuple[int, int, Rejected, Envelope | None]]
    ) -> pa.RecordBatch:
        rows = []
        for at, seq, event, row in bad:
            place = {
                "topic": messages.topics[at],
                "partition": messages.partitions[at],
                "offset": messages.offsets[at],
                "seq": seq,
                "commit_ts": 0 if row is None else row.commit_ts,
            }
            reason = with_file(event.reason, messages.keys[at])
            self._stop(place, reason)
            rows.append(_own(place, "unreadable", reason))
        return pa.RecordBatch.from_pylist(rows, schema=self._schema)

    def _stop(self, place: dict[str, Any], reason: str) -> None:
        schema, table = self._reading.options.table or (None, None)
        at = {name: place[name] for name in ("topic", "partition", "offset", "seq")}
        stop_if_rejected(self._reading, EventLine(kind="rejected", schema=schema, table=table, reason=reason, **at))


def _columns_then(columns: Sequence[LakeColumn], then: Iterable[LakeColumn]) -> tuple[LakeColumn, ...]:
    """The query's columns, as an older version of the table defines their values: an ENUM has that version's members.

    Raises: MessageError if a value depends on a time zone, which this form does not apply
    """
    own = {one.name: one for one in then}
    found = []
    for column in columns:
        mine = own.get(column.name, column)
        kinds = {mine.column.type.name, column.column.type.name}
        if len(kinds) > 1 and "timestamp" in kinds:
            raise MessageError(
                f"column `{column.source}` was {mine.column.type.name} and is {column.column.type.name} now, and its "
                "value depends on a time zone; read it in the generic form (without `table`)"
            )
        found.append(mine if mine.type == column.type else msgspec.structs.replace(column, key=mine.key))
    return tuple(found)


def _values(reading: Reading) -> ReadOptions:
    """How values are read: defaults have a time zone if the table is from SQL, and are UTC if it is from messages."""
    options = reading.options
    assert options.table is not None
    if protocol(reading.protocol).traits.versioned_tables:
        return options.reading
    if reading.known.newest(options.table) is None:
        return msgspec.structs.replace(options.reading, literal_defaults=True)
    return msgspec.structs.replace(options.reading, default_timezone=options.ddl_timezone or options.source_timezone)


def _images(raw: pa.RecordBatch) -> Iterator[_Image]:
    columns = (raw.column(name).to_pylist() for name in ("op", "before", "after"))
    for row, (op, before, after) in enumerate(zip(*columns, strict=True)):
        if op == "update":
            if before is not None:
                yield _Image(row, _UPDATE[0], before, True)
            yield _Image(row, _UPDATE[1], after, False)
        else:
            is_old = op == "delete"
            yield _Image(row, op, before if is_old else after, is_old)


def _inserts(raw: pa.RecordBatch, images: Sequence[_Image]) -> pa.RecordBatch:
    """Images as rows that insert them. Old images are assumed to be complete, and have no checksum of their own."""
    rows = raw.take(pa.array([image.row for image in images], pa.int64()))
    is_old = pa.array([image.is_old for image in images], pa.bool_())
    return _with(
        rows,
        seq=pa.array(range(len(images)), pa.int32()),
        op=pa.repeat(pa.scalar("insert"), len(images)),
        before=pa.nulls(len(images), pa.binary()),
        after=pa.array([image.image for image in images], pa.binary()),
        partial=pc.and_(rows.column("partial"), pc.invert(is_old)),
        checksum=pc.if_else(is_old, pa.scalar(None, pa.int64()), rows.column("checksum")),
        corrupted=pc.if_else(is_old, pa.scalar(None, pa.bool_()), rows.column("corrupted")),
    )


def _deletes(raw: pa.RecordBatch, images: Sequence[_Image], chosen: Sequence[int]) -> pa.RecordBatch:
    """Some old images as rows that delete them, so that only their keys are read."""
    rows = raw.take(pa.array([images[at].row for at in chosen], pa.int64()))
    return _with(
        rows,
        seq=pa.array(chosen, pa.int32()),
        op=pa.repeat(pa.scalar("delete"), len(chosen)),
        before=pa.array([images[at].image for at in chosen], pa.binary()),
        after=pa.nulls(len(chosen), pa.binary()),
    )


def _with(rows: pa.RecordBatch, **columns: pa.Array) -> pa.RecordBatch:
    arrays = [columns.get(field.name, rows.column(field.name)) for field in RAW_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)


def _reasons(read: pa.RecordBatch) -> dict[int, str]:
    """Why rows cannot be read, by their positions."""
    bad = read.column(BAD)
    if bad.null_count == len(bad):
        return {}
    texts = enumerate(bad.to_pylist())
    return {at: msgspec.json.decode(text, type=BadRow).reason for at, text in texts if text is not None}


def _own(place: dict[str, Any], change_type: str, reason: str | None) -> dict[str, Any]:
    """The source's own columns of a row."""
    return {
        "_change_type": change_type,
        "_commit_version": place["commit_ts"] or None,
        "_commit_timestamp": timestamp_of(place["commit_ts"]),
        "_topic": place["topic"],
        "_partition": place["partition"],
        "_offset": place["offset"],
        "_seq": place["seq"],
        "_reason": reason,
    }
