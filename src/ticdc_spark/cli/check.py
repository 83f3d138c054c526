"""``ticdc-spark check``."""

from pathlib import Path

import click

from ticdc_spark.cli.output.text import noun
from ticdc_spark.config.job import Job
from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import redact
from ticdc_spark.errors import DecisionNeeded


@click.command("check")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--quick", is_flag=True, help="Do not start Spark, so do not check its master and the catalog.")
@click.option(
    "--deep", is_flag=True, help="Look for what will stop the job, in waiting DDL and in all unread messages."
)
def command(job_file: Path, quick: bool, deep: bool) -> None:
    """Check a job file and everything that it names.

    Checks folders, the state and its owner, brokers, topics, protocol, registry and keys of tables. Then checks the
    rights in a database, Java, Spark's master, the catalog, and tables of other jobs there. Changes nothing. Prints a
    line for each.

    Exits with 0, or with the code of the first check that failed. Code 1: something is broken. Code 2: the job file is
    wrong. Code 4: you must decide: another process runs the job, or a table has no key.

    With --deep it lists each stop ahead, with the line of the job file that decides it. A stop is a DDL that needs a
    decision, a table without a key, rows without a schema, or a message that cannot be read. DDL that the job has read
    but not applied counts too. It reads about 10,000 messages a second, without Spark. It exits with 4 if there is a
    stop.
    """
    job = load_job(job_file)
    click.echo(f"ok      job file   {job.file}")
    # Imported late: Spark takes a second to import, and an error in the job file should be reported at once.
    from ticdc_spark.replicate.run.preflight import checks

    code = 0
    for one in checks(job, spark=not quick):
        state = "ok    " if one.error is None else "FAILED"
        click.echo(redact(f"{state}  {one.what:<9}  {one.found}"))
        if one.error is not None:
            code = code or one.error.exit_code
    if deep and not code:
        code = _look_ahead(job)
    click.get_current_context().exit(code)


def _look_ahead(job: Job) -> int:
    """Print what would stop a job; returns the exit code."""
    from ticdc_spark.operate.ahead import look_ahead
    from ticdc_spark.replicate.state.store import progress_of

    ahead = look_ahead(job, progress_of(job))
    read = f"{noun(ahead.messages, 'message')} read, {noun(ahead.rows, 'row')} of {noun(ahead.tables, 'table')}"
    click.echo(f"{'STOPS ' if ahead.stops else 'ok    '}  ahead      {read}; {noun(len(ahead.stops), 'stop')} ahead")
    for stop in ahead.stops:
        click.echo(redact(f"  - {stop.what}\n    decide: {stop.line}"))
    return DecisionNeeded.exit_code if ahead.stops else 0
