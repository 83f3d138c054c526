"""``ticdc-spark skip``."""

from pathlib import Path

import click

from ticdc_spark.config.load import load_job
from ticdc_spark.operate.requests import taken_when
from ticdc_spark.operate.skip import skip, stop_without_effect


@click.command("skip")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("entries", metavar="TOPIC/PARTITION/OFFSET|COMMITTS:SQL...", nargs=-1, required=True)
def command(job_file: Path, entries: tuple[str, ...]) -> None:
    """Skip messages that cannot be read, or DDLs that cannot be replayed.

    Adds them to skip-messages and skip-ddl of the job file, which keeps its comments. A running job reads the changed
    file between two batches. Tables that then lack something count as diverged.

    \b
    ticdc-spark skip shop.toml shop/0/1042
    ticdc-spark skip shop.toml '462354011751161858:ALTER TABLE'
    """
    stop_without_effect(load_job(job_file), entries)
    added = skip(job_file, entries)
    for key, entry in added:
        click.echo(f"added to {key} of {job_file}: {entry}")
    if added:
        click.echo(taken_when(load_job(job_file)))
    else:
        click.echo(f"{job_file} has all of them already")
