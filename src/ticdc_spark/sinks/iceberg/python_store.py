"""PyIceberg's access to an S3 store, with what it does not pass on to pyarrow."""

import os

from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from ticdc_spark.sinks.iceberg.python_catalog import STORE_AUTHORITY


class StoreFileIO(PyArrowFileIO):
    """Sends a small file in one request instead of three.

    Trusts the authorities of ``AWS_CA_BUNDLE``, which neither PyIceberg nor pyarrow read.
    """

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        made = super()._initialize_s3_fs(netloc)
        again, (options,) = made.__reduce__()  # all its options, as pickle gets them
        if "allow_delayed_open" in options:  # older versions of pyarrow lack it
            options |= {"allow_delayed_open": True}
        if authority := os.environ.get(STORE_AUTHORITY):
            options |= {"tls_ca_file_path": authority}
        return again(options)


def small_writes(io: FileIO) -> FileIO:
    """The access to a store, made for many small files if it is pyarrow's; otherwise unchanged."""
    return StoreFileIO(io.properties) if type(io) is PyArrowFileIO else io
