"""``ticdc-spark resnapshot``."""

from pathlib import Path

import click

from ticdc_spark.config.load import load_job


@click.command("resnapshot")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("tables", metavar="SCHEMA.TABLE...", nargs=-1)
@click.option("--table", "more", multiple=True, metavar="SCHEMA.TABLE", help="The same as an option; may be repeated.")
def command(job_file: Path, tables: tuple[str, ...], more: tuple[str, ...]) -> None:
    """Read tables anew from the source while the others go on, from the job's next run on.

    It cures tables that are unverified, diverged or quarantined, or that somebody changed or dropped in the lake.
    Readers see a table as it was until its new rows are there. The job file names the source under [snapshot]; the job
    must not be running.
    """
    tables = (*tables, *more)
    if not tables:
        message = "name the tables: SCHEMA.TABLE (as often as needed)"
        raise click.UsageError(message)
    job = load_job(job_file)
    from ticdc_spark.operate.resnapshot import resnapshot

    resnapshot(job, tables)
    for table in tables:
        click.echo(f"{table} will be read in full when the job runs")
