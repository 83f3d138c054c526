"""``ticdc-spark dead-letters``."""

import base64
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import msgspec

from ticdc_spark.cli.output.event_lines import plain
from ticdc_spark.cli.output.logging import redacted_children
from ticdc_spark.cli.output.text import noun
from ticdc_spark.config.job import Job
from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import redact
from ticdc_spark.operate.dead_letters import at_place, export, opened
from ticdc_spark.operate.replay import replay
from ticdc_spark.operate.requests import taken_when
from ticdc_spark.replicate.state.store import read_state
from ticdc_spark.sinks.dead_letters import readable
from ticdc_spark.sinks.states import open_state

_SHOWN = 120
"""How many characters of a key and of a value a line shows."""


def _place(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, int, int] | None:
    if value is None:
        return None
    topic, *numbers = value.rsplit("/", 2)
    if not topic or len(numbers) != 2 or not all(one.isdigit() for one in numbers):
        raise click.BadParameter(f"{value!r} is no TOPIC/PARTITION/OFFSET, such as shop/0/1042")
    return topic, int(numbers[0]), int(numbers[1])


@click.command("dead-letters")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print each as one JSON object a line; bytes are base64.")
@click.option("--show", "place", callback=_place, metavar="TOPIC/PARTITION/OFFSET", help="Show one message, decoded.")
@click.option(
    "--export", "topic", metavar="TOPIC", help="Send all, or the one that --show names, to a topic of the job's Kafka."
)
@click.option("--replay", "again", is_flag=True, help="Have all, or the one of --show, applied once the cause is gone.")
def command(job_file: Path, as_json: bool, place: tuple[str, int, int] | None, topic: str | None, again: bool) -> None:
    """List the messages and rows that a job could not read, or skipped by skip-messages.

    Shows topic/partition/offset, stage and reason of each. The stage is decode (a message), schema.table (a row of it)
    or skip-messages. The job may be running. An Iceberg sink needs Spark for this, a MySQL sink does not.

    Exported messages keep key and value, and get the headers __connect.errors.topic, .partition, .offset, .stage,
    .connector.name and .exception.message.

    A replayed row is applied unless its key has a newer change. The job does it between two batches, or when it starts.
    A diverged table stays marked until you clear the mark: resume --clear-diverged.
    """
    job = load_job(job_file)
    from ticdc_spark.sinks.registry import sink_kind

    with redacted_children():
        letters = sink_kind(job).read_dead_letters(job)
    found = letters if place is None else at_place(letters, *place)
    if topic is not None:
        click.echo(f"{noun(export(job, found, topic), 'message')} sent to {topic}")
        return
    if again:
        request, refused = replay(job, found)
        for why in refused:
            click.echo(redact(why))
        if not request.rows:
            click.echo("there is nothing to replay")
            return
        click.echo(f"requested: {noun(len(request.rows), 'row')} of {', '.join(map('.'.join, request.tables))}")
        click.echo(taken_when(job))
        return
    protocol = "" if place is None else _protocol(job)
    for letter in found:
        click.echo(_json(letter) if as_json else redact(_lines(letter, whole=place is not None)))
        for line in opened(letter, protocol) if protocol and not as_json else ():
            click.echo(redact(plain(line)))
    if not as_json and place is None:
        click.echo(noun(len(found), "dead letter"))


def _protocol(job: Job) -> str:
    """The protocol of the job file, or the one that the job has detected; ``""`` if unknown."""
    if job.source.protocol is not None:
        return job.source.protocol
    with closing(open_state(job.sink, job.name, job.spark)) as states:
        progress = read_state(states).progress
    return "" if progress is None else progress.protocol


def _lines(letter: Mapping[str, Any], *, whole: bool) -> str:
    place = f"{letter['topic']}/{letter['partition']}/{letter['offset']}"
    head = f"{place}  batch {letter['batch']}, {letter['at']:%Y-%m-%d %H:%M:%S}, {letter['stage']}: {letter['reason']}"
    return "\n".join(
        [head, *(f"    {name} {readable(letter[name], None if whole else _SHOWN)}" for name in ("key", "value"))]
    )


def _json(letter: Mapping[str, Any]) -> str:
    plain = {name: value for name, value in letter.items() if name not in ("key", "value", "at")}
    for name in ("key", "value"):
        plain[name] = None if letter[name] is None else base64.b64encode(letter[name]).decode()
    return msgspec.json.encode({**plain, "at": letter["at"].isoformat()}).decode()
