"""The routes for metrics and health: ``/metrics``, ``/healthz`` and ``/readyz``."""

from http import HTTPStatus
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from ticdc_spark.config.secrets import redact
from ticdc_spark.operate.serving import Answer, Asked, Route, Routes


class Collected(Protocol):
    """The source of metrics and health."""

    def not_ready(self) -> str:
        """Why no work is done; ``""``: work is done."""


def metrics_routes(metrics: Collected) -> Routes:
    """Metrics and health. Health needs no token, but only shows the reason with the token."""
    registry = CollectorRegistry()
    registry.register(metrics)  # type: ignore[arg-type]  # has the methods of a Collector

    def collected(asked: Asked) -> Answer:
        encode, kind = choose_encoder(asked.accept)
        return Answer(body=encode(registry), kind=kind)

    def ready(asked: Asked) -> Answer:
        why = redact(metrics.not_ready())
        said = why if asked.is_known else "not ready"
        status = HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
        return Answer(body=f"{said if why else 'ok'}\n".encode(), status=status)

    return {
        "metrics": Route(answer=collected),
        "healthz": Route(answer=lambda _: Answer(body=b"ok\n"), is_open=True),
        "readyz": Route(answer=ready, is_open=True),
    }
