"""Detect that tasks wait while a cluster runs no executor. Spark itself waits forever, without a message."""

from concurrent.futures import Future, wait

from pyspark import SparkContext

from ticdc_spark.background import in_background

TIMEOUT = 3.0
"""Seconds for the JVM to answer."""


class ExecutorProbe:
    """Call it for one sentence if tasks wait without an executor; ``""``: there is one, or the JVM does not answer.

    The question runs in its own thread, so that a busy JVM does not block the caller.
    """

    def __init__(self) -> None:
        self._asked: Future[str] | None = None

    def __call__(self, timeout: float = TIMEOUT) -> str:
        """Ask, unless an earlier question is still open."""
        if self._asked is None:
            self._asked = in_background(_starved, "executor-probe")
        wait([self._asked], timeout=timeout)
        if not self._asked.done():
            return ""
        asked, self._asked = self._asked, None
        return "" if asked.exception() is not None else asked.result()


def _starved() -> str:
    context = SparkContext._active_spark_context
    if context is None or (context.master or "").startswith("local"):
        return ""
    if not context.statusTracker().getActiveStageIds():
        return ""
    executors = len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1  # the driver is one of them
    if executors > 0:
        return ""
    return (
        f"{context.master} runs no executor of this job, and tasks wait for one. Start workers again, or find what "
        "uses their cores; the job then resumes by itself"
    )
