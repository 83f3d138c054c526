"""Row changes as columns, for code that handles many at once. Rows of a kind share most of their fields."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeVar, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from ticdc_spark.model import Checksum, Envelope, Op

Numbers = npt.NDArray[np.int64]
K = TypeVar("K", bound=Hashable)


class RowKind(NamedTuple):
    """Fields that many row changes share, named as in ``Envelope``."""

    op: Op
    schema: str
    table: str
    schema_key: str
    partial: bool


class RowColumns(NamedTuple):
    """Fields that row changes do not share. Images may be ``msgspec.Raw`` instead of bytes, to avoid copies. Their
    protocol's reader accepts both, and ``bytes`` converts them."""

    before: Sequence[bytes | None]
    after: Sequence[bytes | None]
    table_ids: Sequence[int | None]
    """The physical ids."""
    checksums: Sequence[Checksum | None] | None
    """``None``: no row has one."""


class Rows(Sequence[Envelope]):
    """Row changes: a sequence of envelopes, and their fields as columns of the same length."""

    __slots__ = ("_columns", "_envelopes", "commit_ts", "kind_of", "kinds")

    def __init__(
        self,
        kinds: Sequence[RowKind],
        kind_of: Sequence[int] | Numbers,
        commit_ts: Sequence[int] | Numbers,
        rest: RowColumns | Sequence[Envelope],
    ) -> None:
        """``kind_of``: the number of each row's kind. ``rest``: the other columns, or the envelopes with them."""
        self.kinds = kinds
        self.kind_of = np.array(kind_of, np.int64)
        self.commit_ts = np.array(commit_ts, np.int64)
        self._columns = rest if isinstance(rest, RowColumns) else None
        self._envelopes = None if isinstance(rest, RowColumns) else rest

    @property
    def columns(self) -> RowColumns:
        """The columns that not all callers need."""
        if self._columns is None:
            rows = self._envelopes or ()
            sums = [row.checksum for row in rows]
            self._columns = RowColumns(
                [row.before for row in rows],
                [row.after for row in rows],
                [row.table_id for row in rows],
                sums if any(sums) else None,
            )
        return self._columns

    def __len__(self) -> int:
        return len(self.kind_of)

    @overload
    def __getitem__(self, at: int) -> Envelope: ...
    @overload
    def __getitem__(self, at: slice) -> list[Envelope]: ...
    def __getitem__(self, at: int | slice) -> Envelope | list[Envelope]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if self._envelopes is not None:
            return self._envelopes[at]
        kind, columns = self.kinds[self.kind_of[at]], self.columns
        before, after = columns.before[at], columns.after[at]
        return Envelope(
            op=kind.op,
            schema=kind.schema,
            table=kind.table,
            commit_ts=int(self.commit_ts[at]),
            before=None if before is None else bytes(before),
            after=None if after is None else bytes(after),
            table_id=columns.table_ids[at],
            schema_key=kind.schema_key,
            partial=kind.partial,
            checksum=None if columns.checksums is None else columns.checksums[at],
        )

    def __iter__(self) -> Iterator[Envelope]:
        return iter(self._envelopes) if self._envelopes is not None else map(self.__getitem__, range(len(self)))


@runtime_checkable
class RowsDecoder(Protocol):
    """A decoder that opens many ordinary messages faster than one by one."""

    def open_rows(self, values: Sequence[bytes | None]) -> Rows:
        """The rows of the first messages, up to an unusual one. Each has one whole row, as in ``open_message``."""


def rows_of(envelopes: Sequence[Envelope]) -> Rows:
    """Rows from opened envelopes."""
    numbered: Numbered[tuple[Op, str, str, str, bool]] = Numbered()
    kind_of = numbered.of(map(_KIND, envelopes))
    return Rows([RowKind(*kind) for kind in numbered], kind_of, [row.commit_ts for row in envelopes], envelopes)


_KIND = attrgetter(*RowKind._fields)


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows joined in order."""
    firsts = np.cumsum([0, *(len(part.kinds) for part in parts)])
    kind_of = [part.kind_of + first for part, first in zip(parts, firsts, strict=False)]
    columns = [part.columns for part in parts]
    sums = [one for each in columns for one in each.checksums or repeat(None, len(each.before))]
    return Rows(
        [kind for part in parts for kind in part.kinds],
        np.concatenate(kind_of),
        np.concatenate([part.commit_ts for part in parts]),
        RowColumns(
            [image for each in columns for image in each.before],
            [image for each in columns for image in each.after],
            [number for each in columns for number in each.table_ids],
            sums if any(sums) else None,
        ),
    )


class Numbered(dict[K, int]):
    """Numbers keys in the order of their first use."""

    def __missing__(self, key: K) -> int:
        number = self[key] = len(self)
        return number

    def of(self, keys: Iterator[K]) -> list[int]:
        """The number of each key."""
        return list(map(self.__getitem__, keys))
