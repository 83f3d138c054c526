"""A standalone master that is asked: one that is not there, and what its workers have left."""

import socket

import msgspec
import pytest

from tests.support.local_server import free_port
from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.spark.session.standalone import ASK, Page, check_master, describe

WORKER = {"host": "w", "port": 7, "state": "ALIVE", "cores": 4, "coresfree": 1, "memory": 2048, "memoryfree": 512}
OTHER = {"id": "app-1", "name": "etl", "cores": 3}
WAITS = {"id": "app-2", "name": "waits", "cores": 0}
OWN = {"id": "app-3", "name": "ticdc-spark shop", "cores": 0}


def page(workers: list[dict[str, object]], apps: list[dict[str, object]]) -> Page:
    answer = {"url": "spark://m:7077", "status": "ALIVE", "workers": workers, "activeapps": apps, "completedapps": []}
    return msgspec.json.decode(msgspec.json.encode(answer), type=Page)


def test_a_master_that_is_not_there_is_named_with_the_reason_at_once() -> None:
    port = free_port()
    with pytest.raises(EnvironmentFault) as refused:
        check_master(f"spark://127.0.0.1:{port},no-such-host.invalid:7077")
    text = str(refused.value)
    assert f"127.0.0.1:{port}: Connection refused; no-such-host.invalid:7077: " in text
    assert "spark.master" in text


def test_one_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{there.getsockname()[1]}")


def test_what_is_in_use_is_not_shown_as_free_and_its_owner_is_named() -> None:
    text = describe(page([WORKER, {**WORKER, "state": "DEAD", "port": 8}], [OTHER, WAITS, OWN]), "app-3", "driver")
    assert text == (
        f"Free on the workers: w:7 1 of 4 cores and 512 of 2048 MiB. Applications that have cores: 'etl' (3). {ASK}"
    )


def test_executors_that_do_not_connect_are_not_taken_for_a_lack_of_cores() -> None:
    text = describe(page([WORKER], [OTHER, {**OWN, "cores": 2}]), "app-3", "driver")
    assert "gave it 2 cores" in text and "'driver'" in text and "spark.driver.host" in text
    assert ASK not in text


def test_a_master_whose_workers_are_all_lost_has_none() -> None:
    assert describe(page([{**WORKER, "state": "DEAD"}], []), "app-3", "driver") == f"The master has no worker. {ASK}"


def test_of_many_workers_the_first_are_shown() -> None:
    text = describe(page([{**WORKER, "port": port} for port in range(7)], []), "app-3", "driver")
    assert text.count("of 4 cores") == 5 and " and 2 more workers. " in text
