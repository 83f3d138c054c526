"""Opens Spark: the one place that names Maven coordinates and Spark's settings.

Coordinates follow the running ``pyspark.__version__``. Settings under ``[spark]`` override every default here;
only jars, packages and Java options are added to ours.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal, TypeAlias

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ticdc_spark.background import in_background
from ticdc_spark.config.secrets import is_secret_key, redact
from ticdc_spark.errors import EnvironmentFault, UsageError
from ticdc_spark.spark.session.class_archive import ClassArchive, archive_for, making, using
from ticdc_spark.spark.session.first_task import try_task
from ticdc_spark.spark.session.jars import fetched_jars, ivy_folder, resolve_jars
from ticdc_spark.spark.session.shipping import bare_python, is_shipped, shipped
from ticdc_spark.spark.session.standalone import check_master, is_standalone

Part: TypeAlias = Literal["iceberg", "delta", "kafka", "sqlite"]

_PER_SPARK: dict[str, dict[Part, str]] = {
    "4.0": {
        "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        "delta": "io.delta:delta-spark_2.13:4.0.1",
    },
    "4.1": {
        "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "delta": "io.delta:delta-spark_4.1_2.13:4.1.0",
    },
}
_SQLITE = "org.xerial:sqlite-jdbc:3.47.1.0"
_OLDEST_JAVA = 17
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CLASS_PATH = "spark.driver.extraClassPath"
_AT_START = ("spark.master", "spark.driver.", "spark.jars", "spark.submit.")
"""Settings that the JVM needs at its start, secret or not."""


def coordinates(*parts: Part) -> tuple[str, ...]:
    """Maven coordinates of the named parts for the running Spark.

    Raises: UsageError if this Spark is not supported, or the part has no release for it.
    """
    series = ".".join(pyspark.__version__.split(".")[:2])
    known = _PER_SPARK.get(series)
    if known is None:
        raise UsageError(f"pyspark {pyspark.__version__} is not supported; install {' or '.join(_PER_SPARK)}.x")
    every: dict[Part, str] = {
        **known,
        "sqlite": _SQLITE,
        "kafka": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}",
    }
    for part in parts:
        if part not in every:
            raise UsageError(f"{part} has no release for pyspark {pyspark.__version__}")
    return tuple(every[part] for part in parts)


def open_session(
    app_name: str, options: Mapping[str, str], packages: Sequence[str], *, archive: Path | None = None
) -> SparkSession:
    """Start Spark, or join the session that is already open in this process.

    ``options`` are Spark's own (``spark.…``); ``packages`` are Maven coordinates. They are fetched once into the cache
    folder (``TICDC_SPARK_IVY``, or ``spark.jars.ivy``, or ``~/.cache/ticdc-spark/ivy``). Later starts read the jars
    from there without the network. On a cluster the tasks also get this process's Python packages (``shipping``). Under
    ``spark-submit`` the JVM already runs, so it must have the jars and packages itself.
    ``archive``: when the JVM ends, it writes an archive of its classes to this file.

    Raises: UsageError if an option is not Spark's, or Java is missing or too old; EnvironmentFault if a package cannot
    be fetched, Spark does not start, or a cluster starts no task that can run this package.
    """
    for name in options:
        if not name.startswith("spark."):
            raise UsageError(f"[spark] {name!r}: the names are Spark's own and start with 'spark.'")
    settings = {**_defaults(options), **options}
    local = is_local(settings)
    joins = SparkContext._active_spark_context is not None
    ships = not local and not _has_jvm() and is_shipped(settings)
    if "spark.pyspark.python" in settings:
        os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    elif ships:
        os.environ["PYSPARK_PYTHON"] = bare_python()
    elif local or "PYSPARK_PYTHON" not in os.environ:
        # Otherwise the workers use the first python3 on the path, which may lack pyarrow.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    hint = ""
    with as_file(files("ticdc_spark.spark.session") / "log4j2.properties") as logging:
        if not _has_jvm():
            found, archived = _settings_of_jvm(settings, packages, ships=ships)
            used = archived.find() if archive is None else None
            hint = "" if used is None else f". If Java crashed, delete {used}, from which it starts"
            classes = using(used) if archive is None else making(archive)
            own = settings.get(_JAVA_OPTIONS, "")
            settings |= found
            settings[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={logging.as_uri()} {classes} {own}".strip()
        builder = SparkSession.builder.appName(app_name)
        for name, value in settings.items():
            builder = builder.config(name, value)
        try:
            _launch_jvm(settings)
            spark = builder.getOrCreate()
        except pyspark.errors.PySparkException as error:
            raise EnvironmentFault(f"Spark did not start: {error}{hint}") from error
        except Py4JError as error:
            # The text continues with stack traces of the JVM.
            why = next(filter(None, str(error).splitlines()[1:]), str(error)).strip(" :")
            if is_standalone(settings["spark.master"]) and "stopped SparkContext" in why:
                why = f"the process that listens there does not respond like a master of Spark {pyspark.__version__}"
            raise EnvironmentFault(
                f"Spark did not start with [spark] spark.master {settings['spark.master']!r}: {why}"
            ) from error
    if not joins:
        _prepare(spark)
    return spark


def _prepare(spark: SparkSession) -> None:
    """Prepare a new application. Raises: EnvironmentFault if its executors cannot run a task"""
    # Files on a disk get no hidden .crc file beside them: for each file that Hadoop creates on a disk, it starts a
    # process, which takes longer than to write a small one.
    file_systems = spark._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
    disk = spark._jvm.java.net.URI("file:///")  # type: ignore[union-attr]
    file_systems.get(disk, spark.sparkContext._jsc.hadoopConfiguration()).setWriteChecksum(False)
    if not runs_here(spark):
        try_task(spark)


def _settings_of_jvm(
    settings: Mapping[str, str], packages: Sequence[str], *, ships: bool
) -> tuple[dict[str, str], ClassArchive]:
    """Further settings that a JVM needs at its start, and the archive of its classes.

    Raises: UsageError, EnvironmentFault
    """
    java = check_java()
    if is_standalone(settings["spark.master"]):
        check_master(settings["spark.master"])
    found = _jar_settings(settings, packages, is_local(settings))
    class_path = found.get(_CLASS_PATH, settings.get(_CLASS_PATH, ""))
    archive = archive_for(ivy_folder(settings), java, settings.get(_JAVA_OPTIONS, ""), class_path)
    return (found | shipped(settings) if ships else found), archive


def archive_of(options: Mapping[str, str], packages: Sequence[str]) -> ClassArchive:
    """The archive of the classes of such a session. Raises: UsageError, EnvironmentFault"""
    return _settings_of_jvm({**_defaults(options), **options}, packages, ships=False)[1]


def _launch_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM, if there is none, in a separate session. So signals to our process group, such as from GNU
    timeout, do not reach it. It ends with this process, because its pipe breaks.
    """
    if _has_jvm():
        return
    # Any user of the machine can list the JVM's arguments. Secrets are sent later, through the gateway.
    shown = [one for one in settings.items() if one[0].startswith(_AT_START) or not _is_secret(*one)]
    conf = SparkConf(loadDefaults=False).setAll(shown)
    # In a thread, so that Ctrl-C ends the wait, and not the launch: a JVM that is left half-way would never end.
    launch = in_background(lambda: launch_gateway(conf, {"start_new_session": True}), "launch-jvm")  # type: ignore[no-untyped-call]
    gateway = launch.result()
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm
    # Spark 4 creates a folder for artifacts in the current directory, and does not remove it after clearing it.
    artifacts = Path("artifacts").absolute()
    with suppress(PermissionError):  # the directory may be one that the user may not enter
        if not artifacts.exists():
            gateway.jvm.java.io.File(str(artifacts)).deleteOnExit()


def _is_secret(name: str, value: str) -> bool:
    return is_secret_key(name) or redact(value) != value


def stop_session(spark: SparkSession, patience: float = 60.0) -> int:
    """Stop Spark and its JVM, so that the next session of this process can use other jars and another heap size.

    ``patience``: the most seconds until the JVM must have ended. Returns: the JVM's exit code; 0: it is not ours
    """
    gateway = SparkContext._gateway
    spark.stop()
    if gateway is None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return 0
    gateway.shutdown()
    jvm = getattr(gateway, "proc", None)
    code = 0
    if jvm is not None:
        jvm.stdin.close()
        code = int(jvm.wait(timeout=patience))
    SparkContext._gateway = None
    SparkContext._jvm = None
    return code


def jvm_is_gone() -> bool:
    """Whether the JVM that this process started has ended. Then only a new process helps."""
    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def is_local(options: Mapping[str, str]) -> bool:
    """Whether a session with these options runs in this machine's JVM alone."""
    return options.get("spark.master", "local").startswith("local")


def starts_at_once(options: Mapping[str, str], packages: Sequence[str]) -> bool:
    """Whether such a session starts a JVM of its own, takes no executors of a cluster, and fetches no jars."""
    wanted = _wanted(options, packages)
    return is_local(options) and not _has_jvm() and not (wanted and fetched_jars(wanted, options) is None)


def runs_here(spark: SparkSession) -> bool:
    """Whether tasks run on this machine, so that they see the driver's files."""
    master = spark.sparkContext.master or ""
    return master.startswith("local") and "cluster" not in master


def cores(master: str) -> int:
    """How many tasks a local master runs at once: ``local[4]`` → 4, ``local[*]`` → the cores we may use."""
    given = re.match(r"local(?:\[(\d+|\*)[,\]])?", master)
    count = given.group(1) if given else None
    if given and count is None:
        return 1
    if count is not None and count != "*":
        return int(count)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _defaults(options: Mapping[str, str]) -> dict[str, str]:
    master = options.get("spark.master", "local[*]")
    settings = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Rows are large (a message may have megabytes), so batches for Python are smaller than Spark's default.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        # Only a full collection returns memory. Without one the heap grows for hours, however little of it is live.
        "spark.cleaner.periodicGC.interval": "5min",
    }
    if master.startswith("local"):
        # Spark's default of 200 partitions is for clusters: on few cores most would be empty tasks for each table.
        settings["spark.sql.shuffle.partitions"] = str(cores(master))
        settings["spark.driver.memory"] = f"{_driver_memory(_machine_memory())}m"
        # A host name that cannot be resolved must not stop a laptop.
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's limit."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        total = min(total, int(text))
    return total


def _driver_memory(machine: int) -> int:
    """Megabytes of heap for a local Spark: a third of the memory, since Python workers need theirs; 1 to 8 GB."""
    return max(1024, min(8192, machine // 3 // 2**20))


def _has_jvm() -> bool:
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def check_java() -> str:
    """Check that there is a Java which Spark can use. Returns: what it says of its version. Raises: UsageError"""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    need = f"Spark needs Java {_OLDEST_JAVA} or 21"
    if java is None:
        raise UsageError(f"{need}, but there is no 'java' on the path: install it or set JAVA_HOME")
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"{need}, but {java} does not run ({error}): install it or set JAVA_HOME") from error
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    if found and int(found.group(1)) < _OLDEST_JAVA:
        raise UsageError(f"{need}, but {java} is Java {found.group(1)}: install it or set JAVA_HOME")
    return "".join(line for line in output.splitlines() if not line.startswith("Picked up "))  # JAVA_TOOL_OPTIONS


def _wanted(settings: Mapping[str, str], packages: Sequence[str]) -> list[str]:
    """Maven coordinates that a session needs."""
    return [*packages, *filter(None, settings.get("spark.jars.packages", "").split(","))]


def _jar_settings(settings: Mapping[str, str], packages: Sequence[str], local: bool) -> dict[str, str]:
    """The settings for the packages' jars.

    A local Spark gets them on its class path, because ``spark.jars`` would copy each of them at every start. (Seconds
    to a session, measured on two cores with Iceberg and Kafka: packages 9.8, jars 6.8, class path 6.0.)
    """
    wanted = _wanted(settings, packages)
    if not wanted:
        return {}
    found = resolve_jars(wanted, settings)
    name, separator = (_CLASS_PATH, os.pathsep) if local else ("spark.jars", ",")
    own = settings.get(name)
    return {name: separator.join([*([own] if own else []), *found]), "spark.jars.packages": ""}
