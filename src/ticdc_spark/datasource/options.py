"""The options of the source: the keys of a job file as Spark options, and Spark's own names for offsets."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from ticdc_spark.config.job import NATIVE, BinaryMode, DecimalMode, TimeMode, UnsignedMode
from ticdc_spark.config.secrets import ReferenceFault, is_secret_key, remember, resolve
from ticdc_spark.config.toml import NotAllowed, Reads, Section, nearest, read_value
from ticdc_spark.config.values import (
    Folder,
    Patterns,
    Positive,
    ProtocolName,
    RegistryUrl,
    Servers,
    Text,
    TopicPattern,
    Topics,
    UpstreamUrl,
    Zone,
)
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Offsets, TableName
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.spark.types import LakeOptions

Included: TypeAlias = Literal["ddl", "watermark", "bootstrap"]
_INCLUDED = frozenset(typing.get_args(Included))
_LATEST, _EARLIEST = -1, -2
"""Spark's numbers for the end and the beginning of a partition."""


class Place(msgspec.Struct, frozen=True):
    """Where reading begins or ends in each partition."""

    others: Literal["earliest", "latest"]
    """For partitions that are not named."""
    named: dict[str, dict[int, int]] = {}
    """By topic and partition: an offset, -1 (latest) or -2 (earliest)."""

    def of(self, beginning: Offsets, ends: Offsets, option: str) -> Offsets:
        """The offset in each partition. Raises: UsageError for a partition that does not exist"""
        found = dict(beginning if self.others == "earliest" else ends)
        for topic, partitions in self.named.items():
            for partition, offset in partitions.items():
                at = (topic, partition)
                if at not in ends:
                    raise UsageError(
                        f"option {option}: topic {topic!r} has no partition {partition}; "
                        f"allowed: {', '.join(f'{name}/{number}' for name, number in sorted(ends))}"
                    )
                found[at] = {_LATEST: ends[at], _EARLIEST: beginning[at]}.get(offset, offset)
        return found


def _place(value: object) -> Place:
    if value in ("earliest", "latest"):
        return Place(value)
    try:
        named = msgspec.json.decode(str(value), type=dict[str, dict[int, int]])
    except msgspec.MsgspecError:
        raise ValueError from None
    if any(offset < _EARLIEST for partitions in named.values() for offset in partitions.values()):
        raise ValueError
    return Place("earliest", named)


def _end_place(value: object) -> Place:
    found = _place(value)
    return found if found.others == "latest" else Place("latest", found.named)


def _table(value: object) -> TableName:
    text = str(value).strip()
    if text.startswith("`") and text.endswith("`") and "`.`" in text:
        schema, _, name = text[1:-1].partition("`.`")
    else:
        schema, _, name = text.partition(".")
    if not schema or not name:
        raise ValueError
    return schema, name


def _included(value: object) -> frozenset[str]:
    found = frozenset(_words(str(value)))
    if not found <= _INCLUDED:
        raise ValueError
    return found


_PLACES = '"earliest", "latest" or offsets as JSON such as {"shop": {"0": 120, "1": -2}}'
_Start: TypeAlias = Annotated[Place, Reads(_place, _PLACES)]
_End: TypeAlias = Annotated[Place, Reads(_end_place, _PLACES)]
_Table: TypeAlias = Annotated[
    tuple[str, str], Reads(_table, "one table as schema.table, such as shop.orders or `a.b`.`orders`")
]
_Included: TypeAlias = Annotated[
    frozenset[str], Reads(_included, f"words of {', '.join(sorted(_INCLUDED))}, with commas between them")
]


class Topic(Section, frozen=True, kw_only=True):
    """What reading and writing have in common: the topics and their clients."""

    path: Folder | None = None
    """A recorded topic, as an absolute path."""
    bootstrap_servers: Servers | None = None
    kafka: dict[str, str] = msgspec.field(default_factory=dict)
    """All ``kafka.…`` options, with the prefix."""
    protocol: ProtocolName | None = None
    schema_registry: RegistryUrl | None = None
    schema_registry_options: dict[str, str] = msgspec.field(default_factory=dict)
    """All ``schema-registry.…`` options, without the prefix."""


class ReadOptionsOfSource(Topic, frozen=True, kw_only=True):
    """The options of reading."""

    topics: Topics | None = None
    topic_pattern: TopicPattern | None = None
    table: _Table | None = None
    """Selects the typed form of one table; ``None``: the generic form."""
    tables: Patterns = ()
    ddl: Text | None = None
    """CREATE TABLE statements of tables whose schemas are in no message."""
    include: _Included = frozenset()
    with_schemas: bool = False
    """Whether the generic form has the schema of each row, as the writer needs it."""
    on_reject: Literal["stop", "row"] = "stop"
    starting_offsets: _Start | None = None
    ending_offsets: _End | None = None
    schemas_from: Literal["beginning", "starting-offsets"] = "beginning"
    max_offsets_per_trigger: Positive | None = None
    max_records_per_partition: Positive = 200_000
    filter_pushdown: bool = False
    source_timezone: Zone | None = None
    ddl_timezone: Zone | None = None
    ambiguous_timestamp: Literal["earlier", "later", "reject"] = "earlier"
    verify_checksum: bool = False
    tinyint1: Literal["int", "boolean"] = "int"
    zero_dates: Literal["null", "error"] = "null"
    claim_check_storage: Text | None = None
    upstream: UpstreamUrl | None = None
    decimal_handling_mode: DecimalMode | None = None
    """The configuration of Debezium's own connector, like the next three."""
    binary_handling_mode: BinaryMode | None = None
    bigint_unsigned_handling_mode: UnsignedMode | None = None
    time_precision_mode: TimeMode | None = None

    @property
    def reading(self) -> ReadOptions:
        """How values are read."""
        return ReadOptions(
            source_timezone=self.source_timezone,
            ambiguous_timestamp=self.ambiguous_timestamp,
            verify_checksum=self.verify_checksum,
        )

    @property
    def lake(self) -> LakeOptions:
        """How types are chosen in the typed form."""
        return LakeOptions(tinyint1_as_boolean=self.tinyint1 == "boolean", zero_dates=self.zero_dates)

    @property
    def native(self) -> dict[str, str]:
        """The configuration of Debezium's own connector."""
        return {name.replace("_", "-"): value for name in NATIVE if (value := getattr(self, name)) is not None}


_LISTS = ("topics", "tables")
_T = typing.TypeVar("_T", bound=Topic)


def read_options(options: Mapping[str, str]) -> ReadOptionsOfSource:
    """Check the options of reading. Raises: UsageError naming the option, what was found and what is allowed"""
    found = _read(options, ReadOptionsOfSource)
    if found.path is not None:
        for name in ("topics", "topic_pattern"):
            if getattr(found, name) is not None:
                raise UsageError(
                    f"option {name.replace('_', '-')} is for Kafka: a recorded topic (path) is read whole; filter its "
                    "column `topic`"
                )
    elif (found.topics is None) == (found.topic_pattern is None):
        raise UsageError("option topics: with bootstrap-servers set exactly one of `topics` and `topic-pattern`")
    if found.table is not None:
        for name in ("tables", "include", "with_schemas"):
            if getattr(found, name):
                raise UsageError(
                    f"option {name.replace('_', '-')} is for the generic form, which the source returns without `table`"
                )
    if found.protocol is not None and PROTOCOLS[found.protocol].traits.registry and found.schema_registry is None:
        raise UsageError(
            f"option schema-registry: missing; the messages of {found.protocol} refer to schemas of a registry"
        )
    return found


def read_topic(options: Mapping[str, str], kind: type[_T]) -> _T:
    """Check options for another ``kind``. Raises: as ``read_options``"""
    return _read(options, kind)


def _read(options: Mapping[str, str], kind: type[_T]) -> _T:
    free: dict[str, dict[str, str]] = {"kafka": {}, "schema_registry_options": {}}
    plain: dict[str, str] = {}
    for key, value in options.items():
        text = _resolved(key, str(value))
        if key.startswith("kafka."):
            free["kafka"][key] = text
        elif key.startswith("schema-registry."):
            free["schema_registry_options"][key.removeprefix("schema-registry.")] = text
        else:
            plain[key] = text
    fields = {_folded(field.encode_name): field for field in msgspec.structs.fields(kind) if field.name not in free}
    hints = typing.get_type_hints(kind, include_extras=True)
    read: dict[str, Any] = {}
    for key, text in plain.items():
        found = fields.get(_folded(key))
        if found is None:
            names = sorted(field.encode_name for field in fields.values())
            near = nearest(key, names) or f"; allowed: {', '.join(names)}, kafka.…, schema-registry.…"
            raise UsageError(f"option {key}: unknown{near}")
        try:
            read[found.name] = read_value(_typed(text, found.name, hints[found.name]), hints[found.name])
        except NotAllowed as error:
            raise UsageError(f"option {found.encode_name}: {error}") from None
    if "bootstrap.servers" in {key.removeprefix("kafka.") for key in free["kafka"]}:
        read.setdefault("bootstrap_servers", free["kafka"].pop("kafka.bootstrap.servers"))
    if (read.get("path") is None) == (read.get("bootstrap_servers") is None):
        raise UsageError(
            "option path: set either `path` (a recorded topic: a folder or a file) or `bootstrap-servers` (Kafka)"
        )
    if read.get("path") is not None:
        read["path"] = Path(read["path"]).absolute()
    read |= free
    return kind(**read)


def _typed(text: str, name: str, hint: Any) -> object:
    """An option's text as the value that a job file would have."""
    if name in _LISTS:
        return _words(text)
    kinds = {hint, *typing.get_args(hint)}
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    is_number = hint == Positive or Positive in kinds
    return int(text) if is_number and text.isdigit() else text


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _resolved(key: str, text: str) -> str:
    try:
        found = resolve(text, Path.cwd())
    except ReferenceFault as fault:
        raise UsageError(f"option {key}: {fault}") from fault
    if is_secret_key(key):
        remember(found)
    return found


def _folded(key: str) -> str:
    return key.replace("-", "").replace("_", "").lower()


def by_topic(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Offsets in the form of Spark's Kafka source."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_topics(named: Iterable[tuple[str, Mapping[str, int]]]) -> Offsets:
    """The inverse of ``by_topic``."""
    return {(topic, int(partition)): at for topic, partitions in named for partition, at in partitions.items()}
