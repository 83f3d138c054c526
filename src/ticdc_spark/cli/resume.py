"""``ticdc-spark resume``."""

from pathlib import Path

import click

from ticdc_spark.config.load import load_job
from ticdc_spark.operate.requests import clear, resume, taken_when


@click.command("resume")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("tables", metavar="[SCHEMA.TABLE]...", nargs=-1)
@click.option("--table", "more", multiple=True, metavar="SCHEMA.TABLE", help="The same as an option; may be repeated.")
@click.option("--all", "every", is_flag=True, help="Every quarantined table.")
@click.option(
    "--clear-diverged", is_flag=True, help="Clear the diverged mark of tables that you have looked at; resume nothing."
)
def command(job_file: Path, tables: tuple[str, ...], more: tuple[str, ...], every: bool, clear_diverged: bool) -> None:
    """Resume quarantined tables.

    A running job takes the request between two batches, any other job when it starts. It then applies the changes that
    waited. A row that still cannot be read is handled by on-reject again: set it to "continue" to skip the row.

    --clear-diverged is for tables that lack a message or a DDL by your decision, once you have looked at them. They no
    longer count as diverged, but as unverified. A table that diverges later is marked again.
    """
    tables = (*tables, *more)
    if bool(tables) == every:
        message = "name the tables: SCHEMA.TABLE (as often as needed), or --all"
        raise click.UsageError(message)
    job = load_job(job_file)
    if clear_diverged:
        found = clear(job, tables, every=every)
        for table in found:
            click.echo(
                f"requested: {table.schema}.{table.name} no longer counts as diverged since {table.diverged_since}; "
                f"it had diverged: {table.diverged_why or 'the reason was not kept'}"
            )
    else:
        found = resume(job, tables, every=every)
        for table in found:
            click.echo(
                f"requested: {table.schema}.{table.name} resumes from commitTs {table.applied}; "
                f"it was quarantined: {table.quarantined}"
            )
    if found:
        click.echo(taken_when(job))
    else:
        click.echo("no table has diverged" if clear_diverged else "no table is quarantined")
