"""``ticdc-spark upkeep``."""

import time
from pathlib import Path

import click

from ticdc_spark.cli.options.tables import table_rules
from ticdc_spark.cli.output.logging import redacted_children
from ticdc_spark.cli.output.text import noun
from ticdc_spark.config.load import load_job

ORPHAN_DAYS = 3


@click.command("upkeep")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--table", "rules", multiple=True, callback=table_rules, metavar="RULE", help="shop.*, !shop.tmp; repeatable."
)
@click.option(
    "--orphans",
    is_flag=True,
    help=f"Also remove files that no snapshot has and that are older than {ORPHAN_DAYS} days.",
)
def command(job_file: Path, rules: tuple[str, ...], orphans: bool) -> None:
    """Compact the files of a job's tables and expire old snapshots, by the keys of [upkeep].

    A running job does the same by itself. Use this command for jobs with `enabled = false` there, or from cron. The job
    may be running: if both write to a table at once, one of them repeats its work.
    """
    job = load_job(job_file)
    from ticdc_spark.operate.upkeep import look_after

    with redacted_children():
        tables = 0
        for name, done in look_after(job, rules, time.time() - ORPHAN_DAYS * 86400 if orphans else None):
            tables += 1
            click.echo(f"{name[0]}.{name[1]}: {'; '.join(done) if done else 'nothing to do'}")
    click.echo(noun(tables, "table"))
