"""The sources by the kind that a job file names: the only list of them."""

from pyspark.sql import SparkSession

from ticdc_spark.config import job
from ticdc_spark.spark.session.session import Part
from ticdc_spark.spark.sources.base import Source
from ticdc_spark.spark.sources.files import FileSource
from ticdc_spark.spark.sources.kafka import KafkaSource


def parts(source: job.Source) -> list[Part]:
    """What Spark must have to read a source."""
    return ["kafka"] if isinstance(source, job.KafkaSource) else []


def open_source(spark: SparkSession, source: job.Source) -> Source:
    """Open the source of a job. Raises: SourceFault, UsageError"""
    if isinstance(source, job.FilesSource):
        return FileSource(spark, source.path)
    return KafkaSource(
        spark,
        source.bootstrap_servers,
        topics=source.topics or (),
        topic_pattern=source.topic_pattern,
        options=source.options,
        starting=source.starting,
    )


__all__ = ["open_source", "parts"]
