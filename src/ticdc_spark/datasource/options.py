"""The options of the source: the keys of a job file as Spark options, and Spark's own names for offsets."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from ticdc_spark.config.job import NATIVE, BinaryMode, CsvKeys, DecimalMode, StorageSource, TimeMode, UnsignedMode
from ticdc_spark.config.load_storage import CSV, STORED
from ticdc_spark.config.secrets import ReferenceFault, is_secret_key, remember, resolve
from ticdc_spark.config.toml import Duration, NotAllowed, Reads, Section, nearest, read_value
from ticdc_spark.config.values import (
    Characters,
    Patterns,
    Positive,
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
from ticdc_spark.protocols import PROTOCOLS, canonical
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.spark.storage import SCHEMES
from ticdc_spark.spark.types import LakeOptions
from ticdc_spark.topics.storage.layout import METADATA

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


def _location(value: object) -> str:
    text = str(value).strip()
    if not text:
        raise ValueError
    return text if "://" in text else str(Path(text).absolute())


def _protocol(value: object) -> str:
    if value == CSV:
        return CSV
    allowed = ", ".join(f'"{name}"' for name in sorted((*PROTOCOLS, CSV)))
    if isinstance(value, str) and canonical(value) in PROTOCOLS:
        return canonical(value)
    raise NotAllowed(allowed + (nearest(str(value), (*PROTOCOLS, CSV)) or ""))


_PLACES = '"earliest", "latest" or offsets as JSON such as {"shop": {"0": 120, "1": -2}}'
_Start: TypeAlias = Annotated[Place, Reads(_place, _PLACES)]
_End: TypeAlias = Annotated[Place, Reads(_end_place, _PLACES)]
_Table: TypeAlias = Annotated[
    tuple[str, str], Reads(_table, "one table as schema.table, such as shop.orders or `a.b`.`orders`")
]
_Location: TypeAlias = Annotated[
    str, Reads(_location, "a path, or the URI of a storage sink such as s3a://bucket/feed")
]
_Protocol: TypeAlias = Annotated[str, Reads(_protocol, "the name of a protocol")]
_Included: TypeAlias = Annotated[
    frozenset[str], Reads(_included, f"words of {', '.join(sorted(_INCLUDED))}, with commas between them")
]


class Topic(Section, frozen=True, kw_only=True):
    """What reading and writing have in common: the topics and their clients."""

    bootstrap_servers: Servers | None = None
    kafka: dict[str, str] = msgspec.field(default_factory=dict)
    """All ``kafka.…`` options, with the prefix."""
    schema_registry: RegistryUrl | None = None
    schema_registry_options: dict[str, str] = msgspec.field(default_factory=dict)
    """All ``schema-registry.…`` options, without the prefix."""


class ReadOptionsOfSource(Topic, frozen=True, kw_only=True):
    """The options of reading."""

    path: _Location | None = None
    """A recorded topic or the folder of a storage sink, as an absolute path; or the URI of a storage sink."""
    protocol: _Protocol | None = None
    csv: dict[str, str] = msgspec.field(default_factory=dict)
    """All ``csv.…`` options, without the prefix: ``[sink.csv]`` of a storage sink's changefeed."""
    terminator: Characters = "\r\n"
    list_interval: Duration = 5.0
    store: dict[str, str] = msgspec.field(default_factory=dict)
    """All ``fs.…`` options, with the prefix: the connection to the store of a storage sink."""
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
    def is_stored(self) -> bool:
        """Whether the path is a storage sink, and not a recorded topic."""
        path = self.path or ""
        return "://" in path or self.protocol == CSV or (bool(path) and (Path(path) / METADATA).is_file())

    @property
    def storage(self) -> StorageSource:
        """The storage sink. Raises: UsageError for its options"""
        assert self.path is not None
        return StorageSource(
            path=self.path,
            protocol=STORED[0],
            list_interval=self.list_interval,
            terminator=self.terminator,
            csv=CsvKeys(**_fields(self.csv, CsvKeys, "csv.")) if self.protocol == CSV else None,
            options={f"spark.hadoop.{key}": value for key, value in self.store.items()},
        )

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
_FREE = {"kafka": "kafka.", "schema_registry_options": "schema-registry.", "csv": "csv.", "store": "fs."}
"""Fields with options of any name, and the beginning of these names."""
_WITH_PREFIX = ("kafka", "store")
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
        if found.is_stored:
            _check_stored(found)
    elif (found.topics is None) == (found.topic_pattern is None):
        raise UsageError("option topics: with bootstrap-servers set exactly one of `topics` and `topic-pattern`")
    if found.table is not None:
        for name in ("tables", "include", "with_schemas"):
            if getattr(found, name):
                raise UsageError(
                    f"option {name.replace('_', '-')} is for the generic form, which the source returns without `table`"
                )
    if found.protocol == CSV and found.path is None:
        raise UsageError("option protocol: csv is for the files of a storage sink (path)")
    if found.protocol in PROTOCOLS and PROTOCOLS[found.protocol].traits.registry and found.schema_registry is None:
        raise UsageError(
            f"option schema-registry: missing; the messages of {found.protocol} refer to schemas of a registry"
        )
    return found


def _check_stored(found: ReadOptionsOfSource) -> None:
    """Raises: UsageError for an option that a storage sink does not have, or a wrong one of it"""
    scheme, is_uri, rest = (found.path or "").partition("://")
    if scheme in {"s3", "s3a", "gs"} and "@" in rest.partition("/")[0]:
        raise UsageError("option path: found a login before the bucket; give keys by `fs.…` or the environment")
    if is_uri and scheme not in (*SCHEMES, "file"):
        raise UsageError(f"option path: found {found.path!r}; allowed: a folder, or a URI of {', '.join(SCHEMES)}")
    if found.protocol not in (None, CSV, *STORED):
        allowed = ", ".join((*STORED, CSV))
        raise UsageError(f"option protocol: found {found.protocol!r}; {found.path} is a storage sink: {allowed}")
    for name in ("schema_registry", "claim_check_storage", *NATIVE):
        if getattr(found, name) is not None:
            raise UsageError(f"option {name.replace('_', '-')}: has no use with a storage sink ({found.path})")
    for name in ("starting_offsets", "ending_offsets"):
        if (place := getattr(found, name)) is not None and place.named:
            raise UsageError(
                f"option {name.replace('_', '-')}: found offsets; allowed: earliest, latest. Each query numbers the "
                "files of a storage sink anew; filter `_commit_version`"
            )
    if found.csv and found.protocol != CSV:
        raise UsageError("option csv.…: is for protocol = csv")
    _ = found.storage


def read_topic(options: Mapping[str, str], kind: type[_T]) -> _T:
    """Check options for another ``kind``. Raises: as ``read_options``"""
    return _read(options, kind)


def _read(options: Mapping[str, str], kind: type[_T]) -> _T:
    mine = {field.name for field in msgspec.structs.fields(kind)}
    free: dict[str, dict[str, str]] = {name: {} for name in _FREE if name in mine}
    plain: dict[str, str] = {}
    for key, value in options.items():
        text = _resolved(key, str(value))
        name = next((one for one in free if key.startswith(_FREE[one])), None)
        if name is None:
            plain[key] = text
        else:
            free[name][key if name in _WITH_PREFIX else key.removeprefix(_FREE[name])] = text
    read = _fields(plain, kind)
    if "bootstrap.servers" in {key.removeprefix("kafka.") for key in free["kafka"]}:
        read.setdefault("bootstrap_servers", free["kafka"].pop("kafka.bootstrap.servers"))
    if (read.get("path") is None) == (read.get("bootstrap_servers") is None):
        raise UsageError(
            "option path: set either `path` (a recorded topic: a folder or a file; a storage sink: a folder or a URI) "
            "or `bootstrap-servers` (Kafka)"
        )
    if isinstance(read.get("path"), Path):
        read["path"] = read["path"].absolute()
    read |= free
    return kind(**read)


def _fields(options: Mapping[str, str], kind: type[msgspec.Struct], prefix: str = "") -> dict[str, Any]:
    """The values of options by the fields of ``kind``. ``prefix``: what their names begin with, for errors.

    Raises: UsageError
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {
        _folded(field.encode_name): field
        for field in msgspec.structs.fields(kind)
        if typing.get_origin(hints[field.name]) is not dict
    }
    free = [f"{start}…" for name, start in _FREE.items() if name in hints]
    read: dict[str, Any] = {}
    for key, text in options.items():
        found = fields.get(_folded(key))
        if found is None:
            names = sorted(field.encode_name for field in fields.values())
            near = nearest(key, names) or f"; allowed: {', '.join([*names, *free])}"
            raise UsageError(f"option {prefix}{key}: unknown{near}")
        try:
            read[found.name] = read_value(_typed(text, found.name, hints[found.name]), hints[found.name])
        except NotAllowed as error:
            raise UsageError(f"option {prefix}{found.encode_name}: {error}") from None
    return read


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
