"""The command ``ticdc-spark``. Commands are loaded when they are called, so that ``--help`` is quick.

Exit codes: 0 ok, 1 failed, 2 usage, 3 finished but not all is applied, 4 a person must decide, 128 + n signal n.
"""

import signal
from importlib import import_module, metadata
from typing import Any, Literal, cast

import click

from ticdc_spark.errors import EnvironmentFault, TicdcSparkError, os_reason

_COMMANDS = {
    "replicate": "Replicate a changefeed's messages into lake tables.",
    "check": "Check a job file and what it names, before Spark starts.",
    "prepare": "Fetch a job's jars and make its starts quicker.",
    "status": "Show the state of a job, running or not.",
    "resume": "Resume quarantined tables, also while the job runs.",
    "skip": "Skip messages or DDLs that stop a job, also while it runs.",
    "rebuild": "Read tables in full again and swap them in, also while the job runs.",
    "verify": "Compare a job's tables with their source.",
    "upkeep": "Compact a job's tables and thin out their history.",
    "dead-letters": "Show the messages that a job rejected or skipped.",
    "record": "Copy Kafka topics into a recorded topic.",
    "cdc-command": "Print the cdc command that creates a job's changefeed in TiCDC.",
    "changefeed": "Send the changes of a database or of a topic to Kafka as TiCDC does.",
    "inspect": "Print the events of a recorded topic or of Kafka.",
    "convert": "Write a recorded topic or Kafka topics in another protocol.",
    "demo": "Replicate a recorded shop into an Iceberg lake and show it.",
}


class _Commands(click.Group):
    """Loads ``ticdc_spark.cli.<name>.command`` for the command ``name`` (``_`` for ``-``), and prints our errors."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return cast(click.Command, import_module(f"ticdc_spark.cli.{cmd_name.replace('-', '_')}").command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # From the table, as asking the commands themselves would load them all.
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TicdcSparkError as error:
            from ticdc_spark.cli.output.logging import show_error

            show_error(error, verbose=bool(ctx.params.get("verbose")))
            ctx.exit(error.exit_code)
        except click.NoSuchOption as error:
            if error.option_name in (name for option in self.params for name in option.opts):
                name = error.option_name
                where = f"No such option {name!r} here. It goes before the command: ticdc-spark {name} …"
                raise click.NoSuchOption(name, where, ctx=error.ctx) from error
            raise
        except BrokenPipeError:
            raise  # click handles it: the reader of our output has closed the pipe
        except OSError as error:
            from ticdc_spark.cli.output.logging import show_error

            fault = EnvironmentFault(os_reason(error))
            fault.__cause__ = error
            show_error(fault, verbose=bool(ctx.params.get("verbose")))
            ctx.exit(fault.exit_code)
        except KeyboardInterrupt:
            ctx.exit(128 + signal.SIGINT)


def _version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"ticdc-spark {metadata.version('ticdc-spark')}")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version."
)
@click.option("-v", "--verbose", is_flag=True, help="Log more, and print where an error arose.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="TICDC_SPARK_LOG_FORMAT",
    show_default=True,
    help="Write the log for people, or as one JSON object a line. Also TICDC_SPARK_LOG_FORMAT.",
)
def main(verbose: bool, log_format: Literal["text", "json"]) -> None:
    """Change data capture for TiDB and MySQL on Spark.

    Exit codes: 0 ok; 1 failed; 2 wrong usage or job file; 3 finished, but not all is applied; 4 a person must decide.
    """
    from ticdc_spark.cli.output.logging import set_up

    set_up(verbose, log_format)
