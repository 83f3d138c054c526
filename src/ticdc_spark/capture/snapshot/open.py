"""Opens the reader that a job file names."""

from ticdc_spark.capture.snapshot.base import SnapshotReader
from ticdc_spark.capture.snapshot.database import DatabaseReader
from ticdc_spark.capture.snapshot.dump import DumpReader
from ticdc_spark.config.job import SnapshotKeys


def open_reader(keys: SnapshotKeys) -> SnapshotReader:
    """The reader of the section ``[snapshot]``. Raises: UsageError, SourceFault"""
    if keys.path is not None:
        return DumpReader(keys.path, keys.commit_ts)
    assert keys.upstream is not None, "the job file was checked"
    return DatabaseReader(keys.upstream)
