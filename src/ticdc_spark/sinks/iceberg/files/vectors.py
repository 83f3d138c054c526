"""Deletion vectors: the positions of a data file's deleted rows in tables of version 3.

See Iceberg's specifications of deletion vectors and Puffin files, and the portable format of Roaring bitmaps.
Positions are increasing arrays of 64-bit numbers without duplicates.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from ticdc_spark.spark.storage import Storage, write_bytes

Positions = npt.NDArray[np.int64]
_MAGIC, _PUFFIN = b"\xd1\xd3\x39\x64", b"PFA1"
_TYPE = "deletion-vector-v1"
_ROW_POSITION = 2147483645
"""Iceberg's id of the column ``_pos``."""
_PLAIN, _WITH_RUNS = 12346, 12347
"""The first bytes of a 32-bit Roaring bitmap."""
_MOST_LISTED = 4096
"""A container lists up to this many positions; with more it is a bitmap."""
_MIN_OFFSETS = 4
"""A bitmap with runs has offsets if it has at least this many containers."""
_BITMAP_BYTES = 8192


class Vector(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a vector in its Puffin file."""

    references: str
    """The location of the data file, as in the manifest."""
    offset: int
    size: int
    """Bytes, including length and checksum."""
    rows: int


def encode(positions: Positions) -> bytes:
    """A vector as a blob of type ``deletion-vector-v1``."""
    parts = [_MAGIC]
    high = positions >> 32
    keys, begins = np.unique(high, return_index=True)
    parts.append(struct.pack("<q", len(keys)))
    for key, begin, end in zip(keys, begins, [*begins, len(positions)][1:], strict=True):
        parts += [struct.pack("<I", key), *_bitmap((positions[begin:end] & 0xFFFFFFFF).astype(np.uint32))]
    body = b"".join(parts)
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _bitmap(values: npt.NDArray[np.uint32]) -> Iterator[bytes]:
    """A 32-bit bitmap without runs."""
    keys, begins, counts = np.unique(values >> 16, return_index=True, return_counts=True)
    low = (values & 0xFFFF).astype("<u2")
    sizes = np.where(counts <= _MOST_LISTED, 2 * counts, _BITMAP_BYTES)
    yield struct.pack("<II", _PLAIN, len(keys))
    yield np.column_stack([keys, counts - 1]).astype("<u2").tobytes()
    yield (8 + 8 * len(keys) + np.cumsum(sizes) - sizes).astype("<u4").tobytes()
    for begin, count in zip(begins, counts, strict=True):
        held = low[begin : begin + count]
        if count <= _MOST_LISTED:
            yield held.tobytes()
        else:
            bits = np.zeros(1 << 16, np.uint8)
            bits[held] = 1
            yield np.packbits(bits, bitorder="little").tobytes()


def decode(blob: bytes) -> Positions:
    """The positions of a vector. Raises: OSError if the blob is damaged or not a vector"""
    body = blob[4:-4]
    if len(blob) < 20 or struct.unpack(">I", blob[:4])[0] != len(body) or body[:4] != _MAGIC:
        message = "a deletion vector does not begin as its specification requires"
        raise OSError(message)
    if zlib.crc32(body) != struct.unpack(">I", blob[-4:])[0]:
        message = "the checksum of a deletion vector does not match its bytes"
        raise OSError(message)
    try:
        return _positions(body)
    except (struct.error, ValueError) as error:
        message = f"a deletion vector cannot be read: {error}"
        raise OSError(message) from error


def _positions(body: bytes) -> Positions:
    (count,) = struct.unpack_from("<q", body, 4)
    at, found = 12, [np.empty(0, np.int64)]
    for _ in range(count):
        (key,) = struct.unpack_from("<I", body, at)
        values, at = _read_bitmap(body, at + 4)
        found.append(values + (int(key) << 32))
    return np.concatenate(found)


def _read_bitmap(body: bytes, at: int) -> tuple[Positions, int]:
    """The values of a 32-bit bitmap, and the offset of the next one."""
    (cookie,) = struct.unpack_from("<I", body, at)
    at += 4
    runs = np.zeros(0, np.uint8)
    if cookie & 0xFFFF == _WITH_RUNS:
        size = (cookie >> 16) + 1
        flags = np.frombuffer(body, np.uint8, (size + 7) // 8, at)
        runs = np.unpackbits(flags, bitorder="little")
        at += len(flags)
    elif cookie == _PLAIN:
        (size,) = struct.unpack_from("<I", body, at)
        at += 4
    else:
        message = f"{cookie} begins no Roaring bitmap"
        raise ValueError(message)
    header = np.frombuffer(body, "<u2", 2 * size, at).astype(np.int64).reshape(-1, 2)
    at += 4 * size
    if not len(runs) or size >= _MIN_OFFSETS:
        at += 4 * size  # offsets, which are only needed to look up single values
    found = [np.empty(0, np.int64)]
    for number, (key, less_one) in enumerate(header):
        if len(runs) and runs[number]:
            values, at = _read_runs(body, at)
        elif less_one < _MOST_LISTED:
            values = np.frombuffer(body, "<u2", less_one + 1, at).astype(np.int64)
            at += 2 * len(values)
        else:
            bits = np.unpackbits(np.frombuffer(body, np.uint8, _BITMAP_BYTES, at), bitorder="little")
            values = np.flatnonzero(bits).astype(np.int64)
            at += _BITMAP_BYTES
        found.append(values + (int(key) << 16))
    return np.concatenate(found), at


def _read_runs(body: bytes, at: int) -> tuple[Positions, int]:
    (count,) = struct.unpack_from("<H", body, at)
    pairs = np.frombuffer(body, "<u2", 2 * count, at + 2).astype(np.int64).reshape(-1, 2)
    values = [np.arange(begin, begin + more + 1, dtype=np.int64) for begin, more in pairs]
    return np.concatenate([np.empty(0, np.int64), *values]), at + 2 + 4 * count


def write_puffin(storage: Storage, path: str, vectors: Mapping[str, Positions]) -> tuple[int, list[Vector]]:
    """Write the vectors of data files, by location, to a new file.

    Returns: its size in bytes, and the place of each vector. Raises: OSError
    """
    whole, found = bytearray(_PUFFIN), []
    for location, positions in vectors.items():
        blob = encode(positions)
        found.append(Vector(references=location, offset=len(whole), size=len(blob), rows=len(positions)))
        whole += blob
    blobs = [
        {
            "type": _TYPE,
            "fields": [_ROW_POSITION],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": one.offset,
            "length": one.size,
            "properties": {"referenced-data-file": one.references, "cardinality": str(one.rows)},
        }
        for one in found
    ]
    footer = msgspec.json.encode({"blobs": blobs, "properties": {"created-by": "ticdc-spark"}})
    whole += _PUFFIN + footer + struct.pack("<I", len(footer)) + bytes(4) + _PUFFIN
    write_bytes(storage, path, bytes(whole))
    return len(whole), found
