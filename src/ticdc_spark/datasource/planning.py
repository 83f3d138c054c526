"""What the driver plans: the protocol, the schemas in messages, and the parts for the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain, islice

import msgspec

from ticdc_spark.changes.opening import Messages, Opened, Opener, Opening, of_batch
from ticdc_spark.clients.registry_file import open_registry
from ticdc_spark.config.load_storage import STORED
from ticdc_spark.datasource.access import Access, access, check_range, settled
from ticdc_spark.datasource.bounds import Bounds
from ticdc_spark.datasource.options import Place, ReadOptionsOfSource
from ticdc_spark.datasource.schemas import Known, Learning, from_ddl
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Bootstrap, Offsets, SchemaChange, Table, TableName
from ticdc_spark.protocols import decoder, protocol
from ticdc_spark.protocols.base import Decoder, Schemas
from ticdc_spark.protocols.wire_protocol import TableOfRow
from ticdc_spark.streams.detect import detect
from ticdc_spark.wire.confluent import head, schema_id

_LOOKED_AT = 1000


class Range(msgspec.Struct, frozen=True):
    """Offsets [first, end) of one partition."""

    topic: str
    partition: int
    first: int
    end: int
    memory: str = ""
    """What a task needs to find the messages; see ``access``."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a task must know to read messages of the source."""

    options: ReadOptionsOfSource
    protocol: str
    known: Known
    texts: dict[int, str] | None = None
    """Registered schemas by id; ``None``: the protocol has none."""
    shown: Table | None = None
    """In the typed form: the newest table that rows themselves show."""
    bounds: Bounds = Bounds()
    """The bounds of Spark's filters."""

    @property
    def opening(self) -> Opening:
        """How messages are decoded."""
        return opening_of(self.options, self.protocol, self.texts)

    @property
    def decoder(self) -> Decoder:
        """Decodes messages."""
        return decoder(self.protocol, self.texts, self.opening.native)


def opening_of(options: ReadOptionsOfSource, name: str, texts: Schemas | None) -> Opening:
    """How the messages of a protocol are decoded. In the typed form a schema block gets a key."""
    traits = protocol(name).traits
    return Opening(
        protocol=name,
        native=options.native if traits.connector_properties else {},
        schemas=texts,  # type: ignore[arg-type]  # on the driver, an object that fetches them
        block_keys=traits.schema_blocks and options.table is not None,
        claim_check_storage=options.claim_check_storage,
        verify_checksum=options.verify_checksum,
    )


class Fetched(Schemas):
    """Registered schemas, fetched on demand and kept."""

    def __init__(self, registry: Schemas) -> None:
        self._registry = registry
        self.texts: dict[int, str] = {}
        self._met: set[bytes | None] = set()

    def __getitem__(self, number: int, /) -> str:
        """See ``Schemas``."""
        if number not in self.texts:
            self.texts[number] = self._registry[number]
        return self.texts[number]

    def fetch(self, parts: Iterable[bytes | None]) -> None:
        """Fetch the schemas that keys and values name, except ids that the registry lacks. Raises: RegistryFault"""
        for found in {head(part) for part in parts} - self._met:
            self._met.add(found)
            if found is not None:
                with suppress(KeyError, MessageError):
                    self[schema_id(found)]


def limits_of(options: ReadOptionsOfSource, topics: Access) -> tuple[Offsets, Offsets, tuple[Offsets, Offsets]]:
    """The start and end of a batch by the options, and the limits of the topics. Raises: UsageError, SourceFault"""
    limits = topics.limits()
    start = (options.starting_offsets or Place("earliest")).of(*limits, "startingOffsets")
    end = (options.ending_offsets or Place("latest")).of(*limits, "endingOffsets")
    return start, end, limits


def _name_of(options: ReadOptionsOfSource, topics: Access, limits: tuple[Offsets, Offsets]) -> str:
    """The protocol, as given or as detected from the first messages. Raises: UsageError"""
    if options.protocol is not None:
        return STORED[0] if options.is_stored else options.protocol
    beginning, ends = limits
    first = {place: min(ends[place], at + _LOOKED_AT) for place, at in beginning.items()}
    found = (
        pair
        for batch in topics.batches(beginning, first)
        for pair in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
    )
    return detect(list(islice(found, _LOOKED_AT)), "option protocol")


def scan(reading: Reading, topics: Access, start: Offsets, end: Offsets) -> Reading:
    """Learn the schemas in messages [start, end), in addition to ``reading``. Raises: SourceFault, RegistryFault"""
    options, name = reading.options, reading.protocol
    learning = Learning(reading.known, versioned=protocol(name).traits.versioned_tables)
    with _fetching(options, name) as fetched:
        # do not fetch large rows only to look at them
        opener = Opener(msgspec.structs.replace(opening_of(options, name, fetched), claim_check_storage=None))
        shown = _Shown(options.table, protocol(name).row_tables(fetched))
        for messages in _messages(topics, start, end):
            if fetched is not None:
                fetched.fetch(chain(messages.keys, messages.values))
            opened = opener.open(messages)
            for at, _, event in opened.others:
                if isinstance(event, SchemaChange | Bootstrap):
                    learning.add(event, _described(name, event, messages.values[at]))
            shown.look(messages, opened)
    return msgspec.structs.replace(
        reading, known=learning.finish(), texts=None if fetched is None else fetched.texts, shown=shown.table
    )


def look_ahead(reading: Reading, topics: Access, end: Offsets) -> tuple[Reading, Offsets]:
    """Also learn from the messages behind ``end``, for the rows before it. Returns: also the offsets reached

    A DDL may be in one partition only, and rows of other partitions that came after it may be read before it. The
    limits are read again: if a row was in a topic, its DDL is there by now. Raises: SourceFault, RegistryFault
    """
    beginning, ends = topics.limits()
    begin = {place: end.get(place, at) for place, at in beginning.items()} | end
    upto = {place: max(at, ends.get(place, at)) for place, at in begin.items()}
    if upto == end:
        return reading, end
    found = scan(reading, topics, begin, upto)
    texts = None if found.texts is None else {**(reading.texts or {}), **found.texts}
    return msgspec.structs.replace(found, texts=texts, shown=found.shown or reading.shown), upto


def plan_batch(options: ReadOptionsOfSource) -> tuple[Reading, list[Range]]:
    """What a batch reads. Raises: UsageError, SourceFault, RegistryFault"""
    options = settled(options)
    with closing(access(options)) as topics:
        topics.take_all()
        reading, start, end = _between(options, topics)
        if len(end) > 1:
            reading, _ = look_ahead(reading, topics, end)
        return reading, cut(topics, start, end, options.max_records_per_partition)


def plan_columns(options: ReadOptionsOfSource) -> Reading:
    """What is known of the tables of a batch or stream that begins now. Raises: as ``plan_batch``"""
    options = settled(options)
    with closing(access(options)) as topics:
        topics.take_schemas()
        return _between(options, topics)[0]


def _between(options: ReadOptionsOfSource, topics: Access) -> tuple[Reading, Offsets, Offsets]:
    start, end, limits = limits_of(options, topics)
    check_range(start, end, limits)
    reading = unread(options, topics, limits)
    return scan(reading, topics, first_of(options, start, limits), end), start, end


def unread(options: ReadOptionsOfSource, topics: Access, limits: tuple[Offsets, Offsets]) -> Reading:
    """What is known before reading, and the protocol, if needed from the first messages. Raises: UsageError"""
    known = from_ddl(options.ddl, options.table)
    return Reading(options=options, protocol=_name_of(options, topics, limits), known=known)


def first_of(options: ReadOptionsOfSource, start: Offsets, limits: tuple[Offsets, Offsets]) -> Offsets:
    """Where the search for schemas begins."""
    return limits[0] if options.schemas_from == "beginning" else start


def cut(topics: Access, start: Offsets, end: Offsets, size: int) -> list[Range]:
    """Divide offsets [start, end) into ranges of about equal size, none larger than ``size``."""
    found = []
    for place, last in sorted(end.items()):
        first = start.get(place, 0)
        count = -(-(last - first) // size)
        for number in range(count):
            low, high = (first + (last - first) * at // count for at in (number, number + 1))
            found.append(Range(*place, low, high, topics.excerpt(low, high)))
    return found


def _messages(topics: Access, start: Offsets, end: Offsets) -> Iterator[Messages]:
    if any(start.get(place, 0) < last for place, last in end.items()):
        yield from map(of_batch, topics.batches(start, end))


def _described(name: str, event: SchemaChange | Bootstrap, value: bytes | None) -> tuple[Table, ...]:
    try:
        return protocol(name).tables_of_ddl(value or b"") if isinstance(event, SchemaChange) else ()
    except MessageError:
        return ()  # its SQL has them


class _Shown:
    """Finds the newest table that the rows of the typed form show."""

    def __init__(self, wanted: TableName | None, of_row: TableOfRow | None) -> None:
        self._wanted, self._of_row = wanted, of_row
        self._met: set[str] = set()
        self._newest = -1
        self.table: Table | None = None

    def look(self, messages: Messages, opened: Opened) -> None:
        """Look at rows with a new schema."""
        if self._wanted is None or self._of_row is None:
            return
        for row, at in zip(opened.rows, opened.origin, strict=True):
            if row.schema_key in self._met or (row.schema, row.table) != self._wanted or row.op == "delete":
                continue
            self._met |= {row.schema_key} - {""}
            order = int(row.schema_key) if row.schema_key.isdigit() else row.commit_ts
            if order > self._newest:
                try:
                    self.table, self._newest = self._of_row(messages.keys[at], messages.values[at], row), order
                except MessageError:
                    continue  # the task that reads the row reports it


@contextmanager
def _fetching(options: ReadOptionsOfSource, name: str) -> Iterator[Fetched | None]:
    if not protocol(name).traits.registry:
        yield None
        return
    if options.schema_registry is None:
        raise UsageError(f"option schema-registry: missing; the messages of {name} refer to schemas of a registry")
    with open_registry(options.schema_registry, options.schema_registry_options) as registry:
        yield Fetched(registry)
