"""``make manifests``: writes deploy/kubernetes from the Helm chart, by ``helm template``.

The first line of a manifest is a digest of its chart and values, so that a test can compare them without Helm.
"""

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "ticdc-spark"
FOLDER = ROOT / "deploy" / "kubernetes"
KUBERNETES = "1.33.0"
MANIFESTS = {
    "single-pod.yaml": ["secretName=shop"],
    "executors.yaml": [
        "secretName=shop",
        "pageTokenKey=PAGE_TOKEN",
        "certificatesSecretName=authorities",
        "executors.instances=2",
        "serviceMonitor.enabled=true",
    ],
}
"""A file, and its differences from the chart's own values."""

_OF_HELM = re.compile(r"^# Source: |app.kubernetes.io/managed-by: Helm$")
"""Lines that are wrong if kubectl applies the manifest."""


def header(name: str) -> str:
    """The first lines of a manifest, which describe its input."""
    digest = hashlib.sha256(repr((KUBERNETES, MANIFESTS[name])).encode())
    for file in sorted(path for path in CHART.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(CHART)}\0".encode() + file.read_bytes() + b"\0")
    return (
        f"# made by make manifests from deploy/helm/ticdc-spark, with the digest {digest.hexdigest()}\n"
        f"# helm template shop deploy/helm/ticdc-spark --namespace replication --set {','.join(MANIFESTS[name])}\n"
    )


def lint(helm: str) -> None:
    """Let Helm check the chart. Raises: CalledProcessError"""
    subprocess.run([helm, "lint", "--strict", "--kube-version", KUBERNETES, CHART], check=True)


def rendered(helm: str, name: str) -> str:
    """A manifest as Helm makes it. Raises: CalledProcessError"""
    command = [helm, "template", "shop", CHART, "--namespace", "replication", "--kube-version", KUBERNETES]
    values = ["--set", ",".join(MANIFESTS[name])]
    done = subprocess.run([*command, *values], capture_output=True, text=True, check=True)
    lines = [line.rstrip() for line in done.stdout.splitlines() if not _OF_HELM.search(line)]
    return header(name) + "\n".join(lines) + "\n"


def main() -> int:
    """Write them. Return 1 without Helm."""
    helm = shutil.which("helm")
    if helm is None:
        print("make manifests needs Helm 3: there is no 'helm' on the path", file=sys.stderr)
        return 1
    lint(helm)
    for name in MANIFESTS:
        (FOLDER / name).write_text(rendered(helm, name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
