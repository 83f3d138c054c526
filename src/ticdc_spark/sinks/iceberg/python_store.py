"""PyIceberg's access to an S3 store whose certificate has an authority of one's own."""

import os

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from ticdc_spark.sinks.iceberg.python_catalog import STORE_AUTHORITY


class AuthorityFileIO(PyArrowFileIO):
    """Trusts the authorities of ``AWS_CA_BUNDLE``, which neither PyIceberg nor pyarrow read."""

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        made = super()._initialize_s3_fs(netloc)
        again, (options,) = made.__reduce__()  # all its options, as pickle gets them
        return again(options | {"tls_ca_file_path": os.environ[STORE_AUTHORITY]})
