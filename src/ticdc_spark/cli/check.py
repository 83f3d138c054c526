"""``ticdc-spark check``."""

from pathlib import Path

import click

from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import redact


@click.command("check")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--quick", is_flag=True, help="Do not start Spark: the master and the catalog are not asked.")
def command(job_file: Path, quick: bool) -> None:
    """Check a job file and everything that it names.

    Looks at folders, the state and its owner, brokers, topics, protocol, registry, keys of tables, Java, Spark's master
    and the catalog. Changes nothing. Prints a line for each, and exits with 0, or with the code of the first that
    failed: 1 something is broken, 2 the job file is wrong, 4 you must decide: another process has the job, or a table
    has no key.
    """
    job = load_job(job_file)
    click.echo(f"ok      job file   {job.file}")
    # Only now: Spark takes a second to import, and a wrong job file should be reported at once.
    from ticdc_spark.replicate.run.preflight import checks

    code = 0
    for one in checks(job, spark=not quick):
        state = "ok    " if one.error is None else "FAILED"
        click.echo(redact(f"{state}  {one.what:<9}  {one.found}"))
        if one.error is not None:
            code = code or one.error.exit_code
    click.get_current_context().exit(code)
