"""The named differences between a changefeed's Debezium messages and those of Debezium's own MariaDB connector.

Each has its name, what each side sends, and what justifies it:

- ``document, …``: a section of TiCDC's documentation of its Debezium protocol.
- ``TiCDC's messages``: bytes that TiCDC itself has sent, with which the golden tests compare ours.
- ``config, …``: an option of a changefeed or a property of the connector that is set, or left at its default.
- ``MariaDB, …``: what ``docs/reference/capture.md`` says of a type that TiDB does not have.
- ``limit, …``: what ``docs/reference/protocol-limits.md`` says of us.
- ``native is wrong``: the value in the database is another than native's; the difference has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.integration.judge import ABSENT, Spot
from tests.integration.judge_rules import (
    BINARIES,
    SOURCE,
    at,
    boolean,
    both,
    cell,
    comment,
    committed_later,
    decimal,
    deletes_first,
    either,
    finer_times,
    index_ddl,
    json_type,
    key_moved,
    made_at,
    named_after_connector,
    net_change,
    no_before,
    null_default,
    of_change,
    of_field,
    only_native_ddl,
    order_of_envelope,
    pair,
    real,
    renamed_id,
    schema_name,
    schema_of_source,
    shortest_float,
    snapshot_ddl,
    source_of_native,
    spatial,
    split_unique,
    table_of_ddl,
    tidb_type,
    tombstone,
    uuid_type,
    virtual,
)


class Difference(NamedTuple):
    """One named difference."""

    name: str
    source: str
    ours: str
    native: str
    fits: Callable[[Spot], bool]


VALUE_FORMAT = "document, DML event, value format"
TYPES = "document, data type mapping"
VECTORS = "TiCDC's messages"
NATIVE = "native is wrong"
DIFFERENCES = (
    Difference(
        "source",
        VALUE_FORMAT,
        "the fields of 2.4.0, with 0, '' and null for what a binlog has",
        "a place in the binlog",
        source_of_native,
    ),
    Difference(
        "name", VALUE_FORMAT, "the cluster's", "topic.prefix", both(at(*SOURCE, "name"), lambda s: s.ours == "default")
    ),
    Difference(
        "commit_ts, cluster_id",
        "document, use the message format",
        "there",
        "not there",
        lambda s: s.path[:3] == SOURCE and s.path[-1] in ("commit_ts", "cluster_id") and s.native is ABSENT,
    ),
    Difference("ts_us, ts_ns", VALUE_FORMAT, "not there", "with ts_ms, from Debezium 2.6 on", finer_times),
    Difference("ts_ms", VALUE_FORMAT, "when the message was made", "likewise", made_at),
    Difference(
        "source.ts_ms",
        "document, commit_ts",
        "when the transaction was committed",
        "when the row was changed",
        committed_later,
    ),
    Difference(
        "source.snapshot",
        "config, value.converter.replace.null.with.default = false",
        "'false'",
        "null, for which its schema has 'false'",
        both(at(*SOURCE, "snapshot"), pair("false", None)),
    ),
    Difference(
        "headers of the connector",
        "config, changefeeds have no headers",
        "none",
        "its name, task and run",
        lambda s: s.path[0] == "headers" and s.path[1].startswith("__debezium.context.") and s.ours is ABSENT,
    ),
    Difference(
        "schema names", "document, DML event, schema.name", "after the cluster", "after topic.prefix", schema_name
    ),
    Difference(
        "schema of source",
        VALUE_FORMAT,
        "of 2.4.0's connector for MySQL",
        "of 3.5.0's connector for MariaDB",
        schema_of_source,
    ),
    Difference(
        "names of DDL schemas",
        "document, DDL event",
        "of the connector for MySQL",
        "of that for MariaDB",
        named_after_connector,
    ),
    Difference(
        "order in the envelope", VALUE_FORMAT, "op, ts_ms, transaction", "transaction, op, ts_ms", order_of_envelope
    ),
    Difference(
        "tidb_type", "document, DML event, tidb_type", "there with enable-tidb-extension", "not there", tidb_type
    ),
    Difference(
        "watermarks",
        "document, WATERMARK event",
        "there with enable-tidb-extension",
        "not there",
        lambda s: s.path == ("message", "m") and s.native is ABSENT,
    ),
    Difference(
        "output-old-value", "config, debezium.output-old-value = false", "no before in updates", "before", no_before
    ),
    Difference("tombstones", "config, tombstones.on.delete", "none", "after each delete, the key with null", tombstone),
    Difference("headers of moved keys", "config, changefeeds have no headers", "none", "the other key", key_moved),
    Difference(
        "deletes first",
        "config, output-raw-change-event = false",
        "deletes before all else of a transaction",
        "as they were done",
        deletes_first,
    ),
    Difference(
        "unique keys",
        "config, output-raw-change-event = false",
        "a changed unique key is delete and insert",
        "an update",
        split_unique,
    ),
    Difference(
        "net changes",
        "config, output-raw-change-event = false",
        "of a row one change a transaction",
        "each",
        net_change,
    ),
    Difference(
        "tables without a key",
        "config, force-replicate = false",
        "not sent",
        "sent, with a null key",
        either(
            both(lambda s: s.table == "no_key", at("message", "table")),
            both(lambda s: s.table == "no_key", only_native_ddl("CREATE")),
        ),
    ),
    Difference("schemas at the start", "config, snapshot.mode = no_data", "not sent", "as DDL", snapshot_ddl),
    Difference(
        "TRUNCATE",
        "config, skipped.operations = t",
        "sent",
        "not sent",
        both(at("message", "ddl"), pair("TRUNCATE TABLE judge.again", ABSENT)),
    ),
    Difference(
        "DECIMAL", TYPES + ": DECIMAL is float64", "a double", "bytes, with decimal.handling.mode = precise", decimal
    ),
    Difference("BOOLEAN", TYPES + ": BOOLEAN is TINYINT(1)", "int16", "boolean", boolean),
    Difference("FLOAT", TYPES + ": FLOAT 5.61", "the shortest of 32 bits", "of 64 bits, or Java's", shortest_float),
    Difference("REAL", TYPES + ": REAL is DOUBLE", "double", "float, losing digits", real),
    Difference(
        "binary",
        TYPES + ": BINARY flag",
        "string, in base64",
        "bytes, which JSON has in base64",
        of_field(BINARIES, type=("string", "bytes")),
    ),
    Difference("binary's default", VECTORS, "text", "base64", of_field({"defaults.vb"}, default=("ab", "YWI="))),
    Difference(
        "spatial types", TYPES + ": not supported by TiDB", "bytes (docs/reference/capture.md)", "a struct", spatial
    ),
    Difference(
        "ENUM with a quote",
        TYPES + ": ENUM elements",
        "'it's'",
        "'it''s'",
        of_change({"texts.e"}, **{"enumValues.3": ("'it's'", "'it''s'")}),
    ),
    Difference(
        "NULL with a default",
        "config, value.converter.replace.null.with.default = true",
        "null (docs/reference/protocol-limits.md)",
        "the default",
        null_default,
    ),
    Difference("virtual columns", VECTORS, "not in rows, last in schemas", "as others", virtual),
    Difference("JSON", "MariaDB, JSON is LONGTEXT", "LONGTEXT", "io.debezium.data.Json", json_type),
    Difference("UUID", "MariaDB, UUID is CHAR(36)", "CHAR(36)", "io.debezium.data.Uuid", uuid_type),
    Difference(
        "order of a key's columns",
        VECTORS,
        "the table's",
        "the key's",
        both(at("key", "schema", "fields", "order"), pair(["a", "b"], ["b", "a"])),
    ),
    Difference(
        "BIGINT UNSIGNED's default",
        VECTORS,
        "a double",
        "the largest long",
        of_field({"defaults.bu"}, default=(18446744073709552000, 9223372036854775807)),
    ),
    Difference(
        "length in tableChanges",
        VECTORS,
        "not where it is the type's default in TiDB, for VARCHAR 5",
        "always",
        either(
            of_change({"numbers.one", "defaults.one"}, length=(None, 1)), of_change({'we-ird 名."q'}, length=(None, 5))
        ),
    ),
    Difference(
        "DOUBLE(M,D)",
        VECTORS,
        "with its size",
        "without",
        of_change({"numbers.ds"}, typeExpression=("DOUBLE(9,2)", "DOUBLE")),
    ),
    Difference(
        "ON UPDATE",
        VECTORS,
        "autoIncremented, generated",
        "neither",
        of_change({"defaults.now3"}, autoIncremented=(True, False), generated=(True, False)),
    ),
    Difference("renamed tables", "document, tableChanges.id", "both names", "the new one", renamed_id),
    Difference(
        "source.table of DDL", VECTORS, "of one table, or ''", "of all tables of the statement, or null", table_of_ddl
    ),
    Difference("comments", "limit, comments in tableChanges", "none", "all", comment),
    Difference("DDL of an index", NATIVE + ": it has a database and a table", "of its table", "of none", index_ddl),
    Difference(
        "YEAR 0000", NATIVE + ": it is 0000", "0", "1900", both(lambda s: cell(s) == "numbers.y", pair(0, 1900))
    ),
    Difference(
        "UUID with zeros at its end",
        NATIVE + ": it is 123e4567-e89b-12d3-a456-426655440000",
        "it",
        "its bytes moved",
        both(
            lambda s: cell(s) == "texts.u",
            pair("123e4567-e89b-12d3-a456-426655440000", "0000123e-4567-e89b-12d3-a45642665544"),
        ),
    ),
    Difference(
        "ENUM with a comma",
        NATIVE + ": the member is 'c,d'",
        "c,d",
        "c\\,d",
        both(lambda s: cell(s) == "texts.e", pair("c,d", "c\\,d")),
    ),
    Difference(
        "default with a quote",
        NATIVE + ": the default is it's",
        "it's",
        "it''s",
        either(
            of_field({"defaults.v"}, default=("it's", "it''s")),
            of_change({"defaults.v"}, defaultValueExpression=("it's", "it''s")),
        ),
    ),
)
"""All of them. What is in none is a fault; so is one that does not occur."""
