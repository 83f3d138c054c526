"""Prepares the start of a session: fetches its jars, and archives the classes that it loads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.spark.session.session import archive_of, is_local, open_session, stop_session

_EXTENSIONS = "spark.sql.extensions"
_PATIENCE = 900.0
"""Seconds for Java to write the archive; on a busy machine it may need minutes."""


def archive_classes(app_name: str, options: Mapping[str, str], packages: Sequence[str]) -> Path:
    """Start Spark as ``open_session`` does with these arguments, do some work, and archive the classes it needed.

    It takes about a minute. A cluster is not asked: only the driver's classes are archived.

    Returns: the archive. Raises: as ``open_session`` does; EnvironmentFault if Java writes no archive.
    """
    local = is_local(options)
    # The jars of a job on a cluster are not on the class path, and only that can be archived.
    alone = {**options, "spark.master": "local[2]"}
    if not local:
        alone = {name: value for name, value in alone.items() if name not in (_EXTENSIONS, "spark.jars.packages")}
    packages = packages if local else ()
    archive = archive_of(alone, packages)
    archive.folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="making-", dir=archive.folder) as making:
        made = Path(making, "classes")
        spark = open_session(app_name, alone, packages, archive=made)
        try:
            _work(spark, Path(making))
        except PySparkException as error:
            raise EnvironmentFault(f"Spark does not run: {error}") from error
        finally:
            stop_session(spark, _PATIENCE)
        if not made.is_file():
            raise EnvironmentFault(f"Java wrote no archive of its classes into {making}; jobs start without one")
        return archive.keep(made)


def _work(spark: SparkSession, folder: Path) -> None:
    """Do what a first batch does: read, run Python, write and merge."""
    frame = spark.range(100).selectExpr("id", "CAST(id AS STRING) AS text")
    frame.mapInArrow(_same, "id BIGINT, text STRING").write.parquet(f"{folder}/rows")
    spark.read.parquet(f"{folder}/rows").createOrReplaceTempView("rows")
    catalog = "spark.sql.catalog.prepare"
    spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{catalog}.type", "hadoop")
    spark.conf.set(f"{catalog}.warehouse", f"{folder}/lake")
    for form, table in ("iceberg", "prepare.shop.rows"), ("delta", f"delta.`{folder}/table`"):
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
