"""How fast the protocols are read and written: rows a second on one core, without Spark and without Kafka.

Rows are those of the workload's shop, written by our own encoders. What is counted is the processor's time of this
process, and of the passes over all rows the fastest, so that a busy machine hurts less.

- decode: every message opened, then the images of each table read into columns of canonical values, both images of an
  update: what Spark's tasks do with a batch, but for Arrow.
- one by one: every message opened and its rows read before the next: what ``inspect`` and ``convert`` do.
- encode: row changes to messages.
"""

from __future__ import annotations

import argparse
import gc
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from tests.workload import WorkloadConfig, generate

from benchmarks.codec_subjects import SUBJECTS, Subject
from ticdc_spark.model import Checksum, Envelope, RowChange, Table
from ticdc_spark.protocols.base import Decoder, Encoded, ReadOptions, RowReader, row_change

OPTIONS = ReadOptions(source_timezone="UTC")
PASSES = 3


class Speed(NamedTuple):
    """What was found of a subject: rows a second, and the bytes of key and value for a row."""

    encode: float
    decode: float | None
    one_by_one: float | None
    row_bytes: float


def shop_changes(rows: int, seed: int = 1) -> list[RowChange]:
    """Row changes of the shop's six tables: inserts, updates and deletes in the shares of the vectors' case."""
    config = WorkloadConfig(
        seed=seed, changes=rows, insert_share=0.64, update_share=0.27, key_change_share=0.0, live_rows=10**9
    )
    checksum = Checksum(version=1, corrupted=False, current=3_000_000_000, previous=2_000_000_000)
    return [replace(event, checksum=checksum) for event in generate(config) if isinstance(event, RowChange)]


def rate(rows: int, work: Callable[[], object], seconds: float) -> float:
    """Rows a second of processor time; ``work`` handles ``rows`` of them."""
    work()
    spent: list[float] = []
    gc.collect()
    while sum(spent) < seconds or len(spent) < PASSES:
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return rows / min(spent)


class Readers:
    """Row readers, compiled once for each table and schema key."""

    def __init__(self, decoder: Decoder, tables: Iterable[Table]) -> None:
        self._decoder = decoder
        self.tables = {(table.schema, table.name): table for table in tables}
        self._readers: dict[tuple[str, str], RowReader] = {}

    def __getitem__(self, name: tuple[str, str]) -> RowReader:
        reader = self._readers.get(name)
        if reader is None:
            reader = self._readers[name] = self._decoder.row_reader(self.tables[name], OPTIONS)
        return reader


def decode(decoder: Decoder, readers: Readers, messages: Sequence[Encoded]) -> int:
    """Open messages and read the images table by table; gives the number of rows."""
    images: dict[tuple[str, str], tuple[list[bytes | None], list[bytes | None]]] = defaultdict(lambda: ([], []))
    rows = 0
    for message in messages:
        for event in decoder.open_message(message.key, message.value):
            if not isinstance(event, Envelope):
                raise SystemExit(f"{decoder.name}: not a row: {event}")
            before, after = images[event.schema, event.table]
            if event.before is not None:
                before.append(event.before)
            if event.after is not None:
                after.append(event.after)
            rows += 1
    for name, sides in images.items():
        for side in sides:
            columns = readers[name](side)
            if columns.bad:
                raise SystemExit(f"{decoder.name}: not read: {next(iter(columns.bad.values()))}")
    return rows


def decode_one_by_one(decoder: Decoder, readers: Readers, messages: Sequence[Encoded]) -> int:
    """Read each message whole before the next; gives the number of rows."""
    rows = 0
    for message in messages:
        for event in decoder.open_message(message.key, message.value):
            assert isinstance(event, Envelope)
            name = (event.schema, event.table)
            change = row_change(event, readers.tables[name], readers[name])
            if not isinstance(change, RowChange):
                raise SystemExit(f"{decoder.name}: {change.reason}")
            rows += 1
    return rows


def measure(subject: Subject, changes: Sequence[RowChange], seconds: float) -> Speed:
    """Measure a subject on row changes, after a look whether all rows come back."""
    encoder, decoder = subject.codec()
    messages = list(encoder.rows(changes))
    readers = Readers(decoder, {id(change.table): change.table for change in changes}.values())
    found = decode(decoder, readers, messages)
    if found != len(changes):
        raise SystemExit(f"{subject.name}: {found} rows of {len(changes)}")
    size = sum(len(message.key or b"") + len(message.value or b"") for message in messages)
    return Speed(
        encode=rate(found, lambda: all(encoder.rows(changes)), seconds),
        decode=rate(found, lambda: decode(decoder, readers, messages), seconds),
        one_by_one=rate(found, lambda: decode_one_by_one(decoder, readers, messages), seconds),
        row_bytes=size / found,
    )


def table(found: dict[Subject, Speed], *, go: bool) -> str:
    """The results in Markdown; with ``go``, TiCDC's own beside them."""
    beside = " TiCDC: decode | ratio | TiCDC: encode | ratio |" if go else ""
    lines = [
        f"| | decode | one by one | encode | bytes/row |{beside}",
        "|---|---:|---:|---:|---:|" + "---:|---:|---:|---:|" * go,
    ]
    for subject, speed in found.items():
        cells = [
            subject.name,
            *(f"{value:,.0f}" if value else "" for value in (speed.decode, speed.one_by_one, speed.encode)),
            f"{speed.row_bytes:,.0f}",
        ]
        if go:
            for ours, theirs in ((speed.decode, subject.go_decode), (speed.encode, subject.go_encode)):
                cells += [f"{theirs:,}", f"{ours / theirs:.2f}"] if ours and theirs else ["–", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("benchmarks.codecs", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--rows", type=int, default=10_000, help="row changes in a pass")
    parser.add_argument("--protocol", choices=[subject.name for subject in SUBJECTS], action="append")
    parser.add_argument("--go", action="store_true", help="show what TiCDC's own codecs did, on another machine")
    arguments = parser.parse_args()
    changes = shop_changes(arguments.rows)
    found: dict[Subject, Speed] = {}
    for subject in SUBJECTS:
        if subject.is_there() and (not arguments.protocol or subject.name in arguments.protocol):
            print(f"{subject.name} …", file=sys.stderr)
            found[subject] = measure(subject, changes, arguments.seconds)
    print(f"Python {platform.python_version()}, one core, {len(changes):,} rows in a pass; rows/s of processor time.\n")
    print(table(found, go=arguments.go))


if __name__ == "__main__":
    main()
