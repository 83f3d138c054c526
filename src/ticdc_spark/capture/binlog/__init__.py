"""The binlog of a MySQL-compatible server as a source of changes."""

from ticdc_spark.capture.binlog.capture import BinlogCapture

__all__ = ["BinlogCapture"]
