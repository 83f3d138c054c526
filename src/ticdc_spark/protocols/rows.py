"""Row changes as columns, for what handles many of them at once: most of what they are, few kinds of them share."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar, overload, runtime_checkable

import msgspec
import numpy as np
import numpy.typing as npt

from ticdc_spark.model import Checksum, Envelope, Op

Numbers = npt.NDArray[np.int64]
K = TypeVar("K", bound=Hashable)


class RowKind(NamedTuple):
    """What many row changes have in common. The fields are those of ``Envelope``."""

    op: Op
    schema: str
    table: str
    schema_key: str
    partial: bool


class Rows(Sequence[Envelope]):
    """Row changes: a sequence of envelopes, and their fields as columns of the same length.

    Images may be ``msgspec.Raw`` instead of bytes, which are not copied: their protocol's reader takes them, too, and
    ``bytes`` makes bytes of them.
    """

    __slots__ = ("_envelopes", "after", "before", "checksums", "commit_ts", "kind_of", "kinds", "table_ids")

    def __init__(
        self,
        kinds: Sequence[RowKind],
        kind_of: Sequence[int] | Numbers,
        commit_ts: Sequence[int] | Numbers,
        images: tuple[Sequence[bytes | None], Sequence[bytes | None]],
        ids_and_sums: tuple[Sequence[int | None], Sequence[Checksum | None] | None],
    ) -> None:
        """``kind_of``: of each row the number of its kind. ``images``: before and after. ``ids_and_sums``: physical ids
        of tables, and checksums; ``None``: no row has one."""
        self.kinds = kinds
        self.kind_of = np.array(kind_of, np.int64)
        self.commit_ts = np.array(commit_ts, np.int64)
        self.before, self.after = images
        self.table_ids, self.checksums = ids_and_sums
        self._envelopes: Sequence[Envelope] | None = None

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
        before, after, kind = self.before[at], self.after[at], self.kinds[self.kind_of[at]]
        return Envelope(
            op=kind.op,
            schema=kind.schema,
            table=kind.table,
            commit_ts=int(self.commit_ts[at]),
            before=None if before is None else bytes(before),
            after=None if after is None else bytes(after),
            table_id=self.table_ids[at],
            schema_key=kind.schema_key,
            partial=kind.partial,
            checksum=None if self.checksums is None else self.checksums[at],
        )

    def __iter__(self) -> Iterator[Envelope]:
        return iter(self._envelopes) if self._envelopes is not None else map(self.__getitem__, range(len(self)))


@runtime_checkable
class RowsDecoder(Protocol):
    """A decoder that opens many usual messages faster than one after the other."""

    def open_rows(self, values: Sequence[bytes | None]) -> Rows:
        """The rows of the first messages, up to one that is not usual: one row each, whole, as ``open_message`` gives
        it."""


def rows_of(envelopes: Sequence[Envelope]) -> Rows:
    """Row changes that are opened already."""
    if not envelopes:
        return Rows([], [], [], ([], []), ([], None))
    columns = zip(*map(msgspec.structs.astuple, envelopes), strict=True)
    ops, schemas, tables, stamps, before, after, ids, keys, partial, _, sums, _ = columns
    numbered: Numbered[tuple[Op, str, str, str, bool]] = Numbered()
    kind_of = numbered.of(zip(ops, schemas, tables, keys, partial, strict=True))
    checksums = None if sums.count(None) == len(sums) else sums
    rows = Rows([RowKind(*kind) for kind in numbered], kind_of, stamps, (before, after), (ids, checksums))
    rows._envelopes = envelopes
    return rows


def joined(parts: Sequence[Rows]) -> Rows:
    """One after the other."""
    firsts = np.cumsum([0, *(len(part.kinds) for part in parts)])
    sums: list[Checksum | None] = []
    for part in parts:
        sums += [None] * len(part) if part.checksums is None else part.checksums
    return Rows(
        [kind for part in parts for kind in part.kinds],
        np.concatenate([part.kind_of + first for part, first in zip(parts, firsts, strict=False)]),
        np.concatenate([part.commit_ts for part in parts]),
        ([image for part in parts for image in part.before], [image for part in parts for image in part.after]),
        ([one for part in parts for one in part.table_ids], sums if any(sums) else None),
    )


class Numbered(dict[K, int]):
    """Numbers what it is asked for, in the order of the first time."""

    def __missing__(self, key: K) -> int:
        number = self[key] = len(self)
        return number

    def of(self, keys: Iterator[K]) -> list[int]:
        """The number of each."""
        return list(map(self.__getitem__, keys))
