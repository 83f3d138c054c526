"""What the kind of a catalog means for its tables."""

from __future__ import annotations

import pytest

from ticdc_spark.sinks.iceberg.catalog import catalog_options, longest_comment


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"type": "rest"}, None),
        ({"type": "hive"}, 255),
        ({"type": "glue"}, 255),
        ({"catalog-impl": "org.apache.iceberg.hive.HiveCatalog"}, 255),
        ({"catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog"}, 255),
    ],
)
def test_a_comment_is_cut_to_what_hive_and_glue_store(options: dict[str, str], expected: int | None) -> None:
    assert longest_comment("lake", catalog_options("lake", "/w", options)) == expected
