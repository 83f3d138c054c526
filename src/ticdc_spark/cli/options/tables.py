"""The option ``--table``, which takes the rules of TiCDC's filters."""

import click

from ticdc_spark.config.table_filter import read_patterns


def table_rules(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Read ``--table``. Raises: BadParameter."""
    try:
        return read_patterns(list(value))
    except ValueError as error:
        why = f" ({error.__cause__})" if error.__cause__ else ""
        raise click.BadParameter(f"write schema.table; *, ? and [a-z] are wild, `quoted names` are not{why}") from error
