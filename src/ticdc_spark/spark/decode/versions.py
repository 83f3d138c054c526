"""Rows of one version of a table: raw images to canonical values, a list for each column.

What is done here needs no Arrow: ``rows`` puts it between batches of a change log, and other logs call it as it is.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from ticdc_spark.config.row_filters import WHERE, row_filter
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
"""Compiled readers that a process keeps: a worker reads the same tables again in the next batch."""


ExpectedColumns: TypeAlias = Literal["nothing", "stored", "all"]
"""``stored``: the columns that are known to be stored. ``all``: also those of which no message said whether they are
generated. ``nothing``: the table is marked already."""


class ReadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a reading task must know; sent to every task."""

    protocol: str
    tables: dict[str, Table]
    """Schema key to the version of the table that reads the images with that key."""
    valid: tuple[tuple[int, str], ...] = ()
    """For rows that name no schema: (commit_ts, schema key), ascending; above the commit_ts they are read by that key.
    """
    columns: tuple[LakeColumn, ...]
    """The lake's columns to fill, keys marked."""
    hidden: frozenset[str] = frozenset()
    """TiDB's hidden columns that rows have, also those that the lake does not have."""
    options: ReadOptions
    lake: LakeOptions
    strict: bool = False
    """A change that cannot be read fails the task (with ``UNREADABLE`` in the text) instead of standing in ``BAD``."""
    schemas: dict[int, str] | None = None
    """Registered schemas by id, for Avro: a task asks no registry."""
    expects: ExpectedColumns = "stored"
    """The columns that every row must have; a row without one stops the task (``OddColumns``)."""
    partitioned: Table | None = None
    """The table with the partitions in which its rows lie, where it is noted which of them; ``None``: it is not."""
    places: tuple[tuple[int, str], ...] = ()
    """What is known of them: physical ids, each with the partition of its rows."""
    deleted_by: str = ""
    """The source's name of a column whose value says that the row is deleted; ``""``: there is none."""
    where: str = ""
    """The condition of the rows that are kept (``config.row_filters``); ``""``: all are."""
    upstream: str | None = None
    """URI of the database that is asked for rows of which only the key was sent."""
    is_whole: bool = False
    """The table has no key: a row is known by all of its values, so old images are read whole."""
    befores: bool = False
    """Old images are read whole, and of an update whose key stays, that is a row of its own."""
    origin: tuple[str, ...] = ()
    """Columns with the table, or the database and the table, of each row: ``tables`` are of several tables."""


class Version:
    """A compiled reader of one version of the table."""

    def __init__(self, plan: ReadPlan, key: str, lookup: Lookup | None) -> None:
        self.table = with_hidden_columns(plan.tables[key], plan.hidden)
        self.protocol, self.lookup = plan.protocol, lookup
        self.verify = verifier(self.table) if plan.options.verify_checksum else None
        self._plan = plan
        self.is_whole, self.befores = plan.is_whole, plan.befores
        self.whole_old_for = "a table without a key" if plan.is_whole else "before-images" if plan.befores else ""
        """What needs old images whole; ``""``: their keys are enough."""
        self.keys = [column.source for column in plan.columns if column.key or self.is_whole]
        by_name = {column.name: column for column in self.table.columns}
        self.exact_keys = not self.is_whole and any(
            by_name[name].type.name == "timestamp" for name in self.keys if name in by_name
        )
        """Whether keys may hold local times: one that happens twice would fold two rows into one, so it is refused."""
        self.places = {column.name: at for at, column in enumerate(self.table.columns)}
        self.sent = {
            column.source for column in plan.columns if _is_sent(plan, column) and column.source not in HIDDEN_NAMES
        }
        """The columns that every whole row has: not those that are generated when they are read, nor TiDB's own."""
        self.generated = {column.source for column in plan.columns if column.column.virtual}
        self.filter = row_filter(plan.where, self.table) if plan.where else None
        """Which rows are kept; ``None``: all."""
        absent = [column for column in plan.columns if column.source not in self.places]
        self.fill = {column.source: fill_of(column, plan.options) for column in absent}
        if plan.origin:
            self.fill |= zip(plan.origin, self.table.full_name[-len(plan.origin) :], strict=True)

    @cached_property
    def read(self) -> RowReader:
        """Reads images whole."""
        return self._compile(self._plan.options, None)

    @cached_property
    def read_keys(self) -> RowReader:
        """Reads the keys of images; without a key whole rows, with what tells whether they are kept."""
        options = self._plan.options
        exact = msgspec.structs.replace(options, ambiguous_timestamp="reject") if self.exact_keys else options
        return self._compile(exact, frozenset((*self.keys, *(self._judged if self.is_whole else ()))))

    @property
    def _judged(self) -> tuple[str, ...]:
        """The columns that tell which rows are kept."""
        return () if self.filter is None else self.filter.columns

    @cached_property
    def read_befores(self) -> RowReader:
        """Reads old images whole."""
        return self._compile(
            self._plan.options, frozenset((*(one.source for one in self._plan.columns), *self._judged))
        )

    def _compile(self, options: ReadOptions, only: frozenset[str] | None) -> RowReader:
        plan = self._plan
        if plan.schemas is not None:
            return decoder(plan.protocol, plan.schemas).row_reader(self.table, options, only)
        return _reader(plan.protocol, self.table, options, only)


def _is_sent(plan: ReadPlan, column: LakeColumn) -> bool:
    virtual = column.column.virtual
    return virtual is False or (virtual is None and plan.expects == "all")


@lru_cache(_READERS_KEPT)
def _reader(protocol: str, table: Table, options: ReadOptions, only: frozenset[str] | None) -> RowReader:
    return decoder(protocol).row_reader(table, options, only)


def fill_of(column: LakeColumn, options: ReadOptions) -> Value:
    """What a row of a version without the column gets: the column's default, as the source gives to older rows."""
    value = default_value(column.column, literal=options.literal_defaults)
    if value is NO_CONSTANT:
        return None
    kind, zone = column.column.type, options.default_timezone
    if zone is None or kind.name != "timestamp" or not isinstance(value, str):
        return value
    # what `reject` refuses was refused when the DDL was applied
    return utc_timestamp(value, zone, fsp(kind), "later" if options.ambiguous_timestamp == "later" else "earlier")


def cells_of(
    version: Version, column: LakeColumn, size: int, new: Columns | None, old: Columns | None, moved: Sequence[int]
) -> Cells:
    """The values of a lake column: of the new image; where there is none, of the old one, and so for the rows ``moved``
    behind them. Of old images only keys are read, unless they are read whole."""
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
    """Read new images; ``None`` when there are none. A column that one lacks must be nullable.

    ``bad``: gets the rows that cannot be read, with the reason. ``partial_rows``: those of which only the key was sent,
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
        if not may_lack or name in version.keys:
            for at in lacking:
                if images[at] is not None:
                    bad.setdefault(at, f"the row has no column `{name}`")
    return columns, OddColumns(tuple(sorted(lacks)), tuple(sorted(set().union(*hidden.values()))))


def _hidden(version: Version, image: bytes | None) -> tuple[str, ...]:
    """TiDB's hidden columns in an image that could not be read, which the table has not."""
    names = HIDDEN_NAMES - version.places.keys()
    return tuple(sorted(name for name in names if image and name.encode() in bytes(image)))


def read_old(version: Version, images: Sequence[bytes | None], bad: dict[int, str], first: int) -> Columns | None:
    """Read the keys of old images, or all of them; ``None`` when there are none. ``first``: the place of the first one
    in ``bad``."""
    if images.count(None) == len(images):
        return None
    columns = version.read_befores(images) if version.befores else version.read_keys(images)
    exact = version.read_keys(images).bad if version.befores and version.exact_keys else {}
    for at, reason in (*columns.bad.items(), *exact.items()):
        bad.setdefault(at + first, reason)
    for name, lacking in columns.absent.items() if version.whole_old_for else ():
        if name not in version.sent:
            continue
        for at in lacking:
            if images[at] is not None:
                bad.setdefault(at + first, _OLD_LACKS.format(version.whole_old_for, name))
    return columns


def lack_old(version: Version, ops: Iterable[object], bad: dict[int, str]) -> None:
    """Note the rows with a new image alone that are no inserts, where old images are needed whole. ``ops``: theirs."""
    if not version.whole_old_for:
        return
    traits = PROTOCOLS[version.protocol].traits
    for at, op in enumerate(map(str, ops)):
        # Open has no other message for an insert; Avro never has old values.
        if op != "insert" and not (op == "upsert" and traits.upserts and not traits.registry):
            bad.setdefault(at, _NO_OLD_VALUES.format(version.whole_old_for))


def deleted_rows(version: Version, plan: ReadPlan, new: Columns | None, bad: dict[int, str]) -> set[int]:
    """Rows whose new image says that the row is deleted, whatever the target has of that column. Without a key they are
    bad: the rest of the image is not that of a row that is there."""
    place = version.places.get(plan.deleted_by)
    if place is None or new is None:
        return set()
    gone = {at for at, value in enumerate(new.values[place]) if value is not None}
    if version.is_whole:
        bad.update(dict.fromkeys(gone, "the row is soft-deleted, and its table has no key"))
        return set()
    return gone


class Unkept(NamedTuple):
    """Rows that are read and that the target does not keep."""

    new: set[int]
    """By their new image."""
    old: set[int]
    """By their old one, where these are read whole."""

    @classmethod
    def of(
        cls, version: Version, images: tuple[Columns | None, Columns | None], first_old: int, bad: dict[int, str]
    ) -> "Unkept":
        """``images``: new and old ones. Of those that are not kept only the key is left, unless the table has none.

        ``bad``: gets the rows of which it cannot be told.
        """
        new, old = images
        return cls(_unkept(version, new, bad), _unkept(version, old if version.whole_old_for else None, bad, first_old))

    def letter(self, at: int, op: str) -> str:
        """The letter of a new image, of a table with a key. If the row before it was not kept either, there is none in
        the target, as before an insert."""
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
    if found and not version.is_whole:
        _forget(version, images, found)
    return {at + first for at in found}


def _forget(version: Version, images: Columns, rows: Iterable[int]) -> None:
    images.values[:] = [[*cells] for cells in images.values]  # a reader may give one list for several columns
    keys = {version.places[name] for name in version.keys if name in version.places}
    for place, cells in enumerate(images.values):
        if place not in keys:
            for at in rows:
                cells[at] = None


def moved_rows(version: Version, letters: Sequence[str], new: Columns, old: Columns, first_old: int) -> list[int]:
    """Rows of raw key changes: an update whose key differs between its images. Without a key, every update."""
    if version.is_whole:
        return [at for at in range(first_old, len(new.values[0])) if letters[at] == "u"]
    moved: set[int] = set()
    for place in (version.places[name] for name in version.keys if name in version.places):
        mine, theirs = new.values[place][first_old:], old.values[place]
        if mine != theirs[: len(mine)]:
            pairs = enumerate(zip(mine, theirs, strict=False), first_old)
            moved.update(at for at, (a, b) in pairs if a != b and b is not None)
    return [at for at in sorted(moved) if letters[at] == "u"]


def before_rows(version: Version, letters: Sequence[str], moved: Collection[int], first_old: int) -> list[int]:
    """Updates whose key stays, where what they replace is a row of its own. ``letters``: of the rows with a new image;
    ``moved``: those whose key does not stay."""
    if not version.befores:
        return []
    return [at for at, op in enumerate(letters) if op == "u" and at >= first_old and at not in moved]
