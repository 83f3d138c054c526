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
"""One offset, or one count, for each partition."""


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
    """A MySQL column type, with the fields of the Simple protocol's ``dataType``."""

    name: str
    """Lower case, without length: ``int``, ``varchar``, ``longblob``, ``vector``."""
    length: int | None = None
    """Display width, characters, bytes, or a decimal's precision. ``None``: unknown, or the type has none."""
    decimal: int | None = None
    """A decimal's scale, or the fractional digits of a time, datetime or timestamp."""
    unsigned: bool = False
    zerofill: bool = False
    elements: tuple[str, ...] = ()
    """Members of an ENUM or SET, in their order."""
    charset: str | None = None
    """``binary`` for bytes and all types that are no text."""
    collate: str | None = None


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table."""

    name: str
    type: ColumnType
    nullable: bool = True
    default: str | int | None = None
    """From the message (text of the source; an int for BIT in Simple JSON). ``None``: no default, or NULL."""
    virtual: bool | None = None
    """A virtual generated column: never in a row. ``None``: unknown."""
    stored: bool | None = None
    """A stored generated column: in every row, and never written by a consumer. ``None``: unknown."""
    expression: str = ""
    """The SQL of a virtual generated column. ``""``: none, or unknown."""


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """An index of a table; ``primary`` is the primary key."""

    name: str
    unique: bool
    primary: bool
    nullable: bool
    columns: tuple[str, ...]
    of_foreign_key: bool | None = False
    """MySQL or MariaDB made it for a foreign key, and drops it when another index begins with its columns. ``None``:
    unknown."""
    prefixes: tuple[int, ...] = ()
    """How many characters or bytes of each column it has; 0: the whole column. ``()``: all columns are whole, as far as
    is known."""


class Partition(msgspec.Struct, frozen=True, array_like=True):
    """One partition of a table."""

    name: str
    values: tuple[tuple[int | str | None, ...], ...] = ()
    """RANGE: its upper bound, where ``None`` is MAXVALUE. LIST: its values, where ``None`` is NULL."""
    default: bool = False
    """LIST: it has the values that no partition names."""


class Partitioning(msgspec.Struct, frozen=True, kw_only=True):
    """Decides to which partition of a table a row belongs."""

    kind: Literal["range", "list", "hash", "key"]
    columns: tuple[str, ...] = ()
    """Columns that are compared in this order; none if the expression is not understood."""
    function: str = ""
    """Function of the only column, in lower case: ``year``. ``""``: the column itself."""
    partitions: tuple[Partition, ...] = ()
    doubt: str = ""
    """Why rows may be in other partitions; ``""``: there is no doubt."""


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
    """``None``: it has no partitions, or they are unknown."""
    foreign_keys: tuple[str, ...] = ()
    """The names of foreign keys, as far as SQL gives them."""
    charset: str | None = None
    """The default character set: of text columns that name none. ``None``: unknown."""
    collate: str | None = None
    """The default collation. ``None``: unknown."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class Checksum(msgspec.Struct, frozen=True, kw_only=True):
    """Row checksums (changefeed integrity) of a message."""

    version: int
    corrupted: bool
    current: int
    previous: int


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """A row change whose images are still raw bytes. It needs no table schema.

    ``before`` and ``after`` are for the protocol's row reader. ``schema_key`` names the schema that reads them: TiDB's
    version (Simple), the registry id (Avro), a hash of the schema block (Debezium), or ``""``, the schema valid at
    ``commit_ts`` (Open, canal-json).
    """

    op: Op
    schema: str
    table: str
    commit_ts: int
    """0 if the protocol hides it (Avro without the TiDB extension)."""
    before: bytes | None = None
    after: bytes | None = None
    table_id: int | None = None
    schema_key: str = ""
    partial: bool = False
    """Whether images have only keys, or only changed columns."""
    key: bytes | None = None
    """The raw key, for protocols that have the key columns there (Avro, Debezium)."""
    checksum: Checksum | None = None
    claim_check: str | None = None
    """Location of the whole message, if it is too large for Kafka."""


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
    """A DDL. ``table`` is the schema after it, ``pre_table`` before it, if the message has them."""

    commit_ts: int
    query: str
    kind: str
    """The protocol's own word: CREATE, ALTER … (Simple), the type code as text (Open), CREATE/ALTER/DROP (Debezium)."""
    schema: str = ""
    """Schema in which the SQL runs; ``""`` if the message does not name it (Simple's database DDL)."""
    name: str = ""
    """Table that it names; ``""`` for a database DDL."""
    table: Table | None = None
    pre_table: Table | None = None
    named: tuple[TableName, ...] = ()
    """The job's names for the names in ``query``, in its order; empty: the names in ``query`` and ``schema``."""
    merged: TableName | None = None
    """The merged table whose shard its table is (``config.shards``). All other names are the source's."""
    others: tuple[TableName, ...] = ()
    """Other tables of the job that it names besides ``merged``. Such a DDL is not followed."""
    candidates: tuple[TableName, ...] = ()
    """Other tables of the job that it may mean: it names one without its database. Such a DDL is not followed."""
    shards: tuple[tuple[TableName, TableName], ...] = ()
    """For a DROP DATABASE, once it is due: the shards that it drops, each with its merged table."""

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
    """Since when it is valid; 0: unknown."""


class Rejected(msgspec.Struct, frozen=True):
    """A message, or one event of it, that cannot be read."""

    reason: str
    """One sentence that names the field, what was found and what is allowed."""


Event: TypeAlias = Envelope | SchemaChange | Watermark | Bootstrap | Rejected
Change: TypeAlias = RowChange | SchemaChange | Watermark | Bootstrap
