"""Which folders of other tables lie inside a location, however they are spelt."""

from pathlib import Path

import pytest

from ticdc_spark.sinks.iceberg.places import places_in, table_places
from ticdc_spark.sinks.upkeep import FilePlace


def is_inside(location: str, other: str) -> bool:
    return bool(places_in(location, [FilePlace("other", other)]))


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "file://localhost", "FILE:", "hdfs:", "hdfs://node:8020"])
@pytest.mark.parametrize("other", ["/lake/s/t", "/lake/s/t/", "/lake/s/t/data", "file:/lake/s/t/in", "//lake//s/t//in"])
def test_a_folder_is_inside_however_both_are_spelt(scheme: str, other: str) -> None:
    assert is_inside(f"{scheme}/lake/s/t", other)
    assert is_inside(f"{scheme}/lake/s/t/", other)


@pytest.mark.parametrize(
    ("location", "other"),
    [
        ("s3://bucket/lake/t", "s3a://bucket/lake/t/in"),
        ("s3a://bucket/lake/t/", "s3n://bucket/lake/t"),
        ("s3://bucket", "s3a://bucket/lake"),
        ("s3://bucket/", "s3a://bucket"),
        ("s3://bucket/lake//t", "s3://bucket/lake/t/in"),
        ("gs://bucket/a b", "gs://bucket/a%20b/in"),
        (
            "abfss://box@account.dfs.core.windows.net/t",
            "wasbs://box@account.blob.core.windows.net/t/in",
        ),
        ("file:/lake/s/../t", "/lake/t/in"),
        ("/", "/lake"),
    ],
)
def test_stores_have_several_schemes_and_folders_several_spellings(location: str, other: str) -> None:
    assert is_inside(location, other)


@pytest.mark.parametrize(
    ("location", "other"),
    [
        ("/lake/s/t", "/lake/s/t2"),
        ("/lake/s/t", "/lake/s"),
        ("/lake/s/t", "/lake/s/u/t"),
        ("s3://bucket/lake/t", "s3://other/lake/t"),
        ("s3://bucket/lake/t", "gs://bucket/lake/t"),
        ("s3://bucket/lake/t", "/lake/t"),
        ("s3://bucket/lake/t", "s3://bucket/lake/T"),
    ],
)
def test_a_folder_beside_or_above_is_not_inside(location: str, other: str) -> None:
    assert not is_inside(location, other)


def test_a_link_is_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "lake" / "t").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    assert is_inside(f"{tmp_path}/lake/t", f"file:{tmp_path}/link/t/in")


def test_a_table_has_files_where_its_metadata_says() -> None:
    properties = {"write.data.path": "s3://b/data", "write.metadata.path": "s3://b/meta", "write.merge.mode": "x"}
    places = table_places("t", "s3://b/t/", properties, "s3://b/old/metadata/1.metadata.json")
    assert {place.owner for place in places} == {"t"}
    assert {place.location for place in places} == {
        "s3://b/t/",
        "s3://b/t/data",
        "s3://b/t/metadata",
        "s3://b/data",
        "s3://b/meta",
        "s3://b/old/metadata",
    }
    assert places_in("s3://b/t/data", places), "a location that is another table's folder of data"
