"""``ticdc-spark convert``: a recorded topic or Kafka topics into a recorded topic of another protocol."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ticdc_spark.cli.options.source import Opened, client_options, make_source, opened, source_options
from ticdc_spark.cli.output.meter import meter
from ticdc_spark.cli.output.rejects import report_rejects
from ticdc_spark.cli.output.text import count, noun
from ticdc_spark.clients.registry_file import open_registry
from ticdc_spark.errors import EnvironmentFault, UsageError
from ticdc_spark.model import Message, Rejected
from ticdc_spark.protocols import ALIASES, PROTOCOLS, canonical
from ticdc_spark.protocols.base import Encoder
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.streams.converter import Converter
from ticdc_spark.topics.writer import FORMATS, RecordWriter, recording


@click.command("convert")
@source_options
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Choice(sorted({*PROTOCOLS, *ALIASES})),
    callback=lambda _context, _parameter, name: canonical(name),
    help="The protocol to write.",
)
@click.option("--out", "folder", required=True, type=click.Path(path_type=Path), help="A new folder for the result.")
@click.option(
    "-O",
    "options",
    multiple=True,
    callback=client_options,
    metavar="KEY=VALUE",
    help="An option of the protocol to write, as TiCDC names it; time-zone is for TIMESTAMP.",
)
@click.option("--format", "kind", type=click.Choice(FORMATS), default="parquet", show_default=True)
@click.option("--segment-rows", type=click.IntRange(min=1), default=500_000, show_default=True)
@click.option("--segment-bytes", type=click.IntRange(min=1), default=128 << 20, show_default=True)
def command(
    target: str,
    folder: Path,
    options: dict[str, str],
    kind: Any,
    segment_rows: int,
    segment_bytes: int,
    **source: Any,
) -> None:
    """Write the events of a recorded topic (a folder or a file) or of Kafka topics in another protocol.

    Topics and partitions stay the same; offsets begin again at 0. Messages that cannot be read, or not be written in
    the other protocol, are skipped and counted on standard error; the exit code is then 1. The new files appear all at
    once at the end: a conversion that stops leaves none. It stops if a TIMESTAMP needs --source-timezone. Avro schemas
    are registered with --schema-registry, under TiCDC's subject names {schema}_{table}.
    """
    counts: Counter[str] = Counter()
    read = make_source(**source)
    with (
        _encoder(target, options, read.schema_registry, read.schema_registry_options) as to,
        opened(read) as start,
        recording(folder),
        report_rejects(counts),
    ):
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            raise UsageError(f"--out {folder} holds files already; a conversion goes to a new folder")
        with _all_or_nothing(folder) as hidden:
            writer = RecordWriter(hidden, kind, segment_rows, segment_bytes)
            written = 0
            converter = Converter(start.reader.tables_of, target, to)
            for message in _converted(start, converter):
                if isinstance(message, Rejected):
                    if _NO_ZONE in message.reason:
                        raise UsageError(f"{message.reason}; nothing was written, give --source-timezone")
                    counts[message.reason] += 1
                    continue
                writer.write(message)
                written += 1
            writer.finish()
    unsent = " and ".join(
        noun(number, kind, "DDL" if kind == "DDL" else "") for kind, number in converter.unsent.items()
    )
    what = f"{count(written)} messages in {count(writer.files)} files"
    click.echo(f"converted {start.protocol} to {target}: {what}" + (f"; no message for {unsent}" if unsent else ""))
    if counts:
        raise click.exceptions.Exit(1)


_NO_ZONE = "TIMESTAMP without "
"""Part of every protocol's error about a missing time zone, without which every row of the table would be skipped."""


@contextmanager
def _all_or_nothing(folder: Path) -> Iterator[Path]:
    """Give a hidden folder inside ``folder``; move its files to ``folder`` if nothing fails."""
    hidden = folder / ".unfinished"
    try:
        shutil.rmtree(hidden, ignore_errors=True)  # left by a conversion that was killed
        hidden.mkdir()
        yield hidden
        for path in sorted(hidden.iterdir()):
            path.rename(folder / path.name)
    except OSError as error:
        raise EnvironmentFault(f"{error.filename or folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


@contextmanager
def _encoder(
    target: str, options: dict[str, str], registry: str | None, registry_options: dict[str, str]
) -> Iterator[Encoder]:
    if registry is None or not PROTOCOLS[target].traits.registry:
        yield target_encoder(target, options)
        return
    with open_registry(registry, registry_options, create=True) as schemas:
        yield target_encoder(target, options, schemas)


def _converted(source: Opened, converter: Converter) -> Iterator[Message | Rejected]:
    with meter("converted", source.total) as show:
        for at, message in enumerate(source.messages, 1):
            for found in source.reader.read(message):
                yield from converter.convert(found)
            show(at)
    for found in source.reader.finish():
        yield from converter.convert(found)
    yield from converter.flush()
