"""The first task on a cluster: it shows that the cluster provides executors, and that they can run this package."""

import importlib
import re
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import wait
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ticdc_spark.background import in_background
from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.spark.session.shipping import bare_python
from ticdc_spark.spark.session.standalone import ASK, is_standalone, offered

_PATIENCE = 60.0
"""Seconds until a task must run. Spark itself would wait for executors forever."""
_OWN_PATIENCE = "spark.scheduler.maxRegisteredResourcesWaitingTime"
"""If a user sets this Spark setting to more, the cluster gets that time: it may have to add machines first."""
_GROUP = "ticdc-spark-first-task"
_DRIVER_ONLY = (
    "ticdc_spark.cli",
    "ticdc_spark.operate",
    "ticdc_spark.replicate",
    "ticdc_spark.changefeed",
    "ticdc_spark.sinks.iceberg.state",  # imports PyIceberg, which tasks do not have
    "ticdc_spark.sinks.iceberg.python_store",  # so does this one
)
_LAZY = (
    "confluent_kafka",
    "psycopg",
    "pymysql",
    "ticdc_spark.clients.registry",
    "ticdc_spark.clients.mysql",
    "ticdc_spark.clients.postgres",
)
"""Modules that tasks only import when needed."""


def try_task(spark: SparkSession) -> None:
    """Run a task that imports what a job's tasks import.

    Raises: EnvironmentFault if the cluster starts no task within a minute, or its Python lacks a module.
    """
    context = spark.sparkContext
    modules = [*_modules(), *_LAZY]

    def run() -> None:
        context.setJobGroup(_GROUP, "ticdc-spark: a task that imports the package", interruptOnCancel=True)
        context.parallelize([modules], 1).mapPartitions(_import_all).collect()

    task = in_background(run, "first-task")
    patience = _patience(context)
    deadline = time.monotonic() + patience
    while not task.done():
        wait([task], timeout=0.2)
        if time.monotonic() > deadline and not task.done() and not _has_started(context):
            why = _no_executor(context, patience)
            context.cancelJobGroup(_GROUP)
            raise EnvironmentFault(why)
    try:
        task.result()
    except (PySparkException, Py4JError) as error:
        raise EnvironmentFault(_cannot_run(context, str(error))) from error


def _modules() -> list[str]:
    """Modules of this package that a task may need: those imported so far, without the driver's own."""
    return sorted(
        name
        for name, module in sys.modules.items()
        if name.startswith("ticdc_spark.") and not name.startswith(_DRIVER_ONLY) and module is not None
    )


def _import_all(rows: Iterable[Sequence[str]]) -> Iterable[int]:
    for names in rows:
        for name in names:
            importlib.import_module(name)
        yield len(names)


def _patience(context: SparkContext) -> float:
    own = context.getConf().get(_OWN_PATIENCE)
    if not own:
        return _PATIENCE
    jvm: Any = context._jvm
    return max(_PATIENCE, float(jvm.org.apache.spark.network.util.JavaUtils.timeStringAsSec(own)))


def _has_started(context: SparkContext) -> bool:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(_GROUP)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return any(
        stage.numActiveTasks or stage.numCompletedTasks or stage.numFailedTasks for stage in stages if stage is not None
    )


def _no_executor(context: SparkContext, patience: float) -> str:
    conf = context.getConf()
    memory, cores = conf.get("spark.executor.memory", "1g"), conf.get("spark.executor.cores")
    asked = f"{memory} of memory (spark.executor.memory)"
    if cores is not None:
        asked += f" and {cores} cores (spark.executor.cores)"
    master = context.master or ""
    other = f"The log or queue of its resource manager says why. {ASK}"
    why = offered(context) if is_standalone(master) else other
    return (
        f"[spark] spark.master {master!r} started no executor in {patience:.0f} s. "
        f"An executor asks for {asked}. {why}; then start the job again"
    )


def _cannot_run(context: SparkContext, error: str) -> str:
    found = [line.strip() for line in error.splitlines() if re.search(r"Error\b|Exception:|VERSION", line)]
    return (
        f"[spark] spark.master {context.master!r}: its tasks cannot run this package by {context.pythonExec!r}: "
        f"{(found or [error])[-1]}. A machine of the cluster needs {bare_python()} on its path, or "
        "spark.pyspark.python names one that has ticdc-spark"
    )
