"""Queries a standalone master besides Spark's own client: does it respond, and what is free on its workers?"""

import socket
from http.client import HTTPConnection, HTTPException
from typing import Any

import msgspec
from py4j.protocol import Py4JError
from pyspark import SparkContext

from ticdc_spark.errors import EnvironmentFault, os_reason

_PATIENCE = 5.0
"""Seconds until a connection must be accepted, and until the page must respond."""
_SCHEME = "spark://"
_SHOWN = 5
ASK = "Ask for less, add workers, or wait until other applications end"
"""The hint if nothing is free."""


class Worker(msgspec.Struct, frozen=True):
    """A worker, from the master's page."""

    host: str
    port: int
    state: str
    cores: int
    coresfree: int
    memory: int
    memoryfree: int


class Application(msgspec.Struct, frozen=True):
    """A running or waiting application, from the master's page."""

    id: str
    name: str
    cores: int


class Page(msgspec.Struct, frozen=True):
    """The parts of the master's page that show what is free."""

    status: str
    workers: tuple[Worker, ...]
    activeapps: tuple[Application, ...]


def is_standalone(master: str) -> bool:
    """Whether an address belongs to one or more standalone masters."""
    return master.startswith(_SCHEME)


def check_master(master: str) -> None:
    """Check that one of the masters accepts connections. Spark would try for a minute and not report the reason.

    Raises: EnvironmentFault
    """
    refusals = []
    for place in _places(master):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
        except OSError as error:
            refusals.append(f"{place}: {os_reason(error)}")
        else:
            return
    raise EnvironmentFault(
        f"[spark] spark.master {master!r}: no master accepts connections ({'; '.join(refusals)}). Start the master, or "
        "correct the address: the master's page shows it as its URL"
    )


def offered(context: SparkContext) -> str:
    """What is free on the workers, and which other applications use the rest; or that executors cannot connect."""
    for place in _places(context.master or ""):
        try:
            page = _page(context, place)
        except (Py4JError, OSError, HTTPException, msgspec.DecodeError):
            continue  # the master is down, or its page is switched off or needs a login
        if page.status == "ALIVE":  # a standby master knows nothing
            return describe(page, context.applicationId, context.getConf().get("spark.driver.host") or "")
    return f"The master's page, which shows what is free on its workers, does not respond. {ASK}"


def describe(page: Page, own: str, driver: str) -> str:
    """What is free, as text for an error. ``own``: the application that asks; ``driver``: the host of its driver."""
    given = sum(one.cores for one in page.activeapps if one.id == own)
    if given:
        return (
            f"The master gave it {given} cores, but no executor connects to the driver at {driver!r}. See the "
            "executor's log, in the work folder of its worker. If the workers cannot reach that host, set [spark] "
            "spark.driver.host to one that they can reach"
        )
    workers = [worker for worker in page.workers if worker.state == "ALIVE"]
    if not workers:
        return f"The master has no worker. {ASK}"
    each = [
        f"{one.host}:{one.port} {one.coresfree} of {one.cores} cores and {one.memoryfree} of {one.memory} MiB"
        for one in workers[:_SHOWN]
    ]
    more = f" and {len(workers) - _SHOWN} more workers" if len(workers) > _SHOWN else ""
    text = f"Free on the workers: {'; '.join(each)}{more}."
    others = [f"{one.name!r} ({one.cores})" for one in page.activeapps if one.cores and one.id != own]
    if others:
        text += f" Applications that have cores: {', '.join(others[:_SHOWN])}."
    return f"{text} {ASK}"


def _places(master: str) -> list[str]:
    return master.removeprefix(_SCHEME).split(",")


def _page(context: SparkContext, place: str) -> Page:
    """The master's page, at the port that the master names. Its response to clients lacks the cores in use."""
    jvm: Any = context._jvm
    address = jvm.org.apache.spark.rpc.RpcAddress.fromSparkURL(f"{_SCHEME}{place}")
    master = jvm.org.apache.spark.SparkEnv.get().rpcEnv().setupEndpointRef(address, "Master")
    question = getattr(getattr(jvm, "org.apache.spark.deploy.master.MasterMessages$BoundPortsRequest$"), "MODULE$")
    anything = getattr(getattr(jvm, "scala.reflect.ClassTag$"), "MODULE$").Any()
    connection = HTTPConnection(address.host(), master.askSync(question, anything).webUIPort(), timeout=_PATIENCE)
    try:
        connection.request("GET", "/json/")
        return msgspec.json.decode(connection.getresponse().read(), type=Page)
    finally:
        connection.close()
