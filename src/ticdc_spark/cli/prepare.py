"""``ticdc-spark prepare``."""

from pathlib import Path

import click

from ticdc_spark.cli.output.logging import redacted_children
from ticdc_spark.config.load import load_job


@click.command("prepare")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
def command(job_file: Path) -> None:
    """Fetch a job's jars and archive the classes of its JVM, so that the job starts quicker.

    Takes about a minute, once on each machine. The archive has about 200 MB and lies beside the jars. Jobs with the
    same jars share it. After an upgrade of Java, Spark or a jar, jobs start without it until you run this again.
    """
    job = load_job(job_file)
    from ticdc_spark.replicate.run.open import prepare_spark

    with redacted_children():
        archive = prepare_spark(job)
    click.echo(f"{archive}: {archive.stat().st_size / 1e6:,.0f} MB")
