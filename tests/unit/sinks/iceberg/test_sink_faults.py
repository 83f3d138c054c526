"""What fails inside Spark, as errors of this package: whose fault it is stands at the end of a worker's traceback."""

import re
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from ticdc_spark import sinks
from ticdc_spark.errors import DecisionNeeded, SinkFault, SourceFault, TicdcSparkError
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.spark.tasks import UNREADABLE, UnreadableRows

FRAME = '  File "/srv/lake/a/project/.venv/lib/python3.11/site-packages/ticdc_spark/spark/tasks.py", line 28, in run'
JAVA = (
    "\n\n\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)"
)


@pytest.mark.parametrize("frames", [1, 100])
@pytest.mark.parametrize(
    ("last", "kind", "message"),
    [
        ("ticdc_spark.errors.SourceFault: a.jsonl, line 2: truncated", SourceFault, "a.jsonl, line 2: truncated"),
        (f"ticdc_spark.errors.MessageError: {UNREADABLE}: no int", UnreadableRows, f"{UNREADABLE}: no int"),
        ("ticdc_spark.errors.MessageError: no int", SinkFault, "rows cannot be written: Job aborted"),
    ],
)
def test_a_workers_error_is_known_however_long_its_traceback_is(
    frames: int, last: str, kind: type[TicdcSparkError | UnreadableRows], message: str
) -> None:
    text = "\n".join(["Job aborted: Traceback (most recent call last):", *[FRAME] * frames, last]) + JAVA
    with pytest.raises(kind) as raised, faults("rows cannot be written"):
        raise PySparkException(text)
    assert str(raised.value).startswith(message)
    assert (len(str(raised.value)) < 2100 and "handlePythonException" not in str(raised.value)) or kind is SinkFault


@pytest.mark.parametrize(
    ("missing", "bundle"),
    [
        ("software/amazon/awssdk/services/s3/model/S3Exception", "iceberg-aws-bundle"),
        ("com/azure/core/X", "iceberg-azure"),
    ],
)
def test_a_client_of_a_store_that_is_missing_is_named(missing: str, bundle: str) -> None:
    text = f"Cannot initialize FileIO: Missing org.x.S3FileIO [java.lang.NoClassDefFoundError: {missing}]"
    with pytest.raises(SinkFault, match=bundle) as raised, faults("the catalog"):
        raise PySparkException(text)
    assert "spark.jars.packages" in str(raised.value)
    with pytest.raises(SinkFault) as other, faults("the catalog"):
        raise PySparkException("NoClassDefFoundError: org/apache/x")
    assert "bundle" not in str(other.value)


@pytest.mark.parametrize(
    ("reason", "whose"),
    [
        ("RESTException: unable to find valid certification path to requested target", "the catalog's"),
        ("software.amazon.awssdk.x: the trustAnchors parameter must be non-empty", "the object store's"),
    ],
)
def test_a_certificate_that_java_does_not_trust_is_an_error_that_says_whose(reason: str, whose: str) -> None:
    with pytest.raises(SinkFault, match=f"authority of {whose} certificate.*javax.net.ssl.trustStore"), faults("x"):
        raise PySparkException(reason)


@pytest.mark.parametrize(
    ("what", "file"),
    [
        ("Failed to open input stream for file", "/srv/lake/shop/t/metadata/00001-a.metadata.json"),
        ("Location does not exist", "s3://bucket/lake/shop/t/metadata/00001-a.metadata.json"),
    ],
)
def test_a_warehouse_that_was_moved_needs_a_decision(what: str, file: str) -> None:
    text = f"org.apache.iceberg.exceptions.NotFoundException: {what}: {file}: File {file} does not exist\n\tat x"
    with pytest.raises(DecisionNeeded) as raised, faults("the change log cannot be created"):
        raise PySparkException(text)
    assert str(raised.value).startswith(f"the catalog refers to {file}, which does not exist: the file was removed")
    with pytest.raises(SinkFault), faults("rows cannot be read"):
        raise PySparkException(text.replace(".metadata.json", ".parquet"))


def test_no_message_shows_the_name_of_a_table_as_python_does() -> None:
    sources = Path(sinks.__file__).parent.rglob("*.py")
    name = r"(?:table|source|old|new|to\.table|what\.source)"
    raw = re.compile(rf'(?:faults|Fault|Needed)\(\s*f"[^"\n]*\{{{name}\}}')
    assert [file.name for file in sources if raw.search(file.read_text(encoding="utf-8"))] == []
