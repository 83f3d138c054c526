"""``ticdc-spark check``."""

from pathlib import Path

import click

from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import redact


@click.command("check")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
def command(job_file: Path) -> None:
    """Check a job file and what it names, in seconds: folders, lease, brokers, topics, protocol, registry, tables
    to read in full, Java.

    Starts no Spark and changes nothing. Prints a line for each, and exits with 0, or with the code of the first that
    failed: 1 something is broken, 2 the job file is wrong, 4 another process has the job, or a
    table that is to be read in full has no key.
    """
    job = load_job(job_file)
    click.echo(f"ok      job file   {job.file}")
    from ticdc_spark.errors import TicdcSparkError
    from ticdc_spark.replicate.run.preflight import checks

    code = 0
    for one in checks(job):
        state = "ok    " if one.error is None else "FAILED"
        click.echo(redact(f"{state}  {one.what:<9}  {one.found}"))
        if one.error is not None:
            code = code or one.error.exit_code
    from ticdc_spark.sinks.registry import sink_kind
    from ticdc_spark.spark.session.session import check_java, coordinates
    from ticdc_spark.spark.sources.open import parts

    try:
        check_java()
        jars = coordinates(*sink_kind(job).parts(job.sink), *parts(job.source))
        click.echo(f"ok      spark      Java is there; jars: {', '.join(jars)}")
    except TicdcSparkError as error:
        click.echo(redact(f"FAILED  spark      {error}"))
        code = code or error.exit_code
    click.get_current_context().exit(code)
