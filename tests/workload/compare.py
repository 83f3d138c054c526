"""Compares tables of the lake with the truth: what the truth looks like in the lake, and where the two differ."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tests.workload.tables import Truth
from ticdc_spark.model import Row, Table, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.names import unescape
from ticdc_spark.spark.types import LakeColumn, LakeOptions, arrow_type, lake_columns, to_arrow

_SHOWN = 5
"""Differences of one table that are listed one by one."""
_Key: TypeAlias = tuple[Any, ...]


def compare(job_file: Path, truth: Truth) -> dict[TableName, list[str]]:
    """Read every table of a lake with Spark: by table, where it differs from the truth."""
    from ticdc_spark.sinks.iceberg.lake import list_tables, open_lake, read_table

    session = open_lake(job_file)
    found = {(unescape(schema), unescape(name)) for schema, name in list_tables(session)}
    result: dict[TableName, list[str]] = {name: ["is in the lake, and should not be"] for name in found - truth.keys()}
    for name, (table, rows) in truth.items():
        here = name in found
        result[name] = differences(read_table(session, name), table, rows.values()) if here else ["is not in the lake"]
    return result


def expected(table: Table, rows: Iterable[Row], options: LakeOptions | None = None) -> pa.Table:
    """The lake's form of rows in normal form, under the lake's column names.

    Columns that no row has (virtual generated ones) are left out; without rows, every column is there.

    Raises: ValueError when a value of the truth does not suit its type.
    """
    options = options or LakeOptions()
    held = list(rows)
    columns = _visible(table, held, options)
    arrays = []
    for column in columns:
        array, bad, _ = to_arrow(column, options)([row[column.source] for row in held])
        if bad:
            raise ValueError(f"`{table.schema}`.`{table.name}`: {next(iter(bad.values()))}")
        arrays.append(array)
    return pa.table(arrays, schema=pa.schema([(column.name, arrow_type(column.type)) for column in columns]))


def differences(found: pa.Table, table: Table, rows: Iterable[Row], options: LakeOptions | None = None) -> list[str]:
    """Say where a table of the lake, read as Arrow, differs from the truth: a line each, the first few; none if equal.

    Column names and types are compared, then rows by the handle key (whole rows where there is none), in any order.
    """
    options = options or LakeOptions()
    wanted = expected(table, rows, options)
    lines = _schema_differences(found.schema, wanted.schema)
    if lines:
        return lines
    found = found.select(wanted.column_names)
    keys = [column.name for column in lake_columns(table, handle_key(table), options) if column.key]
    if keys and _sorted(found, keys).equals(_sorted(wanted, keys)):
        return []
    return _row_differences(found, wanted, keys or wanted.column_names)


def _visible(table: Table, rows: Sequence[Row], options: LakeOptions) -> list[LakeColumn]:
    columns = lake_columns(table, handle_key(table), options)
    return [column for column in columns if not rows or column.source in rows[0]]


def _schema_differences(found: pa.Schema, wanted: pa.Schema) -> list[str]:
    lines = []
    for field in wanted:
        at = found.get_field_index(field.name)
        if at < 0:
            lines.append(f"column {field.name} is missing")
        elif found.field(at).type != field.type:
            lines.append(f"column {field.name} is {found.field(at).type}, and should be {field.type}")
    return lines


def _sorted(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    # schemas differ in what does not matter here: nullability, metadata
    plain = pa.table(table.columns, names=table.column_names)
    return plain.sort_by([(key, "ascending") for key in keys]).combine_chunks()


def _row_differences(found: pa.Table, wanted: pa.Table, keys: Sequence[str]) -> list[str]:
    theirs, ours = _by_key(found, keys), _by_key(wanted, keys)
    lines: list[str] = []
    if found.num_rows != wanted.num_rows:
        lines.append(f"{found.num_rows} rows, and should be {wanted.num_rows}")
    count = 0
    for key in dict.fromkeys([*ours, *theirs]):
        mine, other = ours.get(key, []), theirs.get(key, [])
        if mine == other or _same(mine, other):
            continue
        count += 1
        if count <= _SHOWN:
            lines.append(_describe(keys, key, mine, other))
    if count > _SHOWN:
        lines.append(f"… and {count - _SHOWN} more rows differ")
    return lines


def _by_key(table: pa.Table, keys: Sequence[str]) -> dict[_Key, list[dict[str, Any]]]:
    rows: dict[_Key, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(tuple(_hashable(row[key]) for key in keys), []).append(row)
    return rows


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _same(mine: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> bool:
    return sorted(map(repr, mine)) == sorted(map(repr, other))


def _describe(keys: Sequence[str], key: _Key, mine: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> str:
    where = ", ".join(f"{name} = {value!r}" for name, value in zip(keys, key, strict=True))
    if not other:
        return f"row {where} is missing"
    if not mine:
        return f"row {where} should not be there"
    if len(mine) != len(other):
        return f"row {where} is there {len(other)} times, and should be {len(mine)} times"
    cells = [
        f"{name} is {other[0][name]!r:.80}, and should be {value!r:.80}"
        for name, value in mine[0].items()
        if other[0][name] != value
    ]
    return f"row {where}: {'; '.join(cells)}"
