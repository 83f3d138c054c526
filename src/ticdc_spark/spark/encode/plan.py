"""What the driver does before rows are encoded: it checks, registers schemas, and shapes a frame of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from ticdc_spark.errors import UsageError
from ticdc_spark.model import Table
from ticdc_spark.protocols import protocol as protocol_of
from ticdc_spark.protocols.base import Registry, Tables
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.spark.encode.messages import (
    CHANGE_COLUMNS,
    ENCODED_DDL,
    EncodePlan,
    RawImages,
    TypedImages,
    encode_rows,
)
from ticdc_spark.spark.types import LakeColumn
from ticdc_spark.streams.registering import Registering, register_table


def plan_encoding(
    protocol: str,
    options: Mapping[str, str],
    tables: Tables,
    images: RawImages | TypedImages,
    registry: Registry | None = None,
    *,
    strict: bool = True,
) -> EncodePlan:
    """Check what tasks are to do, on the driver, and register the schemas of the tables where the protocol needs it.

    ``options``: as ``target_encoder`` takes them.

    Raises: UsageError for options or tables that do not suit; RegistryFault, IncompatibleSchema.
    """
    target = protocol_of(protocol)
    if isinstance(images, RawImages) and images.options.verify_checksum:
        raise UsageError("checksums are verified where rows are read for the lake, not where they are encoded")
    for table in tables.values():
        if target.traits.versioned_tables and table.version is None:
            raise UsageError(f"{target.name} names the version of each table; `{table.schema}`.`{table.name}` has none")
    registering = None if registry is None else Registering(registry)
    encoder = target_encoder(target.name, options, registering)
    if registering is not None and target.traits.registry:
        for table in tables.values():
            register_table(encoder, table)
    return EncodePlan(
        protocol=target.name,
        options=dict(options),
        tables=dict(tables),
        images=images,
        ids={} if registering is None else registering.ids,
        strict=strict,
    )


def encoded(changes: DataFrame, plan: EncodePlan) -> DataFrame:
    """The messages of changes (``CHANGE_COLUMNS``), as columns for Spark's Kafka sink.

    Order is kept for each topic and partition within a partition of the frame. Open puts changes that follow each
    other there into one message.
    """
    return changes.select(*CHANGE_COLUMNS).mapInArrow(encode_rows(plan), ENCODED_DDL)


def inserts(rows: DataFrame, table: Table, columns: Sequence[LakeColumn], commit_ts: int, topic: str) -> DataFrame:
    """Rows of a table (a snapshot) as changes that insert them, to partition 0 of ``topic``; schema key ``""``.

    Raises: UsageError for a column that is not there, or not of its lake type.
    """
    kinds = dict(rows.dtypes)
    for column in columns:
        found = kinds.get(column.name)
        if found != column.type.spark:
            raise UsageError(
                f"column `{column.name}` of `{table.schema}`.`{table.name}` is {found}; expected: {column.type.spark}"
            )
    image = sql.struct(*(rows[_quoted(column.name)].alias(column.name) for column in columns))
    places = {"topic": sql.lit(topic), "partition": sql.lit(0), "offset": sql.lit(0).cast("bigint"), "seq": sql.lit(0)}
    fields = {
        "op": sql.lit("insert"),
        "schema": sql.lit(table.schema),
        "table": sql.lit(table.name),
        "table_id": sql.lit(table.table_id).cast("bigint"),
        "schema_key": sql.lit(""),
        "commit_ts": sql.lit(commit_ts).cast("bigint"),
        "partial": sql.lit(False),
        "before": sql.lit(None).cast(rows.select(image).schema[0].dataType),
        "after": image,
    }
    return rows.select(*(column.alias(name) for name, column in (places | fields).items()))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
