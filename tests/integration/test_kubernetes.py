"""The driver of the rendered manifests starts its executors: Spark itself reads the settings and the pod template."""

import json
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest

from tests.support.kubernetes_api import kubernetes
from tests.support.local_server import free_ports
from tests.unit.deploy.test_kubernetes import job_of, objects

DRIVER = "shop-5f6c-x2"
WORK = """
import json, sys
from ticdc_spark.spark.session.session import coordinates, open_session, stop_session
spark = open_session("shop", json.load(open(sys.argv[1])), coordinates("kafka"))
def count(batches):
    import ticdc_spark
    yield from batches
print("rows", spark.range(0, 1000, 1, 4).mapInArrow(count, "id long").count(), flush=True)
stop_session(spark)
"""


@pytest.mark.slow
def test_the_driver_starts_executors_that_run_its_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dict(job_of("executors.yaml", tmp_path, monkeypatch).spark)
    template = tmp_path / "executor.yaml"
    template.write_text(objects("executors.yaml")["ConfigMap", "shop"]["data"]["executor.yaml"])
    (driver_port,) = free_ports(1)
    with kubernetes(tmp_path / "pods", DRIVER) as (url, cluster):
        settings |= {
            "spark.master": f"k8s://{url}",
            "spark.kubernetes.driver.pod.name": DRIVER,
            "spark.kubernetes.executor.podTemplateFile": str(template),
            "spark.kubernetes.executor.apiPollingInterval": "1s",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.port": str(driver_port),
            "spark.pyspark.python": sys.executable,
            "spark.driver.memory": "1g",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "1",
            # All are on one machine here, so that one port is not enough.
            "spark.blockManager.port": "0",
            "spark.jars.packages": "",
        }
        file = tmp_path / "settings.json"
        file.write_text(json.dumps(settings))
        done = subprocess.run(
            [sys.executable, "-c", WORK, str(file)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert "rows 1000" in done.stdout, f"{done.stdout}\n{done.stderr}\n{cluster.log()}"
    (pod,) = cluster.created
    kubernetes_validate.validate(pod, "1.37", strict=True)
    assert pod["metadata"]["ownerReferences"][0]["name"] == DRIVER
    (container,) = pod["spec"]["containers"]
    assert container["image"] == settings["spark.kubernetes.container.image"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    (rule,) = objects("executors.yaml")["Role", "shop-driver"]["rules"]
    assert cluster.asked >= {("create", "pods"), ("list", "pods"), ("watch", "pods"), ("deletecollection", "pods")}
    assert cluster.asked <= {(verb, resource) for verb in rule["verbs"] for resource in rule["resources"]}
