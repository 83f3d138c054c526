"""``ticdc-spark convert``: a recorded topic or Kafka topics into a recorded topic of another protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ticdc_spark.cli.meter import meter
from ticdc_spark.cli.rejects import told
from ticdc_spark.cli.source import Opened, client_options, make_source, opened, source_options
from ticdc_spark.cli.text import count
from ticdc_spark.clients.registry_file import open_registry
from ticdc_spark.errors import UsageError
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
    help="An option of the protocol to write, by TiCDC's name; time-zone is that of TIMESTAMP.",
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

    Topics and partitions stay, offsets are counted anew. What cannot be read, or not be written in the other protocol,
    is left out and counted on standard error; the exit code is then 1. Avro's schemas are registered with
    --schema-registry, under subjects that TiCDC's rule {schema}_{table} gives.
    """
    counts: Counter[str] = Counter()
    with (
        _encoder(target, options, source["schema_registry"]) as to,
        opened(make_source(**source)) as start,
        recording(folder),
        told(counts),
    ):
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            raise UsageError(f"--out {folder} holds files already; a conversion goes to a new folder")
        writer = RecordWriter(folder, kind, segment_rows, segment_bytes)
        written = 0
        for message in _converted(start, Converter(start.reader, target, to)):
            if isinstance(message, Rejected):
                counts[message.reason] += 1
                continue
            writer.write(message)
            written += 1
        writer.finish()
    click.echo(f"converted {start.protocol} to {target}: {count(written)} messages in {count(writer.files)} files")
    if counts:
        raise click.exceptions.Exit(1)


@contextmanager
def _encoder(target: str, options: dict[str, str], registry: str | None) -> Iterator[Encoder]:
    if registry is None or not PROTOCOLS[target].traits.registry:
        yield target_encoder(target, options)
        return
    with open_registry(registry, create=True) as schemas:
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


__all__ = ["command"]
