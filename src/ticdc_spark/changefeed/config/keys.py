"""The table of all keys. Reading, checks and documentation use it."""

from ticdc_spark.changefeed.config.key import URI, Key
from ticdc_spark.changefeed.config.keys_feed import FEED_KEYS
from ticdc_spark.changefeed.config.keys_filter import FILTER_KEYS, OUR_KEYS
from ticdc_spark.changefeed.config.keys_kafka import KAFKA_KEYS
from ticdc_spark.changefeed.config.keys_sink import SINK_KEYS

KEYS: tuple[Key, ...] = (*SINK_KEYS, *KAFKA_KEYS, *FILTER_KEYS, *FEED_KEYS, *OUR_KEYS)
BY_ID: dict[str, Key] = {key.id: key for key in KEYS}
BY_URI: dict[str, Key] = {(key.uri or key.name): key for key in KEYS if key.uri or key.section == URI}
BY_OPTION: dict[str, tuple[Key, ...]] = {}
for _key in KEYS:
    if _key.option is not None:
        BY_OPTION[_key.option] = (*BY_OPTION.get(_key.option, ()), _key)


def _sections() -> frozenset[str]:
    found = set()
    for key in KEYS:
        parts = key.section.split(".") if key.section != URI else []
        found |= {".".join(parts[: end + 1]) for end in range(len(parts))}
    return frozenset(found - {""})


SECTIONS = _sections()
"""Dotted names of TOML tables, also outer ones; arrays of tables end with ``[]``."""


def key(name: str) -> Key:
    """A key by its id."""
    return BY_ID[name]
