"""The change log's columns."""

from __future__ import annotations

import pyarrow as pa

CONTROL_BUCKET = -1
"""The bucket of everything that the driver reads; rows of tables are in buckets from 0."""

BUCKETS = 8
"""Parts of a batch in the log, by a hash of the table's name."""

LOG_SCHEMA = pa.schema(
    [
        ("generation", pa.int32()),
        ("batch", pa.int64()),
        ("slot", pa.int32()),  # the bucket; logs that exist have this name
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("seq", pa.int32()),
        ("op", pa.string()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("table_id", pa.int64()),
        ("schema_key", pa.string()),
        ("commit_ts", pa.int64()),
        ("partial", pa.bool_()),
        ("key", pa.binary()),
        ("before", pa.binary()),
        ("after", pa.binary()),
        ("control", pa.string()),
        ("checksum", pa.int64()),
        ("corrupted", pa.bool_()),
    ]
)
"""The change log. ``kind``: row, late (at or below its table's ``replay_below``, and perhaps late), ddl, watermark,
bootstrap, rejected, skipped, summary. ``control``: JSON of what the kind carries. A rejected or skipped message
keeps its bytes in ``key`` and ``after``. ``seq`` counts the events of one message."""

LOG_DDL = ", ".join(
    f"`{field.name}` {kind}"
    for field, kind in zip(
        LOG_SCHEMA,
        [
            *("int", "bigint", "int", "string", "string", "int", "bigint", "int", "string", "string"),
            *("string", "bigint", "string", "bigint", "boolean", "binary", "binary", "binary", "string"),
            *("bigint", "boolean"),
        ],
        strict=True,
    )
)
"""The same in Spark's words."""
