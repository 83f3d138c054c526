"""The only list of sources, by the kind that a job file names."""

from pyspark.sql import SparkSession

from ticdc_spark.config import job
from ticdc_spark.spark.session.session import Part
from ticdc_spark.spark.sources.base import Source
from ticdc_spark.spark.sources.files import RecordedTopicSource
from ticdc_spark.spark.sources.kafka import KafkaTopicSource
from ticdc_spark.spark.sources.storage import StorageSinkSource
from ticdc_spark.spark.sources.stored_files import open_storage


def parts(source: job.SourceConfig) -> list[Part]:
    """What Spark needs to read a source."""
    return ["kafka"] if isinstance(source, job.KafkaSource) else []


def open_source(spark: SparkSession, source: job.SourceConfig) -> Source:
    """Open the source of a job. Raises: SourceFault, UsageError"""
    if isinstance(source, job.FilesSource):
        return RecordedTopicSource(spark, source.path)
    if isinstance(source, job.StorageSource):
        return StorageSinkSource(spark, open_storage(source), starting=source.starting)
    return KafkaTopicSource(
        spark,
        source.bootstrap_servers,
        topics=source.topics or (),
        topic_pattern=source.topic_pattern,
        options=source.options,
        starting=source.starting,
        group=source.consumer_group,
    )
