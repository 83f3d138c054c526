"""What is served of metrics and health: ``/metrics``, ``/healthz`` and ``/readyz``."""

from http import HTTPStatus
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from ticdc_spark.config.secrets import redact
from ticdc_spark.operate.serving import Answer, Asked, Route, Routes


class Collected(Protocol):
    """What metrics and health are asked of."""

    def not_ready(self) -> str:
        """Why no work is done; ``""``: it is."""


def metrics_routes(metrics: Collected) -> Routes:
    """Metrics and health. Health needs no token, and says why only to one who has it."""
    registry = CollectorRegistry()
    registry.register(metrics)  # type: ignore[arg-type]  # a Collector by its form

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
