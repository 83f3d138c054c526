"""Find the rows that TiCDC sent again. In a table without a key, only their place shows it.

TiCDC sends the changes of a table in the order of their commit_ts. After a restart, it begins again after its
checkpoint, and sends every later transaction again, as a whole. So a new **try** begins where the commit_ts of a table
falls in a partition, and at a row below a watermark that came after the row before it. A transaction may be in several
tries: in part, as a whole, or again in part at the end of a batch.

A producer that repeats a request sends the last messages again. If they are of several transactions, that is a new try
as well. If only rows of one transaction are sent again, directly after themselves, its commit_ts does not fall. But a
transaction may also have such equal rows itself, so its commit_ts is **doubted**.

Equal rows of a transaction go to one partition. If they are in several, another changefeed has sent them again to
another topic, or to another number of partitions. Their commit_ts is doubted, too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.changes.opening import WATERMARK
from ticdc_spark.changes.raw import RawChanges
from ticdc_spark.protocols import protocol as protocol_of
from ticdc_spark.spark.decode.raw import RawRows, RawTask
from ticdc_spark.spark.decode.rows import TRY
from ticdc_spark.spark.faults import spark_faults
from ticdc_spark.spark.tasks import chain

Begin: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset."""
_MOST_PAIRS = 1_000_000
"""Most pairs of equal rows of one transaction that are compared."""
_PLACES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("seq", pa.int32()),
        ("commit_ts", pa.int64()),
        ("op", pa.string()),
        ("content", pa.binary(8)),
    ]
)
_PLACES_DDL = "topic string, partition int, offset bigint, seq int, commit_ts bigint, op string, content binary"


class Tries(msgspec.Struct, frozen=True):
    """The tries in which the rows of a table were sent."""

    begins: tuple[Begin, ...] = ()
    """Where each try begins, in order. The first try of a partition begins at offset 0."""
    doubted: tuple[int, ...] = ()
    """commit_ts of transactions that may have been sent once or twice, in order."""

    @property
    def partitions(self) -> tuple[int, ...]:
        """The number of each try's partition."""
        known: dict[tuple[str, int], int] = {}
        return tuple(known.setdefault(begin[:2], len(known)) for begin in self.begins)


def find_tries(raw: RawChanges, protocol: str) -> Tries:
    """The tries of a table's rows. ``raw``: all its rows in a range of each partition, whatever their commit_ts, with
    the watermarks there (``RowScan.watermarks``). ``protocol``: the name of the protocol of their images.

    Raises: SinkFault, SourceFault
    """
    places = _places(protocol)
    if raw.is_here:
        found = raw.run(chain(places, _judge))
    elif raw.size is not None:
        found = raw.run_spread(places, (), _judge, 1)
    else:
        with spark_faults("the messages cannot be read"):
            rows = raw.map(places, _PLACES_DDL).coalesce(1).mapInArrow(_judge, "found binary").collect()
        found = [bytes(row[0]) for row in rows]
    return msgspec.msgpack.decode(found[0], type=Tries) if found else Tries()


def numbered_tries(begins: Sequence[Begin]) -> Callable[[Iterable[RawRows]], Iterator[RawRows]]:
    """Return a function that adds the number of their try to raw rows, in ``TRY`` (-1: not known)."""
    by_place: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
    for number, (topic, partition, offset) in enumerate(begins):
        offsets, numbers = by_place.setdefault((topic, partition), ([], []))
        offsets.append(offset)
        numbers.append(number)

    def run(batches: Iterable[RawRows]) -> Iterator[RawRows]:
        for rows in batches:
            batch = rows.about
            tries = np.full(len(batch), -1, np.int64)
            topics, partitions = batch.column("topic"), batch.column("partition")
            offsets = np.asarray(batch.column("offset"))
            for (topic, partition), (begun, numbers) in by_place.items():
                here = np.asarray(pc.and_(pc.equal(topics, topic), pc.equal(partitions, partition)))
                at = np.searchsorted(np.asarray(begun), offsets[here], side="right") - 1
                tries[here] = np.asarray(numbers)[at]
            yield rows._replace(about=batch.append_column(TRY, pa.array(tries)))

    return run


def _places(name: str) -> RawTask:
    """Return a function from raw rows to their places and a digest of their contents."""

    def run(batches: Iterable[RawRows]) -> Iterator[pa.RecordBatch]:
        comparable = protocol_of(name).comparable
        for rows in batches:
            batch = rows.about
            images = zip(batch.column("op").to_pylist(), rows.before, rows.after, strict=True)
            digests = [
                _digest(op, *(None if one is None else comparable(bytes(one)) for one in both)) for op, *both in images
            ]
            content = pa.array(digests, pa.binary(8))
            yield pa.RecordBatch.from_arrays(
                [*(batch.column(name) for name in _PLACES.names[:-1]), content], schema=_PLACES
            )

    return run


def _digest(op: str, before: bytes | None, after: bytes | None) -> bytes:
    digest = blake2b(op.encode(), digest_size=8)
    for image in (before, after):
        digest.update(b"\0" if image is None else b"\1%d:" % len(image) + image)
    return digest.digest()


def _judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    some = [batch for batch in batches if len(batch)]
    if some:
        found = _tries_of(pa.Table.from_batches(some))
        yield pa.record_batch([pa.array([msgspec.msgpack.encode(found)], pa.binary())], ["found"])


def _tries_of(rows: pa.Table) -> Tries:
    begins: list[Begin] = []
    doubted: set[int] = set()
    rows = rows.sort_by([(name, "ascending") for name in ("topic", "partition", "offset", "seq")])
    places = rows.group_by(["topic", "partition"]).aggregate([]).to_pylist()
    for topic, partition in sorted((place["topic"], place["partition"]) for place in places):
        is_here = pc.and_(pc.equal(rows.column("topic"), topic), pc.equal(rows.column("partition"), partition))
        here = rows.filter(is_here)
        between = _watermarks_between(here)
        here = here.filter(pc.not_equal(here.column("op"), WATERMARK))
        offsets, stamps = np.asarray(here.column("offset")), np.asarray(here.column("commit_ts"))
        begun = (stamps[1:] < stamps[:-1]) | (between[1:] > stamps[1:])
        new = np.unique(offsets[1:][begun]).tolist()
        begins += [(topic, partition, 0), *((topic, partition, one) for one in new)]
        contents = here.column("content").to_pylist()
        edges = np.concatenate([[0], np.flatnonzero(begun | (stamps[1:] != stamps[:-1])) + 1, [len(stamps)]])
        long = np.flatnonzero(np.diff(edges) > 1)
        for first, end in zip(edges[long].tolist(), edges[long + 1].tolist(), strict=True):
            if _may_be_twice(contents[first:end], offsets[first:end]):
                doubted.add(int(stamps[first]))
    doubted |= _in_several_partitions(rows)
    return Tries(tuple(begins), tuple(sorted(doubted)))


def _in_several_partitions(rows: pa.Table) -> set[int]:
    """The commit_ts of transactions that have equal rows in several partitions."""
    rows, what = rows.filter(pc.not_equal(rows.column("op"), WATERMARK)), ["commit_ts", "content"]
    places = rows.group_by([*what, "topic", "partition"]).aggregate([])
    several = places.group_by(what).aggregate([([], "count_all")])
    return set(several.filter(pc.greater(several.column("count_all"), 1)).column("commit_ts").to_pylist())


def _watermarks_between(rows: pa.Table) -> npt.NDArray[np.int64]:
    """For each row of one partition, the highest watermark between it and the row before; 0: there is none."""
    is_mark = np.asarray(pc.equal(rows.column("op"), WATERMARK))
    highest = np.zeros(int((~is_mark).sum()) + 1, np.int64)
    np.maximum.at(highest, np.cumsum(~is_mark)[is_mark], np.asarray(rows.column("commit_ts"))[is_mark])
    return highest[:-1]


def _may_be_twice(contents: Sequence[bytes], offsets: npt.NDArray[np.int64]) -> bool:
    """Whether some rows of a transaction come again directly after themselves, beginning in another message."""
    places: dict[bytes, list[int]] = {}
    for at, content in enumerate(contents):
        places.setdefault(content, []).append(at)
    several = [found for found in places.values() if len(found) > 1]
    if sum(len(found) ** 2 for found in several) > _MOST_PAIRS:
        return True  # It would take too long to find out.
    return any(
        2 * then - first <= len(contents)
        and offsets[then] != offsets[then - 1]
        and all(contents[at] == contents[at + then - first] for at in range(first, then))
        for found in several
        for number, first in enumerate(found)
        for then in found[number + 1 :]
    )
