"""Where a key of a job file belongs, for a key in the wrong section."""

import typing
from collections.abc import Iterable

import msgspec

from ticdc_spark.config.ddl import DdlKeys
from ticdc_spark.config.job import (
    DeltaConfig,
    FilesSource,
    IcebergConfig,
    JobKeys,
    KafkaSource,
    MetricsKeys,
    MysqlConfig,
    Notice,
    PostgresConfig,
    Recording,
    Route,
    SchemaFiles,
    SnapshotKeys,
    StorageSource,
    UpkeepKeys,
)
from ticdc_spark.config.toml import Section, nearest

_FREE = {
    "kafka": '[source] with kind = "kafka"',
    "schema-registry": "[source]",
    "catalog": "[sink]",
    "table-properties": "[sink]",
    "spark": "[spark]",
}
"""Prefixes of free options, and where they are read."""


def hint(key: str, section: str, own: Iterable[str]) -> str:
    """What to do about an unknown key: ``; did you mean …?``, ``; it belongs under [job]``, or nothing.

    ``own`` are the keys that ``section`` has. A key that another section has under exactly this name is not treated as
    a typing error.
    """
    own = tuple(own)
    plain = key.lower().replace("_", "-")
    if plain in own:
        return nearest(key, own)
    places = [place for place in _places(plain) if place != f"[{section}]"]
    if places:
        written = f" as `{plain}`" if plain != key else ""
        return f"; it belongs under {' or '.join(places)}{written}"
    return nearest(key, own)


def _places(key: str) -> list[str]:
    head, dot, _ = key.partition(".")
    if head in _FREE and (dot or head not in _KEYS):
        return [_FREE[head]]
    return _KEYS.get(key, [])


def _keys() -> dict[str, list[str]]:
    places: dict[str, list[str]] = {"kind": ["[source]", "[sink]"]}
    sections: dict[str, type[Section]] = {
        "[job]": JobKeys,
        "[sink]": IcebergConfig,
        "[schema]": SchemaFiles,
        "[snapshot]": SnapshotKeys,
        "[ddl]": DdlKeys,
        "[upkeep]": UpkeepKeys,
        "[metrics]": MetricsKeys,
        "[[route]]": Route,
        "[[history]]": Recording,
        "[[notice]]": Notice,
    }
    for place, kind in sections.items():
        for key in _own(kind):
            places.setdefault(key, []).append(place)
    others: dict[str, type[Section]] = {"delta": DeltaConfig, "mysql": MysqlConfig, "postgres": PostgresConfig}
    for name, config in others.items():
        for key in _own(config):
            if "[sink]" not in places.get(key, ()):
                places.setdefault(key, []).append(f'[sink] with kind = "{name}"')
    kinds = {"files": _own(FilesSource), "kafka": _own(KafkaSource), "storage": _own(StorageSource)}
    for key in {key: None for own in kinds.values() for key in own}:
        having = [kind for kind, own in kinds.items() if key in own]
        named = " or ".join(f'"{kind}"' for kind in having)
        only = "" if len(having) == len(kinds) else f" with kind = {named}"
        places.setdefault(key, []).append(f"[source]{only}")
    return places


def _own(kind: type[Section]) -> dict[str, None]:
    hints = typing.get_type_hints(kind)
    fields = msgspec.structs.fields(kind)
    return {field.encode_name: None for field in fields if typing.get_origin(hints[field.name]) is not dict}


_KEYS = _keys()
