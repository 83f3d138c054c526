"""``ticdc-spark record``: copies Kafka topics into a recorded topic, and resumes where it was stopped."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ticdc_spark.cli.options.source import client_option, place
from ticdc_spark.cli.output.logging import console
from ticdc_spark.cli.signals import is_same_signal
from ticdc_spark.errors import SourceFault
from ticdc_spark.model import Offsets
from ticdc_spark.topics.kafka_reader import Place, TopicReader
from ticdc_spark.topics.manifest import ends, list_recorded, spans
from ticdc_spark.topics.same_topics import TopicWatch, check_ids, keep_recorded_ids, recorded_ids
from ticdc_spark.topics.writer import FORMATS, RecordWriter, recording

_PLAIN_SECONDS = 5.0
_WAY_OUT = "Record into another folder: this one would have a gap, or messages of two topics that cannot be told apart"


@click.command()
@click.option("--bootstrap-servers", required=True, metavar="HOST:PORT,…", help="The Kafka cluster.")
@click.option("--topic", "topics", required=True, multiple=True, help="A topic to copy; may be repeated.")
@click.option("--from", "first", callback=place, default="beginning", show_default=True, metavar="PLACE")
@click.option("--to", "last", callback=place, metavar="PLACE", help="Where to stop (exclusive).")
@click.option(
    "--until",
    type=click.Choice(["end", "stopped"]),
    default="end",
    show_default=True,
    help="Without --to: stop at the end that the topic has now, or go on until Ctrl-C.",
)
@click.option("--format", "kind", type=click.Choice(FORMATS), default="parquet", show_default=True)
@click.option("--segment-rows", type=click.IntRange(min=1), default=500_000, show_default=True)
@click.option("--segment-bytes", type=click.IntRange(min=1), default=128 << 20, show_default=True)
@client_option("options")
@click.argument("folder", type=click.Path(path_type=Path))
def command(
    bootstrap_servers: str,
    topics: Sequence[str],
    first: Place,
    last: Place | None,
    until: str,
    kind: Any,
    segment_rows: int,
    segment_bytes: int,
    options: dict[str, str],
    folder: Path,
) -> None:
    """Copy Kafka topics into a recorded topic in FOLDER.

    A PLACE is an offset (of every partition), a time like 2026-01-31T12:00:00Z (UTC if no zone is given), beginning
    or end. Messages that FOLDER already has are not fetched again: each partition resumes after its last offset there.
    A topic that was recreated in the meantime, or lacks messages after that offset, is refused (exit code 4).
    """
    kafka = TopicReader(bootstrap_servers, options)
    with recording(folder), kafka, _signals() as stopped:
        partitions = kafka.partitions(topics)
        held = _held(folder)
        watch = TopicWatch(kafka, _ids(kafka, topics, folder, held), _WAY_OUT)
        start = kafka.start(partitions, first, held, _WAY_OUT)
        end = None if last is None and until == "stopped" else kafka.places(partitions, "end" if last is None else last)
        writer = RecordWriter(folder, kind, segment_rows, segment_bytes)
        total = None if end is None else sum(max(0, end[p] - start[p]) for p in partitions)
        began = time.monotonic()
        count = 0
        try:
            with _progress(total) as show:
                for messages in kafka.batches(start, end, stopped, patient=last is not None):
                    watch.look(held)
                    for message in messages:
                        writer.write(message)
                        count += 1
                        show(count)
            watch.look(held, at_once=True)
        except SourceFault:
            watch.look(held, at_once=True)
            raise
        finally:
            # Keep what was read, also when the broker went away.
            writer.finish()
    seconds = max(time.monotonic() - began, 1e-3)
    click.echo(f"recorded {count:,} messages in {writer.files:,} files of {folder} ({count / seconds:,.0f} a second)")
    if stopped and end is not None:
        raise click.exceptions.Exit(128 + stopped[0])


def _held(folder: Path) -> Offsets:
    """By partition, the offset after the last one in the folder."""
    try:
        files = list_recorded(folder)
    except SourceFault:
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            raise
        return {}
    return ends(spans(files))


def _ids(kafka: TopicReader, topics: Sequence[str], folder: Path, held: Offsets) -> dict[str, str]:
    """The ids of the topics, which are stored beside the recording.

    Raises: SourceChanged if the folder has messages of a topic with another id; SourceFault
    """
    known, now = recorded_ids(folder), kafka.ids(topics)
    recorded = {topic for topic, _ in held}
    check_ids({topic: number for topic, number in known.items() if topic in recorded}, now, held, _WAY_OUT)
    if known != {**known, **now}:
        keep_recorded_ids(folder, {**known, **now})
    return now


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect the first SIGINT or SIGTERM, so that open segments can be finished. A later one ends the process."""
    caught: list[int] = []
    began = 0.0

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal began
        if not caught:
            began = time.monotonic()
            caught.append(number)
        elif not is_same_signal(began, time.monotonic()):
            raise SystemExit(128 + number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, a line every few seconds elsewhere."""
    if not console.is_terminal:
        shown = time.monotonic()

        def line(count: int) -> None:
            nonlocal shown
            if count % 1000 == 0 and time.monotonic() - shown > _PLAIN_SECONDS:
                shown = time.monotonic()
                console.print(f"recorded {count:,}" + (f" of {total:,}" if total is not None else "") + " messages")

        yield line
        return
    columns = (TextColumn("recording"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("recording", total=total)
        yield lambda count: bar.update(task, completed=count) if count % 1000 == 0 else None
