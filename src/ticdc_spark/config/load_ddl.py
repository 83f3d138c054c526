"""Reading the section ``[ddl]`` of a job file, with its rules."""

import logging
from collections.abc import Mapping
from typing import Any

from ticdc_spark.config.ddl import DdlKeys, DdlPolicy, DdlRule
from ticdc_spark.config.placement import hint
from ticdc_spark.config.toml import Mistakes, read_section

log = logging.getLogger(__name__)
_MOVED = ("drop-table", "truncate-table", "partition-ddl")
"""Keys that were in ``[job]`` before. This version still reads them there."""


def without_moved(job: Mapping[str, Any]) -> dict[str, Any]:
    """``[job]`` without the keys that moved to ``[ddl]``."""
    return {key: value for key, value in job.items() if key not in _MOVED}


def read_ddl(raw: Mapping[str, Any], job: Mapping[str, Any], mistakes: Mistakes) -> DdlPolicy | None:
    """Read ``[ddl]``. ``job``: the section ``[job]``, which may still have keys of it. Returns: ``None`` if there are
    mistakes."""
    before = mistakes.count
    moved = {key: job[key] for key in _MOVED if key in job}
    for key in moved:
        if key in raw:
            mistakes.add(f"[job] {key}", "given under [ddl], too; remove this line")
        else:
            log.warning("[job] %s is now a key of [ddl]; the next version does not read it under [job]", key)
    plain = {key: value for key, value in raw.items() if key != "rules"}
    keys = read_section({**moved, **plain}, DdlKeys, "ddl", mistakes, hint, more_known=("rules",))
    rules = raw.get("rules", [])
    if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
        mistakes.add("[ddl] rules", f"found {rules!r}; allowed: sections [[ddl.rules]], each with `tables`")
        rules = []
    read = [read_section(rule, DdlRule, "ddl.rules", mistakes, hint) for rule in rules]
    if mistakes.count > before:
        return None
    return DdlPolicy(**keys, rules=tuple(DdlRule(**rule) for rule in read))
