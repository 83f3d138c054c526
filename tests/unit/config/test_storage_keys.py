"""``[source]`` with ``kind = "storage"``: what is read, and what is refused with the cure."""

from pathlib import Path

import pytest

from ticdc_spark.config.job import StorageSource
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import UsageError


def written(folder: Path, source: str, more: str = "") -> Path:
    (folder / "feed").mkdir(exist_ok=True)
    file = folder / "job.toml"
    text = '[job]\nname = "shop"\n[sink]\nkind = "iceberg"\nwarehouse = "s3://lake/house"\n"catalog.type" = "rest"\n'
    file.write_text(f'{text}"catalog.uri" = "http://c:1"\n[source]\nkind = "storage"\n{source}\n{more}')
    return file


def read(folder: Path, source: str, more: str = "") -> StorageSource:
    found = load_job(written(folder, source, more)).source
    assert isinstance(found, StorageSource)
    return found


def test_csv_is_read_as_the_changefeed_has_it(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        'path = "feed"\nprotocol = "csv"\nterminator = "\\n"\nlist-interval = "1m"',
        '[source.csv]\ndelimiter = "|"\nquote = ""\nnull = \'\\N\'\ninclude-commit-ts = true\n'
        'binary-encoding-method = "hex"\noutput-old-value = true\n',
    )
    assert found.csv is not None
    assert (found.csv.delimiter, found.csv.quote, found.csv.null) == ("|", "", "\\N")
    assert (found.csv.binary_encoding_method, found.csv.output_old_value) == ("hex", True)
    assert (found.terminator, found.list_interval, found.protocol) == ("\n", 60.0, "canal-json")


def test_options_of_the_store_come_from_spark(tmp_path: Path) -> None:
    more = '[spark]\n"spark.hadoop.fs.s3a.access.key" = "me"\n"spark.master" = "local[1]"\n'
    found = read(tmp_path, 'path = "s3a://bucket/feed"\nprotocol = "canal-json"', more)
    assert found.path == "s3a://bucket/feed"
    assert found.options == {"spark.hadoop.fs.s3a.access.key": "me"}


@pytest.mark.parametrize(
    ("source", "more", "message"),
    [
        ('path = "feed"', "", '[source] protocol: missing; allowed: "canal-json", "csv"'),
        ('path = "feed"\nprotocol = "simple"', "", 'found \'simple\'; allowed: "canal-json", "csv"'),
        ('path = "nowhere"\nprotocol = "csv"', "", "there is no file or folder"),
        ('path = "feed"\nprotocol = "canal-json"', "[source.csv]\n", '[source.csv]: is for protocol = "csv"'),
        (
            'path = "feed"\nprotocol = "csv"',
            "[source.csv]\ninclude-commit-ts = false\n",
            "set it in the changefeed, too",
        ),
        ('path = "feed"\nprotocol = "csv"', '[source.csv]\nquote = "ab"\n', "one character, or an empty string"),
        ('path = "feed"\nprotocol = "csv"', '[source.csv]\nquotes = "a"\n', "did you mean `quote`?"),
        ('path = "feed"\nprotocol = "csv"\nschema-registry = "http://r"', "", 'has no use with kind = "storage"'),
        ('path = "feed"\nprotocol = "csv"\ntopics = ["a"]', "", 'it belongs under [source] with kind = "kafka"'),
        (
            'path = "feed"\nprotocol = "csv"',
            '[spark]\n"spark.master" = "spark://m:7077"\n',
            "is on this machine's disk, and tasks",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, source: str, more: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        load_job(written(tmp_path, source, more))
    assert message in str(error.value)
