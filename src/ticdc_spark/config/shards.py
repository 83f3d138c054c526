"""Tables of the source that are one table in the target: ``origin`` of ``[[route]]``. Pure.

The job knows these tables, the *shards*, as one *merged* table. The schema of its name begins with ``merged:``, which
no name of the source does. A row's schema key names its shard.
"""

from __future__ import annotations

from collections.abc import Sequence

from ticdc_spark.errors import UsageError
from ticdc_spark.model import Column, ColumnType, Index, Table, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.names import folded

_MERGED = "merged:"
_BEFORE = "\t"
"""Prefix of a shard's schema key. Database and table follow, in lower case. No other key has the prefix."""
_NAME = ColumnType(name="varchar", length=64, charset="utf8mb4", collate="utf8mb4_bin")


def merged_name(target: TableName) -> TableName:
    """The job's name for a merged table. ``target``: its name in the target."""
    return f"{_MERGED}{target[0]}", target[1]


def is_merged(name: TableName) -> bool:
    """Whether a name of the job's is a merged table's."""
    return name[0].startswith(_MERGED)


def target_of(name: TableName) -> TableName:
    """The name of a merged table in the target."""
    return name[0].removeprefix(_MERGED), name[1]


def stop_if_no_shard(name: TableName) -> None:
    """Raises: UsageError for a name that could be confused with a merged table's"""
    if is_merged(name) or any(_BEFORE in part for part in name):
        raise UsageError(
            f"[[route]] origin: a table `{name[0]}`.`{name[1]}` cannot be merged with others, since its name begins "
            f"with {_MERGED!r} or has a tab in it. Exclude it with `tables` under [[route]]"
        )


def key_of_shard(key: str, shard: TableName) -> str:
    """The schema key of a shard's rows in the merged table."""
    return _BEFORE.join((key, *folded(shard)))


def shard_of(key: str) -> TableName | None:
    """The shard of a schema key, in lower case; ``None``: the key belongs to no merged table."""
    _, *shard = key.split(_BEFORE)
    return (shard[0], shard[1]) if shard else None


def plain_key(key: str) -> str:
    """A schema key as messages have it."""
    return key.partition(_BEFORE)[0]


def with_plain_key(key: str, plain: str) -> str:
    """The schema key of the same shard, with another plain key."""
    shard = shard_of(key)
    return plain if shard is None else key_of_shard(plain, shard)


def merged_table(name: TableName, origin: Sequence[str], shard: Table) -> Table:
    """A merged table with the columns of its first shard. Raises: UsageError"""
    where, keys = f"[[route]] origin: `{shard.schema}`.`{shard.name}`", handle_key(shard)
    if not keys:
        raise UsageError(
            f"{where} has no primary key and no unique key that is not null, so its rows cannot be told from rows of "
            "the other tables. Exclude it with `tables` under [job]"
        )
    names = {one.casefold() for one in origin}
    for column in shard.columns:
        if column.name.casefold() in names:
            raise UsageError(f"{where} has a column `{column.name}` already: give the new column another name")
    columns = (Column(name=one, type=_NAME, nullable=False, virtual=False, stored=False) for one in origin)
    key = Index(name="PRIMARY", unique=True, primary=True, nullable=False, columns=(*origin, *keys))
    return Table(schema=name[0], name=name[1], columns=(*columns, *shard.columns), indexes=(key,))
