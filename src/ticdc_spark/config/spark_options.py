"""Options of Spark whose mistakes Spark reports late or never: the master, and the memory of a process."""

import re
from collections.abc import Mapping

from ticdc_spark.config.toml import Mistakes

_MASTER = re.compile(
    r"local(\[(\d+|\*)(,\s*\d+)?\])?"
    r"|local-cluster\[\d+,\s*\d+,\s*\d+\]"
    r"|spark://[^/\s,]+:\d+(,[^/\s,]+:\d+)*"
    r"|yarn"
    r"|k8s://\S+"
)
_MEMORY = ("spark.driver.memory", "spark.executor.memory")
_LEAST = 450
"""MiB. A process of Spark with less does not start, and a cluster restarts it for ever."""
_MIB = {"b": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20, "p": 2**30}


def check_spark(options: Mapping[str, str], mistakes: Mistakes) -> None:
    """Note a mistake for an unknown master, and for too little memory to start a process."""
    master = options.get("spark.master", "local[*]")
    if not _MASTER.fullmatch(master):
        allowed = "local[4], local[*], spark://host:7077, k8s://https://host:6443, yarn"
        mistakes.add("[spark] spark.master", f"found {master!r}; allowed: {allowed}")
    for key in _MEMORY:
        if key in options:
            _check_memory(key, options[key], mistakes)


def _check_memory(key: str, text: str, mistakes: Mistakes) -> None:
    allowed = f'at least "{_LEAST}m", such as "2g"'
    match = re.fullmatch(r"(\d+)(?:([kmgtp])b?|b)?", text.strip().lower())
    if match is None:
        mistakes.add(f"[spark] {key}", f"found {text!r}; allowed: {allowed}")
        return
    unit = match[2] or ("b" if text.strip().lower().endswith("b") else "m")
    size = int(match[1]) * _MIB[unit]
    if size < _LEAST:
        mistakes.add(f"[spark] {key}", f"found {text!r}, which Spark reads as {size:g} MiB; allowed: {allowed}")
