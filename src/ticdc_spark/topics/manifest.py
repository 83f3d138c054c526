"""Recorded topics: which file has which messages. It is found once and stored.

A recorded topic is a folder, or one file, of JSON lines (also ``.gz``) or Parquet with ``topic``, ``partition``,
``offset``, ``timestamp``, ``key`` and ``value`` (base64 in JSON). Files are cut into chunks that tasks read in
parallel. The manifest has the offsets of each chunk. Order is by topic, partition and offset, never by a file's name or
time.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.errors import SourceFault
from ticdc_spark.topics import json_lines as recorded_json
from ticdc_spark.topics import parquet as recorded_parquet
from ticdc_spark.topics.chunk import Chunk, Span

Kind: TypeAlias = Literal["json", "gzip", "parquet"]

SUFFIXES: Mapping[str, Kind] = {".jsonl": "json", ".jsonl.gz": "gzip", ".parquet": "parquet"}
"""Files of a folder that belong to a recorded topic. Names that start with ``.`` or ``_`` do not."""

_FORMAT = 1


class RecordedFile(msgspec.Struct, frozen=True):
    """One file of a recorded topic at the time of listing."""

    path: str
    kind: Kind
    size: int
    mtime_ns: int
    chunks: tuple[Chunk, ...]


def list_recorded(path: Path) -> tuple[RecordedFile, ...]:
    """List the files of a recorded topic. Unchanged files are not read again.

    Raises: SourceFault for a missing path, a line that cannot be read (named), an offset in two files, or a partition
    in two files of which one has no offsets.
    """
    listed = tuple(_describe(file, kind) for file, kind in _files(path))
    if not listed:
        raise SourceFault(f"{path}: no recorded messages; files end in {', '.join(SUFFIXES)}")
    _check(listed)
    return listed


def spans(files: Iterable[RecordedFile]) -> dict[tuple[str, int], list[Span]]:
    """All spans of each partition, in order of offset."""
    found: dict[tuple[str, int], list[Span]] = defaultdict(list)
    for file in files:
        for chunk in file.chunks:
            for span in chunk.spans:
                found[span.topic, span.partition].append(span)
    for of_partition in found.values():
        of_partition.sort(key=lambda span: (span.first, span.last))
    return dict(found)


def ends(held: Mapping[tuple[str, int], Sequence[Span]]) -> dict[tuple[str, int], int]:
    """The offset after each partition's last one. ``held``: from ``spans``."""
    return {partition: 1 + max(span.last for span in of) for partition, of in held.items()}


def _files(path: Path) -> list[tuple[Path, Kind]]:
    try:
        if path.is_file():
            kind = next((k for suffix, k in SUFFIXES.items() if path.name.endswith(suffix)), None)
            return [(path, kind or ("gzip" if path.suffix == ".gz" else "json"))]
        if not path.is_dir():
            raise SourceFault(f"{path}: no such file or folder")
        return [
            (file, kind)
            for file in sorted(path.rglob("*"))
            for suffix, kind in SUFFIXES.items()
            if file.name.endswith(suffix)
            and not any(part[0] in "._" for part in file.relative_to(path).parts)
            and file.is_file()
        ]
    except OSError as error:
        raise SourceFault(f"{path}: {error.strerror or error}") from error


def _describe(path: Path, kind: Kind) -> RecordedFile:
    try:
        stat = path.stat()
        described = _kept(str(path.absolute()), kind, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise SourceFault(f"{path}: {error.strerror or error}") from error
    return described


@lru_cache(maxsize=100_000)
def _kept(path: str, kind: Kind, size: int, mtime_ns: int) -> RecordedFile:
    name = hashlib.sha256(f"{_FORMAT}\0{path}\0{size}\0{mtime_ns}".encode()).hexdigest()[:32]
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    kept = Path(base).expanduser() / "ticdc-spark" / "recorded" / name[:2] / f"{name}.json"
    # Reading a Parquet footer is as fast as reading a note about it.
    if kind != "parquet" and kept.is_file():
        try:
            return msgspec.json.decode(kept.read_bytes(), type=RecordedFile)
        except msgspec.DecodeError:
            kept.unlink(missing_ok=True)
    scan = recorded_parquet.scan if kind == "parquet" else recorded_json.scan
    described = RecordedFile(path, kind, size, mtime_ns, tuple(scan(path)))
    if kind != "parquet":
        _keep(kept, described)
    return described


def _keep(path: Path, described: RecordedFile) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(msgspec.json.encode(described))
        partial.replace(path)
    except OSError:
        return  # If the home folder cannot be written, the next start only needs another scan.


@lru_cache(maxsize=8)
def _check(listed: tuple[RecordedFile, ...]) -> None:
    """Check that every offset of a partition occurs once: by ranges, and offset by offset where ranges overlap."""
    held: dict[tuple[str, int], list[tuple[Span, RecordedFile]]] = defaultdict(list)
    for file in listed:
        for chunk in file.chunks:
            for span in chunk.spans:
                held[span.topic, span.partition].append((span, file))
    for partition, at in held.items():
        _check_implicit(partition, at)
        at.sort(key=lambda each: (each[0].first, each[0].last))
        suspects: set[RecordedFile] = {file for span, file in at if not span.ordered}
        reach, holder = -1, at[0][1]
        for span, file in at:
            if span.first <= reach:
                suspects |= {file, holder}
            if span.last > reach:
                reach, holder = span.last, file
        _check_offsets(partition, sorted(suspects, key=lambda file: file.path))


def _check_implicit(partition: tuple[str, int], at: Sequence[tuple[Span, RecordedFile]]) -> None:
    without = next((file.path for span, file in at if span.implicit), None)
    other = next((file.path for _, file in at if file.path != without), None)
    if without is not None and other is not None:
        raise SourceFault(
            f"topic {partition[0]!r}, partition {partition[1]} is in {without} and in {other}: "
            f"lines without an offset take their line number, so such a partition must be in one file"
        )


def _check_offsets(partition: tuple[str, int], files: Sequence[RecordedFile]) -> None:
    seen: dict[int, str] = {}
    for file in files:
        read = recorded_parquet.offsets if file.kind == "parquet" else recorded_json.offsets
        for offset in read(file.path, partition):
            if offset in seen:
                raise SourceFault(
                    f"topic {partition[0]!r}, partition {partition[1]}: offset {offset} is in {seen[offset]} and "
                    + ("there again" if seen[offset] == file.path else f"in {file.path}")
                )
            seen[offset] = file.path
