"""The Compose file: versions are pinned, what it mounts is there, and its files are read by our own readers."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import kafka_broker, mariadb_server
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.config.job import KafkaSource
from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import forget

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]


def test_images_are_those_that_the_tests_run() -> None:
    version = re.search(r'^version = "(.+)"', (DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert version is not None
    assert {name: service["image"] for name, service in SERVICES.items()} == {
        "mariadb": f"mariadb:{mariadb_server.VERSION}",
        "kafka": f"apache/kafka:{kafka_broker.VERSION}",
        "topic": f"apache/kafka:{kafka_broker.VERSION}",
        "changefeed": f"ticdc-spark:{version.group(1)}",
        "replicate": f"ticdc-spark:{version.group(1)}",
    }


@pytest.mark.parametrize("name", ["changefeed", "replicate"])
def test_our_containers_write_to_their_volume_alone(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] and service["tmpfs"] == ["/tmp:exec"] and service["cap_drop"] == ["ALL"]
    for mount in service["volumes"]:
        source, target, *mode = mount.split(":")
        if source.startswith("./"):
            assert (DEPLOY / source).is_file() and mode == ["ro"]
            assert target == service["command"][1]
        else:
            assert source in COMPOSE["volumes"] and target == "/var/lib/ticdc-spark"


def test_a_service_waits_for_one_that_says_when_it_is_there() -> None:
    for service in SERVICES.values():
        for other, wanted in service.get("depends_on", {}).items():
            healthy = "healthcheck" in SERVICES[other]
            assert wanted["condition"] == ("service_healthy" if healthy else "service_completed_successfully")


def test_the_job_reads_what_the_changefeed_sends() -> None:
    feed = load_changefeed(DEPLOY / "compose" / "changefeed.toml")
    job = load_job(DEPLOY / "compose" / "shop.toml")
    forget()
    assert isinstance(job.source, KafkaSource)
    kafka = job.source.bootstrap_servers
    assert SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{kafka}"
    assert job.source.topics is not None and list(job.source.topics) == ["shop"]
    assert {"--topic=shop", f"--bootstrap-server={kafka}"} <= set(SERVICES["topic"]["command"])
    text = (DEPLOY / "compose" / "changefeed.toml").read_text(encoding="utf-8")
    assert f'sink-uri = "kafka://{kafka}/shop?protocol={job.source.protocol}' in text
    assert feed is not None
    assert job.metrics.listen is not None
    listens = f"{job.metrics.listen.host}:{job.metrics.listen.port}"
    assert SERVICES["replicate"]["environment"]["TICDC_SPARK_METRICS"] == listens


def test_the_user_of_both_is_the_one_that_the_shop_makes() -> None:
    sql = (DEPLOY / "compose" / "shop.sql").read_text(encoding="utf-8")
    for name in ("changefeed.toml", "shop.toml"):
        text = (DEPLOY / "compose" / name).read_text(encoding="utf-8")
        user = re.search(r"mysql://(\w+):(\w+)@mariadb:3306", text)
        assert user is not None
        assert f"CREATE USER {user.group(1)}@'%' IDENTIFIED BY '{user.group(2)}'" in sql
    assert "./compose/shop.sql:/docker-entrypoint-initdb.d/shop.sql:ro" in SERVICES["mariadb"]["volumes"]
