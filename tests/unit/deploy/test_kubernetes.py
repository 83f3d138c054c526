"""The chart and the manifests that were rendered from it: Kubernetes knows every field, and the job file is a job."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from scripts.manifests import CHART, FOLDER, MANIFESTS, header, lint, rendered

from ticdc_spark.config.job import Job
from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import forget

ROOT = Path(__file__).resolve().parents[3]
HELM = shutil.which("helm")
EVERY = ("single-pod.yaml", "executors.yaml")
OF_THE_OPERATOR = ("ServiceMonitor",)
"""Kinds that a cluster does not know by itself."""
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def objects(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))
    return {(each["kind"], each["metadata"]["name"]): each for each in found if each}


def pod(name: str) -> dict[str, Any]:
    found: dict[str, Any] = objects(name)["Deployment", "shop"]["spec"]["template"]["spec"]
    return found


def executor() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(objects("executors.yaml")["ConfigMap", "shop"]["data"]["executor.yaml"])
    return found


@pytest.mark.parametrize("name", EVERY)
def test_the_manifests_are_those_of_the_chart(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8").startswith(header(name)), "run make manifests"
    assert set(MANIFESTS) == set(EVERY) == {path.name for path in FOLDER.iterdir()}


@pytest.mark.skipif(HELM is None, reason="there is no helm on the path")
def test_helm_finds_nothing_wrong_and_makes_these_manifests() -> None:
    assert HELM is not None
    lint(HELM)
    assert {name: rendered(HELM, name) for name in EVERY} == {
        name: (FOLDER / name).read_text(encoding="utf-8") for name in EVERY
    }


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("version", ["1.27", "1.37"])
def test_kubernetes_knows_every_field(name: str, version: str) -> None:
    for (kind, _), each in objects(name).items():
        if kind not in OF_THE_OPERATOR:
            kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("version", ["1.27", "1.37"])
def test_kubernetes_knows_every_field_of_an_executor(version: str) -> None:
    kubernetes_validate.validate(executor(), version, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    wrong = objects("single-pod.yaml")["Deployment", "shop"]
    wrong["spec"]["replica"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def job_of(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    for variable in ("LAKE_ACCESS_KEY", "LAKE_SECRET_KEY", "PAGE_TOKEN", "POD_NAME"):
        monkeypatch.setenv(variable, f"a-value-of-{variable.lower()}")
    file = folder / "job.toml"
    file.write_text(objects(name)["ConfigMap", "shop"]["data"]["job.toml"])
    job = load_job(file)
    forget()
    return job


@pytest.mark.parametrize("name", EVERY)
def test_the_job_file_is_a_job_and_the_probes_ask_where_it_listens(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(name, tmp_path, monkeypatch)
    (container,) = pod(name)["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert job.metrics.listen is not None
    assert (job.metrics.listen.host, job.metrics.listen.port) == ("0.0.0.0", ports["metrics"])
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "metrics"}
    mounted = {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}
    assert {path for path, read_only in mounted.items() if not read_only} == {"/tmp", "/var/lib/ticdc-spark"}
    assert container["args"] == ["replicate", "/etc/ticdc-spark/job.toml"]


def test_one_pod_runs_as_many_tasks_as_it_has_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of("single-pod.yaml", tmp_path, monkeypatch)
    assert job.spark["spark.master"] == f"local[{VALUES['driver']['cores']}]"
    assert {kind for kind, _ in objects("single-pod.yaml")} == {"ConfigMap", "Deployment", "NetworkPolicy", "Service"}


def test_executors_reach_the_driver_where_it_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = job_of("executors.yaml", tmp_path, monkeypatch).spark
    every = objects("executors.yaml")
    service = every["Service", "shop-driver"]["spec"]
    assert service["clusterIP"] == "None"
    assert spark["spark.driver.host"] == "shop-driver.replication.svc"
    ports = {int(spark[key]) for key in ("spark.driver.port", "spark.blockManager.port")}
    assert {each["port"] for each in service["ports"]} == ports
    (_, between) = every["NetworkPolicy", "shop"]["spec"]["ingress"]
    assert {each["port"] for each in between["ports"]} == ports
    selected = between["from"][0]["podSelector"]["matchLabels"]
    for labels in (
        executor()["metadata"]["labels"],
        every["Deployment", "shop"]["spec"]["template"]["metadata"]["labels"],
    ):
        assert selected.items() <= labels.items()
    assert not service["selector"].items() <= executor()["metadata"]["labels"].items()
    assert spark["spark.kubernetes.executor.podTemplateContainerName"] == executor()["spec"]["containers"][0]["name"]
    image = pod("executors.yaml")["containers"][0]["image"]
    assert spark["spark.kubernetes.container.image"] == image


def test_the_page_is_served_with_a_token_that_prometheus_has_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job_of("single-pod.yaml", tmp_path, monkeypatch).metrics.token is None
    assert job_of("executors.yaml", tmp_path, monkeypatch).metrics.token == "a-value-of-page_token"
    (endpoint,) = objects("executors.yaml")["ServiceMonitor", "shop"]["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "shop", "key": "PAGE_TOKEN"}


@pytest.mark.parametrize("name", EVERY)
def test_a_job_has_one_pod_which_has_time_to_end(name: str) -> None:
    deployment = objects(name)["Deployment", "shop"]["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert pod(name)["terminationGracePeriodSeconds"] == 900


def test_no_container_can_do_more_than_write_to_its_volumes() -> None:
    user = int((ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").split("USER ")[1].split(":")[0])
    for each in (pod("single-pod.yaml"), pod("executors.yaml"), executor()["spec"]):
        assert each["securityContext"]["runAsUser"] == user and each["securityContext"]["runAsNonRoot"]
        for container in each["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod("single-pod.yaml")["automountServiceAccountToken"] is False
    assert executor()["spec"]["automountServiceAccountToken"] is False


def test_no_volume_is_mounted_in_one_that_is_read_only() -> None:
    for each in (pod("single-pod.yaml"), pod("executors.yaml"), executor()["spec"]):
        for container in each["containers"]:
            paths = [Path(mount["mountPath"]) for mount in container["volumeMounts"]]
            assert not [path for path in paths if set(path.parents) & set(paths)]
    for each in (pod("executors.yaml"), executor()["spec"]):
        assert {"name": "certificates", "secret": {"secretName": "authorities"}} in each["volumes"]


def test_values_are_checked() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)
    assert set(SCHEMA["properties"]) == {*VALUES, "global"}
    wrongs: list[dict[str, Any]] = [
        {"replicas": 2},
        {"driver": {**VALUES["driver"], "cores": 0}},
        {"driver": {**VALUES["driver"], "memory": "6"}},
        {"image": {"repository": "ticdc-spark", "tag": "latest"}},
        {"spark": {"master": "local[2]"}},
        {"executors": {**VALUES["executors"], "instances": "two"}},
    ]
    for wrong in wrongs:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**VALUES, **wrong}, SCHEMA)


def test_the_values_that_the_page_shows_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text(encoding="utf-8")
    shown = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.S)]
    assert len(shown) == 2
    for each in shown:
        jsonschema.validate({**VALUES, **each}, SCHEMA)
    for variable in ("LAKE_ACCESS_KEY", "LAKE_SECRET_KEY"):
        monkeypatch.setenv(variable, f"a-value-of-{variable.lower()}")
    (tmp_path / "job.toml").write_text(shown[0]["job"])
    load_job(tmp_path / "job.toml")
    forget()


def test_the_chart_is_of_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert f'version = "{chart["version"]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert chart["version"] == chart["appVersion"]
