"""Rows of one version of a table: raw images to canonical values, one list per column.

This needs no Arrow. ``rows`` applies it to the batches of a change log; other logs call it directly.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from ticdc_spark.config.computed import Computed, Expressions, computed
from ticdc_spark.config.row_filters import WHERE, row_filter
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Table, Value
from ticdc_spark.mysql import HIDDEN_NAMES, NO_CONSTANT, default_value, fsp, utc_timestamp, with_hidden_columns
from ticdc_spark.protocols import PROTOCOLS, decoder
from ticdc_spark.protocols.base import Columns, ReadOptions, RowReader
from ticdc_spark.protocols.checksums import verifier
from ticdc_spark.spark.decode.odd_columns import OddColumns
from ticdc_spark.spark.types import HIDDEN_PREFIX, Cells, LakeColumn, LakeOptions
from ticdc_spark.streams.handle_keys import Lookup, complete_columns

INCOMPLETE = "the row is not complete (large-message-handle = handle-key-only): `upstream` names the database to ask"
_OLD_LACKS = (
    "{} needs whole old values, and the old image (delete-only-output-handle-key-columns, column-selectors) has no "
    "column `{}`"
)
_NO_OLD_VALUES = (
    "{} needs the old values of every update and delete, and the message has none: the changefeed must send them "
    "(output-old-value)"
)
_READERS_KEPT = 128
"""Compiled readers that a process caches: the next batch reads the same tables."""


ExpectedColumns: TypeAlias = Literal["nothing", "stored", "all"]
"""``stored``: columns that are known to be stored. ``all``: also columns of which no message said whether they are
generated. ``nothing``: the table is already marked."""


OldImages: TypeAlias = Literal["key", "whole", "history"]
"""What is read of old images:

- key: the columns of the key.
- whole: all columns. The table has no key, so all values identify a row.
- history: all columns. The old image of an update whose key stays becomes a separate row.
"""
_WHOLE_FOR: dict[OldImages, str] = {"key": "", "whole": "a table without a key", "history": "before-images"}


class ReadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a task must know to read rows; sent to each task."""

    protocol: str
    tables: dict[str, Table]
    """The version of the table by the schema key of the images that it reads."""
    valid: tuple[tuple[int, str], ...] = ()
    """For rows that name no schema: (commit_ts, schema key), ascending. Rows above the commit_ts are read with that
    key."""
    columns: tuple[LakeColumn, ...]
    """The lake's columns to fill, with keys marked."""
    hidden: frozenset[str] = frozenset()
    """TiDB's hidden columns that rows have, including those that the lake does not have."""
    options: ReadOptions
    lake: LakeOptions
    strict: bool = False
    """A change that cannot be read fails the task, with ``UNREADABLE`` in the error, instead of a reason in ``BAD``."""
    schemas: dict[int, str] | None = None
    """Registered schemas by id, for Avro: a task does not call a registry."""
    expects: ExpectedColumns = "stored"
    """The columns that every row must have; a row without one of them stops the task (``OddColumns``)."""
    partitioned: Table | None = None
    """The partitioned table, if places of rows are recorded; ``None``: they are not."""
    places: tuple[tuple[int, str], ...] = ()
    """Known places: physical ids, each with the partition of its rows."""
    deleted_by: str = ""
    """The source's name of a column whose value marks a row as deleted; ``""``: there is none."""
    computed: Expressions = ()
    """The virtual generated columns that get values."""
    where: str = ""
    """The condition of rows to keep (``config.row_filters``); ``""``: keep all."""
    upstream: str | None = None
    """URI of the database to query for rows that were sent as their key only."""
    old_images: OldImages = "key"
    origin: tuple[str, ...] = ()
    """Columns for each row's table, or database and table: ``tables`` belong to several tables."""

    @property
    def is_keyless(self) -> bool:
        """Whether the table has no key."""
        return self.old_images == "whole"

    @property
    def has_befores(self) -> bool:
        """Whether the old image of an update becomes a separate row."""
        return self.old_images == "history"


class Version:
    """A compiled reader of one version of the table."""

    def __init__(self, plan: ReadPlan, key: str, lookup: Lookup | None) -> None:
        self.table = with_hidden_columns(plan.tables[key], plan.hidden)
        self.protocol, self.lookup = plan.protocol, lookup
        self.verify = verifier(self.table) if plan.options.verify_checksum else None
        self._plan = plan
        self.is_keyless, self.has_befores = plan.is_keyless, plan.has_befores
        self.whole_old_for = _WHOLE_FOR[plan.old_images]
        """Why old images are needed completely; ``""``: their keys suffice."""
        self.keys = [column.source for column in plan.columns if column.key or self.is_keyless]
        by_name = {column.name: column for column in self.table.columns}
        self.exact_keys = not self.is_keyless and any(
            by_name[name].type.name == "timestamp" for name in self.keys if name in by_name
        )
        """Whether keys may hold local times. A time that happens twice would merge two rows into one, so it is
        refused."""
        self.places = {column.name: at for at, column in enumerate(self.table.columns)}
        self.sent = {
            column.source for column in plan.columns if _is_sent(plan, column) and column.source not in HIDDEN_NAMES
        }
        """The columns of every complete row, without TiDB's own and virtual generated columns."""
        self.generated = {column.source for column in plan.columns if column.column.virtual}
        self.computed: list[Computed] = []
        self.not_computed: list[str] = []
        """Why columns of the target that have values cannot be computed of rows of this version."""
        for name, expression in plan.computed:
            try:
                self.computed.append(computed(name, expression, self.table))
            except UsageError as error:
                self.not_computed.append(f"generated column `{name}` AS ({expression}) is not computed: {error}")
        self.filter = row_filter(plan.where, self.table) if plan.where else None
        """Which rows to keep; ``None``: all."""
        absent = [column for column in plan.columns if column.source not in self.places]
        self.fill = {column.source: fill_of(column, plan.options) for column in absent}
        if plan.origin:
            self.fill |= zip(plan.origin, self.table.full_name[-len(plan.origin) :], strict=True)

    @cached_property
    def read(self) -> RowReader:
        """Reads complete images."""
        return self._compile(self._plan.options, None)

    @cached_property
    def read_keys(self) -> RowReader:
        """Reads the keys of images; in a table without a key, all its columns and the columns of the row filter."""
        options = self._plan.options
        exact = msgspec.structs.replace(options, ambiguous_timestamp="reject") if self.exact_keys else options
        return self._compile(exact, frozenset((*self.keys, *(self._judged if self.is_keyless else ()))))

    @property
    def _judged(self) -> tuple[str, ...]:
        """The columns that decide which rows are kept."""
        return () if self.filter is None else self.filter.columns

    @cached_property
    def read_befores(self) -> RowReader:
        """Reads complete old images."""
        return self._compile(
            self._plan.options, frozenset((*(one.source for one in self._plan.columns), *self._judged))
        )

    def _compile(self, options: ReadOptions, only: frozenset[str] | None) -> RowReader:
        plan = self._plan
        if plan.schemas is not None:
            return decoder(plan.protocol, plan.schemas).row_reader(self.table, options, only)
        return _reader(plan.protocol, self.table, options, only)


def _compute(version: Version, columns: Columns, first: int, bad: dict[int, str]) -> None:
    """Give virtual generated columns their values. ``first``: the position of the first image in ``bad``."""
    count = len(columns.values[0])
    for one in version.computed:
        read = [columns.values[version.places[name]] for name in one.reads]
        columns.values[version.places[one.name]] = one.cells(read, count)
    for reason in version.not_computed:
        for at in range(first, first + count):
            bad.setdefault(at, reason)


def _is_sent(plan: ReadPlan, column: LakeColumn) -> bool:
    virtual = column.column.virtual
    return virtual is False or (virtual is None and plan.expects == "all")


@lru_cache(_READERS_KEPT)
def _reader(protocol: str, table: Table, options: ReadOptions, only: frozenset[str] | None) -> RowReader:
    return decoder(protocol).row_reader(table, options, only)


def fill_of(column: LakeColumn, options: ReadOptions) -> Value:
    """The value for rows of a version without the column: its default, which the source gives older rows."""
    value = default_value(column.column, literal=options.literal_defaults)
    if value is NO_CONSTANT:
        return None
    kind, zone = column.column.type, options.default_timezone
    if zone is None or kind.name != "timestamp" or not isinstance(value, str):
        return value
    # what `reject` refuses was already refused when the DDL was applied
    return utc_timestamp(value, zone, fsp(kind), "later" if options.ambiguous_timestamp == "later" else "earlier")


def cells_of(
    version: Version, column: LakeColumn, size: int, new: Columns | None, old: Columns | None, moved: Sequence[int]
) -> Cells:
    """The values of a lake column: from the new image; without one, and for the appended rows ``moved``, from the old
    image. Old images only have their keys, unless they are read completely."""
    place = version.places.get(column.source)
    if place is None:
        return [version.fill[column.source]] * (size + len(moved))
    mine: Cells = new.values[place] if new else []
    if not (column.key or version.whole_old_for) or old is None:
        return [*mine, *([None] * (size + len(moved) - len(mine)))] if len(mine) < size or moved else mine
    theirs = old.values[place]
    lacking = size - len(mine)
    first_old = size - len(theirs)
    return [*mine, *theirs[len(theirs) - lacking :], *(theirs[at - first_old] for at in moved)]


def read_new(
    version: Version, images: Sequence[bytes | None], bad: dict[int, str], partial_rows: Mapping[int, int]
) -> tuple[Columns | None, OddColumns]:
    """Read new images; ``None`` if there are none. A column that an image lacks must be nullable.

    ``bad``: gets the rows that cannot be read, with the reason. ``partial_rows``: rows for which only the key was sent,
    with their commit_ts; the upstream is queried for them.
    """
    if images.count(None) == len(images):
        return None, OddColumns()
    columns = version.read(images)
    hidden = {at: names for at in columns.bad if (names := _hidden(version, images[at]))}
    if version.exact_keys:
        for at, reason in version.read_keys(images).bad.items():
            bad.setdefault(at, f"{reason}; ambiguous-timestamp does not decide for keys")
    if partial_rows and version.lookup is None:
        bad.update(dict.fromkeys(partial_rows, INCOMPLETE))
    elif partial_rows and version.lookup is not None:
        bad.update(complete_columns(version.table, columns, dict(partial_rows), version.lookup))
    for at, reason in columns.bad.items():
        bad.setdefault(at, OddColumns(hidden=hidden[at]).text if at in hidden else reason)
    lacks = set()
    for name, lacking in columns.absent.items():
        column = version.table.columns[version.places[name]]
        if name in version.sent and any(images[at] is not None and at not in bad for at in lacking):
            lacks.add(name)
        generated = column.virtual or name in version.generated
        may_lack = column.nullable or generated or name.startswith(HIDDEN_PREFIX)
        if not may_lack or (name in version.keys and not generated):
            for at in lacking:
                if images[at] is not None:
                    bad.setdefault(at, f"the row has no column `{name}`")
    _compute(version, columns, 0, bad)
    return columns, OddColumns(tuple(sorted(lacks)), tuple(sorted(set().union(*hidden.values()))))


def _hidden(version: Version, image: bytes | None) -> tuple[str, ...]:
    """TiDB's hidden columns in an unreadable image that the table lacks."""
    names = HIDDEN_NAMES - version.places.keys()
    return tuple(sorted(name for name in names if image and name.encode() in bytes(image)))


def read_old(version: Version, images: Sequence[bytes | None], bad: dict[int, str], first: int) -> Columns | None:
    """Read the keys of old images, or complete old images; ``None`` if there are none. ``first``: the position of the
    first image in ``bad``."""
    if images.count(None) == len(images):
        return None
    columns = version.read_befores(images) if version.has_befores else version.read_keys(images)
    exact = version.read_keys(images).bad if version.has_befores and version.exact_keys else {}
    for at, reason in (*columns.bad.items(), *exact.items()):
        bad.setdefault(at + first, reason)
    for name, lacking in columns.absent.items() if version.whole_old_for else ():
        if name not in version.sent:
            continue
        for at in lacking:
            if images[at] is not None:
                bad.setdefault(at + first, _OLD_LACKS.format(version.whole_old_for, name))
    if version.whole_old_for:
        _compute(version, columns, first, bad)
    return columns


def lack_old(version: Version, ops: Iterable[object], bad: dict[int, str]) -> None:
    """If complete old images are needed, note rows that only have a new image and are not inserts. ``ops``: of these
    rows."""
    if not version.whole_old_for:
        return
    traits = PROTOCOLS[version.protocol].traits
    for at, op in enumerate(map(str, ops)):
        # Open sends inserts only like this; Avro never has old values.
        if op != "insert" and not (op == "upsert" and traits.upserts and not traits.registry):
            bad.setdefault(at, _NO_OLD_VALUES.format(version.whole_old_for))


def deleted_rows(version: Version, plan: ReadPlan, new: Columns | None, bad: dict[int, str]) -> set[int]:
    """Rows whose new image marks the row as deleted, whatever the target holds in that column. Without a key they are
    bad: the rest of the image does not match an existing row."""
    place = version.places.get(plan.deleted_by)
    if place is None or new is None:
        return set()
    gone = {at for at, value in enumerate(new.values[place]) if value is not None}
    if version.is_keyless:
        bad.update(dict.fromkeys(gone, "the row is soft-deleted, and its table has no key"))
        return set()
    return gone


class Unkept(NamedTuple):
    """Rows that are read but not kept in the target."""

    new: set[int]
    """Positions by the new image."""
    old: set[int]
    """Positions by the old image, if old images are read completely."""

    @classmethod
    def of(
        cls, version: Version, images: tuple[Columns | None, Columns | None], first_old: int, bad: dict[int, str]
    ) -> "Unkept":
        """``images``: new and old ones. Images of rows that are not kept lose all columns but the key, if there is one.

        ``bad``: gets the rows for which the filter cannot be evaluated.
        """
        new, old = images
        return cls(_unkept(version, new, bad), _unkept(version, old if version.whole_old_for else None, bad, first_old))

    def letter(self, at: int, op: str) -> str:
        """The letter of a new image in a table with a key. If the row before it was not kept either, the target has no
        row, as before an insert."""
        if at not in self.new or op == "d":
            return op
        return "I" if at in self.old else op.upper()


def _unkept(version: Version, images: Columns | None, bad: dict[int, str], first: int = 0) -> set[int]:
    if version.filter is None or images is None:
        return set()
    names = version.filter.columns
    for name in names:
        for at in images.absent.get(name, ()):
            bad.setdefault(at + first, f"{WHERE}: the row has no column `{name}`")
    cells = [images.values[version.places[name]] for name in names]
    unread: dict[int, str] = {}
    found = version.filter.unkept(cells, [at for at in range(len(cells[0])) if at + first not in bad], unread)
    for at, reason in unread.items():
        bad.setdefault(at + first, reason)
    if found and not version.is_keyless:
        _forget(version, images, found)
    return {at + first for at in found}


def _forget(version: Version, images: Columns, rows: Iterable[int]) -> None:
    images.values[:] = [[*cells] for cells in images.values]  # a reader may return one list for several columns
    keys = {version.places[name] for name in version.keys if name in version.places}
    for place, cells in enumerate(images.values):
        if place not in keys:
            for at in rows:
                cells[at] = None


def moved_rows(version: Version, new: Columns, old: Columns, first_old: int) -> Sequence[int]:
    """Rows whose key differs between the images: updates of these are raw key changes. Without a key, all rows with
    both images."""
    if version.is_keyless:
        return range(first_old, len(new.values[0]))
    moved: set[int] = set()
    for place in (version.places[name] for name in version.keys if name in version.places):
        mine, theirs = new.values[place][first_old:], old.values[place]
        if mine != theirs[: len(mine)]:
            pairs = enumerate(zip(mine, theirs, strict=False), first_old)
            moved.update(at for at, (a, b) in pairs if a != b and b is not None)
    return sorted(moved)
