"""Prepares the start of a session: fetches its jars, and archives the classes that it loads."""

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.spark.session.jars import locked
from ticdc_spark.spark.session.session import archive_of, is_local, open_session, stop_session

_EXTENSIONS = "spark.sql.extensions"
_PATIENCE = 900.0
"""Seconds for Java to write the archive; on a busy machine it may need minutes."""
_MAKING = "making-"
_STALE = 86_400.0
"""Seconds after which a folder of an archive in the making was left by a process that was killed."""


def archive_classes(app_name: str, options: Mapping[str, str], packages: Sequence[str]) -> Path:
    """Start Spark as ``open_session`` does with these arguments, do some work, and archive the classes it needed.

    It takes about a minute. A cluster is not asked: only the driver's classes are archived.

    Returns: the archive. Raises: as ``open_session`` does; EnvironmentFault if Java writes no archive.
    """
    alone = {**options, "spark.master": "local[2]"}
    if not is_local(options):
        # The jars of a job on a cluster are not on the class path, and only that can be archived.
        alone = {name: value for name, value in alone.items() if name.startswith(("spark.driver.", "spark.master"))}
        packages = ()
    archive = archive_of(alone, packages)
    archive.folder.mkdir(parents=True, exist_ok=True)
    _remove_stale(archive.folder)
    with TemporaryDirectory(prefix=_MAKING, dir=archive.folder) as making:
        made = Path(making, "classes")
        spark = open_session(app_name, alone, packages, archive=made)
        try:
            _work(spark, Path(making))
        except (PySparkException, Py4JError) as error:
            raise EnvironmentFault(f"Spark does not run: {error}") from error
        finally:
            code = stop_session(spark, _PATIENCE)
        if code or not made.is_file():
            raise EnvironmentFault(
                f"Java ended with code {code} and wrote no whole archive of its classes into {archive.folder}; jobs "
                "start without one. Java archives no class path that has a folder with files, such as SPARK_CONF_DIR"
            )
        with locked(archive.folder.parent):
            return archive.keep(made)


def _remove_stale(folder: Path) -> None:
    for left in folder.glob(f"{_MAKING}*"):
        if time.time() - left.stat().st_mtime > _STALE:
            shutil.rmtree(left, ignore_errors=True)


def _work(spark: SparkSession, folder: Path) -> None:
    """Do what a first batch does: read, run Python, write and merge. Everything is in ``folder``, a local one."""
    place = folder.absolute().as_uri()
    frame = spark.range(100).selectExpr("id", "CAST(id AS STRING) AS text")
    frame.mapInArrow(_same, "id BIGINT, text STRING").write.parquet(f"{place}/rows")
    spark.read.parquet(f"{place}/rows").createOrReplaceTempView("rows")
    catalog = "spark.sql.catalog.prepare"
    spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{catalog}.type", "hadoop")
    spark.conf.set(f"{catalog}.warehouse", f"{place}/lake")
    for form, table in ("iceberg", "prepare.shop.rows"), ("delta", f"delta.`{place}/table`"):
        if form in spark.conf.get(_EXTENSIONS, ""):  # type: ignore[operator]
            spark.sql(f"CREATE TABLE {table} (id BIGINT, text STRING) USING {form}")
            spark.sql(f"INSERT INTO {table} SELECT * FROM rows WHERE id < 50")
            spark.sql(
                f"MERGE INTO {table} AS t USING rows AS r ON t.id = r.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
            spark.sql(f"SELECT count(*) FROM {table}").collect()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
