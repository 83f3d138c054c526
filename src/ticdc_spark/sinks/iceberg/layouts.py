"""The layout of a new table in Iceberg's terms: a partition spec and a sort order."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError

from ticdc_spark.config.layout import Layout
from ticdc_spark.errors import UsageError


def spec_of(iceberg: Any, schema: Any, layout: Layout) -> Any:
    """The partition spec of a table. ``iceberg``: the package, in the JVM. Raises: UsageError"""
    fields = (f"{field.transform} of `{field.column}`" for field in layout.partition_by)
    with _refused("partition-by", ", ".join(fields)):
        builder = iceberg.PartitionSpec.builderFor(schema)
        for field in layout.partition_by:
            add = getattr(builder, field.transform)
            builder = add(field.column, field.width) if field.width else add(field.column)
        return builder.build()


def order_of(iceberg: Any, schema: Any, layout: Layout) -> Any:
    """The sort order of a table. Raises: UsageError"""
    with _refused("sort-by", ", ".join(f"`{field.column}`" for field in layout.sort_by)):
        builder = iceberg.SortOrder.builderFor(schema)
        for field in layout.sort_by:
            nulls = iceberg.NullOrder.NULLS_LAST if field.nulls_last else iceberg.NullOrder.NULLS_FIRST
            builder = (builder.desc if field.descending else builder.asc)(field.column, nulls)
        return builder.build()


@contextmanager
def _refused(key: str, what: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        why = str(error.java_exception.getMessage())
        raise UsageError(f"[[route]] {key}: Iceberg refuses {what}: {why}") from error
