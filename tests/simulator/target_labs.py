"""Laboratories of ``spark_lab`` over other targets than Iceberg's own catalog, for the command line:

    python -m tests.simulator --lab tests.simulator.target_labs:postgres --steps 25 --seeds 0-9

Each starts its servers once, in this process.
"""

from __future__ import annotations

from functools import cache

from tests.simulator.broker import Broker
from tests.simulator.delta_target import DeltaTarget
from tests.simulator.faults import Injector
from tests.simulator.iceberg_target import RestTarget
from tests.simulator.mysql_target import OPTIONS, MysqlTarget
from tests.simulator.postgres_target import PostgresTarget
from tests.simulator.seams import Clock, Lab, LabMaker
from tests.simulator.spark_lab import lab_over, servers
from tests.support.mariadb_server import running
from tests.support.postgres_server import running_postgres
from tests.support.rest_catalog import RestCatalog


@cache
def _rest() -> LabMaker:
    found = servers()
    server = RestCatalog(found.folder / "rest", str(found.folder / "rest" / "lake"), {})
    server.start()
    found.stack.callback(server.stop)
    return lab_over(found.spark, found.folder, lambda _: RestTarget(found.spark, server))


@cache
def _mysql() -> LabMaker:
    found = servers()
    (folder := found.folder / "mariadb").mkdir()
    server = found.stack.enter_context(running(folder, *OPTIONS))
    return lab_over(None, found.folder, lambda _: MysqlTarget(server))


@cache
def _postgres() -> LabMaker:
    found = servers()
    server = found.stack.enter_context(running_postgres())
    return lab_over(None, found.folder, lambda _: PostgresTarget(server))


def rest(broker: Broker, clock: Clock, injector: Injector) -> Lab:
    """Iceberg in a REST catalog, one commit for all tables of a batch."""
    return _rest()(broker, clock, injector)


def delta(broker: Broker, clock: Clock, injector: Injector) -> Lab:
    """Delta tables in a folder."""
    found = servers()
    make = lab_over(found.spark, found.folder, lambda place: DeltaTarget(found.spark, place))
    return make(broker, clock, injector)


def mysql(broker: Broker, clock: Clock, injector: Injector) -> Lab:
    """MariaDB."""
    return _mysql()(broker, clock, injector)


def postgres(broker: Broker, clock: Clock, injector: Injector) -> Lab:
    """PostgreSQL."""
    return _postgres()(broker, clock, injector)
