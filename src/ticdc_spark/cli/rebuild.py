"""``ticdc-spark rebuild``."""

from pathlib import Path

import click

from ticdc_spark.config.load import load_job


@click.command("rebuild")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("tables", metavar="SCHEMA.TABLE...", nargs=-1)
@click.option("--table", "more", multiple=True, metavar="SCHEMA.TABLE", help="The same as an option; may be repeated.")
@click.option(
    "--from",
    "source",
    type=click.Choice(["snapshot", "topic"]),
    default="snapshot",
    show_default=True,
    help="snapshot: the database or the dump that [snapshot] names. topic: the topics of the job.",
)
@click.option(
    "--withdraw", is_flag=True, help="Withdraw the requests to read these tables again, if no read has begun."
)
def command(job_file: Path, tables: tuple[str, ...], more: tuple[str, ...], source: str, withdraw: bool) -> None:
    """Read tables again from the source, beside the old copies, while other tables go on.

    It cures tables that are unverified, diverged or quarantined, or that another user changed or dropped.
    Readers see the old rows of a table until its new rows are there. A running job takes the request between two
    batches, any other job when it starts.

    The rows come from the database or the dump that the job file names under [snapshot]. With --from topic they come
    from the topics, which must still have the table's CREATE or TRUNCATE and everything since. If they do not, the
    table does not change, and `ticdc-spark status` says why.
    """
    tables = (*tables, *more)
    if not tables:
        message = "name the tables: SCHEMA.TABLE (as often as needed)"
        raise click.UsageError(message)
    job = load_job(job_file)
    from ticdc_spark.operate import requests

    if withdraw:
        requests.withdraw(job, tables)
        click.echo(f"withdrawn: {', '.join(tables)}")
        click.echo(requests.taken_when(job))
        return
    requests.rebuild(job, tables, from_topic=source == "topic")
    for table in tables:
        click.echo(f"requested: {table} is read in full" + (" from its topics" if source == "topic" else ""))
    click.echo(requests.taken_when(job))
