"""Reading ``[source]`` with ``kind = "storage"``: the files of TiCDC's storage sink."""

from collections.abc import Mapping
from typing import Any

from ticdc_spark.config import toml as job_file
from ticdc_spark.config.job import CsvKeys, StorageSource
from ticdc_spark.config.paths import existing, location
from ticdc_spark.config.placement import hint
from ticdc_spark.config.toml import Mistakes
from ticdc_spark.protocols import PROTOCOLS, canonical

STORED = tuple(name for name, found in PROTOCOLS.items() if found.traits.in_storage)
"""Protocols of the storage sink."""
CSV = "csv"
_OTHERS = (
    "schema-registry",
    "claim-check-storage",
    "decimal-handling-mode",
    "binary-handling-mode",
    "bigint-unsigned-handling-mode",
    "time-precision-mode",
)
"""Keys of other sources."""


def read_storage(raw: Mapping[str, Any], spark: Mapping[str, Any], mistakes: Mistakes) -> StorageSource | None:
    """Read the section. ``spark``: the section ``[spark]``."""
    before = mistakes.count
    plain = {key: value for key, value in raw.items() if key not in ("kind", "csv", "protocol")}
    for key in _OTHERS:
        if plain.pop(key, None) is not None:
            mistakes.add(f"[source] {key}", 'has no use with kind = "storage"')
    protocol, csv = raw.get("protocol"), raw.get("csv")
    allowed = ", ".join(f'"{name}"' for name in (*STORED, CSV))
    if protocol is None:
        mistakes.add("[source] protocol", f"missing; allowed: {allowed}, as in the sink-uri of the changefeed")
    elif protocol != CSV and canonical(str(protocol)) not in STORED:
        mistakes.add("[source] protocol", f"found {protocol!r}; allowed: {allowed}")
    keys = job_file.read_section(plain, StorageSource, "source", mistakes, hint, more_known=("kind", "csv", "protocol"))
    keys.pop("csv", None)
    if protocol == CSV:
        found = {} if csv is None else csv
        if not isinstance(found, Mapping):
            mistakes.add("[source] csv", f"found {csv!r}; allowed: a section [source.csv]")
            found = {}
        keys["csv"] = CsvKeys(**job_file.read_section(found, CsvKeys, "source.csv", mistakes, hint))
    elif csv is not None:
        mistakes.add("[source.csv]", 'is for protocol = "csv"')
    if "path" in keys:
        path = str(keys["path"])
        keys["path"] = location(mistakes.path, path, bare_path=True)
        if ":" not in path:
            existing(mistakes.path, path, "[source] path", mistakes)
    options = {key: value for key, value in job_file.flatten(spark).items() if key.startswith("spark.hadoop.fs.")}
    keys["options"] = job_file.read_options(options, "spark", mistakes)
    return None if mistakes.count > before else StorageSource(**{**keys, "protocol": STORED[0]})
