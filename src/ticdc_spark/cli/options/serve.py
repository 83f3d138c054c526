"""``--serve``: the status page of a job or changefeed, which another process may run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ticdc_spark.cli.signals import until_interrupted
from ticdc_spark.errors import UsageError

if TYPE_CHECKING:
    from ticdc_spark.config.values import Address
    from ticdc_spark.operate.page.changes import Changes
    from ticdc_spark.operate.serving import Routes

log = logging.getLogger(__name__)
LISTEN = "127.0.0.1:9466"
_REST = 1.0


def _address(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Address | None:
    from ticdc_spark.config.values import address_of

    try:
        return None if value is None else address_of(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no HOST:PORT, such as {LISTEN}") from error


def serve_option(what: str) -> Callable[[Any], Any]:
    """Make the option ``--serve``. ``what``: the first words of its help."""
    return click.option(
        "--serve",
        is_flag=False,
        flag_value=LISTEN,
        callback=_address,
        metavar="[HOST:PORT]",
        help=f"{what}. Without an address: {LISTEN}.",
    )


def serve_page(address: Address, routes: Routes, changes: Changes, token: str | None) -> None:
    """Serve a page until Ctrl-C. Raises: UsageError if others reach the address and there is no token"""
    from ticdc_spark.operate.serving import is_private, serving, url_of

    if not is_private(address, token):
        cure = f"serve it to this machine alone, at {LISTEN}, or set [metrics] token in a job file"
        raise UsageError(f"--serve {address.host}:{address.port}: others reach it, and there is no token; {cure}")
    with serving(address, routes, "--serve", token) as place, until_interrupted() as rest:
        log.info("page: %s", url_of(place))
        while rest(_REST):
            pass
        changes.close()
