"""``ticdc-spark cdc-command``."""

from pathlib import Path

import click

from ticdc_spark.config.load import load_job


@click.command("cdc-command")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--server", default="http://127.0.0.1:8300", show_default=True, help="Address of a TiCDC server.")
def command(job_file: Path, server: str) -> None:
    """Print the `cdc` command that creates the changefeed of a new job in TiCDC.

    For a job with [snapshot] that reads TiDB, or a dump of it. The changefeed starts at TiDB's current time, or at the
    time of the dump. So it sends every change that the first load does not have. Runs nothing and changes nothing:
    review the output, and run it in a shell.
    """
    job = load_job(job_file)
    from ticdc_spark.operate.cdc_command import cdc_command

    click.echo(cdc_command(job, server).script())
