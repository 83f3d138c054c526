"""The content of a job file or a changefeed file with every secret hidden, and the versions of what runs it."""

import os
import platform
import re
import socket
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ticdc_spark.config.secrets import SECRET, is_secret_key, redact
from ticdc_spark.config.toml import read_toml
from ticdc_spark.errors import UsageError
from ticdc_spark.operate.page.view import Fact, Facts, Section

_SECRET_NAMES = re.compile(r"(?i)salt$|user[-._]?info$|webhook$|authorization$")
"""Names of secrets, which ``redact`` does not recognise."""
_COMMAND = ".command"
"""All arguments of a program are hidden: they may contain a token or the address of a webhook."""
_PARAMETER = re.compile(r"(?<=[?&])([^=&?#]+)=([^&#]*)")
_LOGIN = re.compile(r"(?<![^,\s])([^/@\s:,]+):[^/@\s,]+(?=@)")
"""A login before a host, without the ``://`` by which ``redact`` recognises it. A list of brokers needs none."""
_PACKAGES = ("ticdc-spark", "pyspark", "pyiceberg", "pyarrow", "confluent-kafka")


def settings(path: Path | None) -> Section:
    """The section with the keys of a file. References to secrets are shown as written, without their values."""
    rows: list[Fact] = []
    if path is not None:
        try:
            found = read_toml(path)
        except UsageError as error:
            rows = [Fact("file", redact(str(error)), "warn")]
        else:
            rows = [Fact("file", str(path)), *(Fact(name, _value(name, value)) for name, value in _flat("", found))]
    return Section(name="settings", title="Configuration", parts=(Facts(tuple(rows), "lines"),), is_folded=True)


def versions(*, is_running: bool) -> Section:
    """The versions, and this process. ``is_running``: this process also runs the job."""
    names = {name: found for name in _PACKAGES if (found := _version(name))}
    names["Python"] = platform.python_version()
    who = "the run" if is_running else "this page alone"
    process = Fact("process", f"{os.getpid()} on {socket.gethostname()}", more=who)
    facts = tuple(Fact(name, text) for name, text in names.items())
    return Section(name="versions", title="Versions", parts=(Facts((*facts, process)),), is_folded=True)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else key, inner)
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        for number, inner in enumerate(value, 1):
            yield from _flat(f"{prefix} {number}", inner)
    else:
        yield prefix, value


def _value(name: str, value: Any) -> str:
    if isinstance(value, list) and name.endswith(_COMMAND):
        return " ".join([_value(name, value[0]) if value else "", *(SECRET for _ in value[1:])])
    if isinstance(value, list):
        return ", ".join(_value(name, one) for one in value)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    if value and _is_secret(name):
        return SECRET
    # Parameters of a URI have their own names.
    shown = _PARAMETER.sub(lambda found: f"{found[1]}={SECRET if _is_secret(found[1]) else found[2]}", value)
    return redact(shown if "://" in value else _LOGIN.sub(rf"\1:{SECRET}", value))


def _is_secret(name: str) -> bool:
    return is_secret_key(name) or _SECRET_NAMES.search(name) is not None
