"""What a change is. Frozen data, no behaviour, no I/O.

A value of a column is ``str``, ``bytes`` or ``None`` in the one normal form of its MySQL type (``mysql.values``).
``commit_ts`` is a TSO: ``physical milliseconds << 18 | logical``, always below 2**63.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

Value: TypeAlias = str | bytes | None
Row: TypeAlias = Mapping[str, Value]
Op: TypeAlias = Literal["insert", "update", "delete", "upsert"]
TableName: TypeAlias = tuple[str, str]
"""(schema, table), as in the source."""
TopicPartition: TypeAlias = tuple[str, int]
Offsets: TypeAlias = dict[TopicPartition, int]
"""Of each partition one offset, or one count."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A Kafka record, or a line of a recorded topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None = None
    """Milliseconds since the epoch."""
    key: bytes | None
    value: bytes | None


class ColumnType(msgspec.Struct, frozen=True, kw_only=True):
    """A MySQL column type, field by field as the Simple protocol's ``dataType`` has it."""

    name: str
    """Lower case, without length: ``int``, ``varchar``, ``longblob``, ``vector``."""
    length: int | None = None
    """Display width, characters, bytes, or a decimal's precision. ``None``: not known or the type has none."""
    decimal: int | None = None
    """A decimal's scale, or the fractional digits of a time, datetime or timestamp."""
    unsigned: bool = False
    zerofill: bool = False
    elements: tuple[str, ...] = ()
    """Members of an ENUM or SET, in their order."""
    charset: str | None = None
    """``binary`` for bytes and for everything that is no text."""
    collate: str | None = None


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table."""

    name: str
    type: ColumnType
    nullable: bool = True
    default: str | int | None = None
    """As the message has it (text of the source; an int for BIT in Simple JSON). ``None``: no default, or NULL."""
    virtual: bool | None = None
    """A virtual generated column: never in a row. ``None``: not known."""
    stored: bool | None = None
    """A stored generated column: in every row, and never written to by a consumer. ``None``: not known."""


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """An index of a table; ``primary`` is the primary key."""

    name: str
    unique: bool
    primary: bool
    nullable: bool
    columns: tuple[str, ...]


class Partition(msgspec.Struct, frozen=True, array_like=True):
    """One partition of a table."""

    name: str
    values: tuple[tuple[int | str | None, ...], ...] = ()
    """RANGE: its upper bound, where ``None`` is MAXVALUE. LIST: its values, where ``None`` is NULL."""
    default: bool = False
    """LIST: it takes what no partition names."""


class Partitioning(msgspec.Struct, frozen=True, kw_only=True):
    """Which partition of a table a row belongs to."""

    kind: Literal["range", "list", "hash", "key"]
    columns: tuple[str, ...] = ()
    """Columns that are compared one after the other; none where the expression is not one that is understood."""
    function: str = ""
    """Of the one column, in lower case: ``year``. ``""``: the column itself."""
    partitions: tuple[Partition, ...] = ()
    doubt: str = ""
    """Why rows may lie elsewhere; ``""``: nothing speaks against it."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a table's schema. Names are the source's, unescaped."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    table_id: int | None = None
    """The logical id (a row's ``table_id`` is a partition's id in a partitioned table)."""
    version: int | None = None
    """TiDB's UpdateTS; a RENAME does not change it."""
    partitioning: Partitioning | None = None
    """``None``: it has no partitions, or they are not known."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class Checksum(msgspec.Struct, frozen=True, kw_only=True):
    """Row checksums (changefeed integrity), as carried by the message."""

    version: int
    corrupted: bool
    current: int
    previous: int


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """A row change whose images are still raw bytes; needs no table schema.

    ``before`` and ``after`` are what the protocol's row reader takes. ``schema_key`` names the schema that reads
    them: TiDB's version (Simple), the registry id (Avro), a hash of the schema block (Debezium), or ``""``: the
    schema valid at ``commit_ts`` (Open, canal-json).
    """

    op: Op
    schema: str
    table: str
    commit_ts: int
    """0 where the protocol hides it (Avro without the TiDB extension)."""
    before: bytes | None = None
    after: bytes | None = None
    table_id: int | None = None
    schema_key: str = ""
    partial: bool = False
    """Keys only, or changed columns only."""
    key: bytes | None = None
    """The raw key, for protocols that carry the key columns there (Avro, Debezium)."""
    checksum: Checksum | None = None
    claim_check: str | None = None
    """Where the whole message lies, for a message too large for Kafka."""


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """A row change with its values read."""

    op: Op
    table: Table
    commit_ts: int
    before: Row | None = None
    after: Row | None = None
    table_id: int | None = None
    """The physical id: a partition's in a partitioned table. ``None``: the table's own."""
    partial: bool = False
    checksum: Checksum | None = None
    claim_check: str | None = None


class SchemaChange(msgspec.Struct, frozen=True, kw_only=True):
    """A DDL. ``table`` is the schema after it, ``pre_table`` before it, where the message carries them."""

    commit_ts: int
    query: str
    kind: str
    """The protocol's own word: CREATE, ALTER … (Simple), the type code as text (Open), CREATE/ALTER/DROP (Debezium)."""
    schema: str = ""
    """Schema under which the SQL runs; ``""`` where the message does not name it (Simple's database DDL)."""
    name: str = ""
    """Table that it names; ``""`` for a database DDL."""
    table: Table | None = None
    pre_table: Table | None = None
    named: tuple[TableName, ...] = ()
    """The names in ``query``, in its order, as the job knows them; empty: as ``query`` and ``schema`` have them."""
    merged: TableName | None = None
    """The merged table that its table is a shard of (``config.shards``); all other names are the source's."""
    others: tuple[TableName, ...] = ()
    """Other tables of the job that it names beside ``merged``. Such a DDL is not followed."""
    candidates: tuple[TableName, ...] = ()
    """Other tables of the job that it may mean: it names one without its database. Such a DDL is not followed."""
    shards: tuple[tuple[TableName, TableName], ...] = ()
    """Of a DROP DATABASE, once it is due: the shards that it drops, each with its merged table."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class Watermark(msgspec.Struct, frozen=True):
    """Everything with a smaller commit_ts has been sent to this partition."""

    commit_ts: int


class Bootstrap(msgspec.Struct, frozen=True):
    """The schema of a table, sent before its first row and now and then."""

    table: Table
    commit_ts: int = 0
    """Since when it is valid; 0: not known."""


class Rejected(msgspec.Struct, frozen=True):
    """A message, or one event of it, that cannot be read."""

    reason: str
    """One sentence that names the field, what was found and what is allowed."""


Event: TypeAlias = Envelope | SchemaChange | Watermark | Bootstrap | Rejected
Change: TypeAlias = RowChange | SchemaChange | Watermark | Bootstrap
