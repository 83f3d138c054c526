"""``ticdc-spark dead-letters``."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from ticdc_spark.cli.output.logging import redacted_children
from ticdc_spark.cli.output.text import noun
from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import redact

_SHOWN = 120
"""Characters of a key and a value that a line shows."""


@click.command("dead-letters")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print each as one JSON object a line; bytes are base64.")
def command(job_file: Path, as_json: bool) -> None:
    """List the messages and rows that a job could not read, or left out by skip-messages.

    Each with its place, the stage (decode: a message; schema.table: a row of it; skip-messages) and the reason. The job
    may run. An Iceberg sink needs Spark for it, a MySQL sink does not.
    """
    job = load_job(job_file)
    from ticdc_spark.sinks.registry import sink_kind

    with redacted_children():
        found = sink_kind(job).read_dead_letters(job)
    for letter in found:
        click.echo(_json(letter) if as_json else redact(_lines(letter)))
    if not as_json:
        click.echo(noun(len(found), "dead letter"))


def _lines(letter: Mapping[str, Any]) -> str:
    place = f"{letter['topic']}/{letter['partition']}/{letter['offset']}"
    head = f"{place}  batch {letter['batch']}, {letter['at']:%Y-%m-%d %H:%M:%S}, {letter['stage']}: {letter['reason']}"
    return "\n".join([head, *(f"    {name} {_bytes(letter[name])}" for name in ("key", "value"))])


def _bytes(value: bytes | None) -> str:
    if value is None:
        return "none"
    text = value[:_SHOWN].decode("utf-8", errors="backslashreplace")
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    return shown + (f" … ({len(value):,} bytes)" if len(value) > _SHOWN else "")


def _json(letter: Mapping[str, Any]) -> str:
    plain = {name: value for name, value in letter.items() if name not in ("key", "value", "at")}
    for name in ("key", "value"):
        plain[name] = None if letter[name] is None else base64.b64encode(letter[name]).decode()
    return msgspec.json.encode({**plain, "at": letter["at"].isoformat()}).decode()
