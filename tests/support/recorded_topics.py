"""Recorded topics for tests: made, and read back without the code under test."""

import base64
import gzip
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq


class Line(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None


def lines(topic: str, partition: int, offsets: Iterable[int], size: int = 10) -> list[Line]:
    return [
        Line(topic, partition, i, 1_700_000_000_000 + i, None if i % 3 else b"k%d" % i, b"%d" % i * size)
        for i in offsets
    ]


def as_json(line: Line, without: Iterable[str] = ()) -> str:
    fields: dict[str, Any] = line._asdict()
    for name in ("key", "value"):
        if fields[name] is not None:
            fields[name] = base64.b64encode(fields[name]).decode()
    return json.dumps({name: value for name, value in fields.items() if name not in set(without)})


def write_json(path: Path, written: Iterable[Line], without: Iterable[str] = ()) -> Path:
    text = "".join(as_json(line, without) + "\n" for line in written).encode()
    with whole(path) as draft:
        draft.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def write_parquet(path: Path, written: Iterable[Line], row_group: int = 1000) -> Path:
    types = [pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary()]
    columns = [pa.array(list(cells), kind) for cells, kind in zip(zip(*written, strict=True), types, strict=True)]
    with whole(path) as draft:
        pq.write_table(pa.table(columns, names=list(Line._fields)), draft, row_group_size=row_group)
    return path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A draft that replaces a file at once: a job that reads the topic meanwhile never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    yield draft
    draft.replace(path)


def read_back(folder: Path) -> list[Line]:
    """Every message of a folder, in order of topic, partition and offset."""
    found: list[Line] = []
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.suffix == ".parquet":
            found += [Line(**row) for row in pq.read_table(path).to_pylist()]
            continue
        data = path.read_bytes()
        for text in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines():
            fields = json.loads(text)
            for name in ("key", "value"):
                if fields[name] is not None:
                    fields[name] = base64.b64decode(fields[name])
            found.append(Line(**fields))
    return sorted(found, key=lambda line: line[:3])
