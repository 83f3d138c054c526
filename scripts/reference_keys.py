"""The keys of a job file, one row each: its type, its default, and the first sentence of its docstring."""

import ast
import functools
import inspect
import re
import textwrap
import typing
from typing import Any

import msgspec

from ticdc_spark.config import job, route_values, toml, values
from ticdc_spark.config.ddl import DdlKeys
from ticdc_spark.config.load_storage import _OTHERS

SECTIONS: dict[str, type[toml.Section]] = {
    "job": job.JobKeys,
    "ddl": DdlKeys,
    "files": job.FilesSource,
    "kafka": job.KafkaSource,
    "storage": job.StorageSource,
    "csv": job.CsvKeys,
    "snapshot": job.SnapshotKeys,
    "schema": job.SchemaFiles,
    "route": job.Route,
    "history": job.Recording,
    "iceberg": job.IcebergConfig,
    "delta": job.DeltaConfig,
    "mysql": job.MysqlConfig,
    "postgres": job.PostgresConfig,
    "upkeep": job.UpkeepKeys,
    "metrics": job.MetricsKeys,
    "notice": job.Notice,
}
_TYPES: dict[Any, str] = {
    bool: "boolean",
    int: "integer",
    toml.Duration: "duration",
    toml.Size: "size",
    values.Positive: "integer from 1",
    values.NotNegative: "integer from 0",
    values.Name: "letters, digits, `_`, `.`, `-`",
    values.Identifier: "letters, digits, `_`",
    values.Text: "text",
    values.Label: "text",
    values.Characters: "text",
    values.Quote: "one character",
    values.CommitTs: "`true`",
    values.Folder: "path",
    values.Paths: "path, or a list",
    values.Zone: "IANA time zone",
    values.Skips: 'list of `"<commitTs>:<start of the SQL>"`',
    values.Places: 'list of `"<topic>/<partition>/<offset>"`',
    values.Patterns: "list of filter rules",
    values.Topics: "list",
    values.Servers: '`"host:port"`, or a list',
    values.Listen: '`"host:port"`',
    values.Token: "text of 16 characters or more",
    values.Secret: "text",
    values.Collector: "URL",
    values.Webhook: "URL",
    values.Command: "list",
    values.TopicPattern: "regular expression",
    values.RegistryUrl: "URL",
    values.UpstreamUrl: '`"mysql://user:password@host:port"`',
    values.PostgresUrl: '`"postgresql://user:password@host:port/database"`',
    values.ProtocolName: "name",
    route_values.Target: "name",
    route_values.NameRegex: "regular expression",
    route_values.HistoryTarget: "name",
    route_values.ColumnRules: "list of patterns",
    route_values.Masks: "table",
    route_values.Renames: "table",
    route_values.RowCondition: "SQL condition",
    route_values.Partitions: "list",
    route_values.Sorts: "list",
    route_values.Origin: "list",
    route_values.Properties: "table",
    route_values.Salt: "text of 16 characters or more",
    job.CsvKeys: "section",
}
_FREE = {"options": "kafka.…", "schema-registry-options": "schema-registry.…", "catalog-options": "catalog.…"}
"""Fields that have every key with a prefix."""
_WITHOUT = {job.StorageSource: {*_OTHERS, "options", "schema-registry-options"}}
"""Fields that a section inherits, but its kind refuses."""
_CHOICES = {(job.StorageSource, "protocol"): ('`"canal-json"`, `"csv"`', "required")}
"""Type and default of keys that have their own reading code."""


def keys(section: type[toml.Section]) -> list[str]:
    """The rows of a section."""
    hints, told = typing.get_type_hints(section, include_extras=True), _docs(section)
    config = section.__struct_config__
    rows = [f'`kind` | `"{config.tag}"` | required | {_kind(section)}'] if config.tag else []
    for field in sorted(msgspec.structs.fields(section), key=lambda field: not field.required):
        key = field.encode_name
        if key in _WITHOUT.get(section, ()):
            continue
        text, instead = _first(told[field.name]), re.search(r"``None``: (.+?)\.(?=\s|$)", told[field.name])
        default = _default(field, hints[field.name], _code(instead[1]) if instead else "none")
        kind = _type(hints[field.name], free=key in _FREE)
        kind, default = _CHOICES.get((section, key), (kind, default))
        rows.append(f"`{_FREE.get(key, key)}` | {kind} | {default} | {text}".replace("\\|", "|"))
    return rows


@functools.cache
def _docs(section: type[toml.Section]) -> dict[str, str]:
    """The docstrings below the fields of a struct and its bases. Raises: KeyError if one is missing."""
    found: dict[str, str] = {}
    for kind in reversed(section.__mro__):
        if not issubclass(kind, toml.Section) or kind is toml.Section:
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(tree, ast.ClassDef)
        for field, doc in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(doc, ast.Expr):
                assert isinstance(doc.value, ast.Constant)
                found[field.target.id] = str(doc.value.value)
    return found


def _first(text: str) -> str:
    """The part of a docstring for users: its first paragraph, without the meaning of ``None``."""
    told = " ".join(text.partition("\n\n")[0].split())
    return _code(re.sub(r" ?``None``: .+", "", told))


def _kind(section: type[toml.Section]) -> str:
    """A kind of source or sink, in a few words."""
    return re.split(r"[:.,]", _first(section.__doc__ or ""))[0] + "."


def _code(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def _type(hint: Any, *, free: bool = False) -> str:
    if hint in _TYPES:
        return _TYPES[hint]
    if typing.get_origin(hint) is typing.Literal:
        return ", ".join(f'`"{word}"`' for word in typing.get_args(hint))
    if typing.get_origin(hint) is dict:
        return "text, number or boolean" if free else "table"
    if typing.get_origin(hint) is typing.Annotated:
        return _type(hint.__origin__)
    (kind,) = (arm for arm in typing.get_args(hint) if arm is not type(None))
    return _type(kind)


def _default(field: Any, hint: Any, none: str) -> str:
    if field.required:
        return "required"
    if typing.get_origin(hint) is dict:
        return "" if field.encode_name in _FREE and none == "none" else none
    value = field.default
    if value is None:
        return none
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "none" if _type(hint) == "table" else "`[]`"
    if hint == toml.Duration:
        return f'`"{_duration(value)}"`'
    if hint == toml.Size:
        return f'`"{value // 2**20}MiB"`'
    if isinstance(value, int):
        return f"`{value:_}`" if value >= 10_000 else f"`{value}`"
    return "`" + msgspec.json.encode(value).decode() + "`"


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds > size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
