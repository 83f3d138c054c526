"""``changefeed --status``: the folder of the progress is all that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ticdc_spark.capture.base import CaptureState
from ticdc_spark.changefeed.progress import StateFolder
from ticdc_spark.cli import main


def status(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["changefeed", "--status", *map(str, arguments)])


def stored(folder: Path) -> Path:
    with StateFolder(folder, changefeed="shop", target="b:1/t", protocol="simple", source="s") as owned:
        owned.save(CaptureState(position="p", commit_ts=462_354_011_751_161_858, tables=()), {"t": 3}, 7)
    return folder


def test_the_folder_alone_is_enough(tmp_path: Path) -> None:
    result = status("--state", stored(tmp_path / "here"))
    assert result.exit_code == 0, result.output
    assert "shop" in result.output and "7 sent" in result.output and "t (3 partitions)" in result.output


@pytest.mark.parametrize("ours", ["", '[ticdc-spark]\nstate = "here"\n', "[ticdc-spark]\nchangefeed-id = 'here'\n"])
def test_a_file_without_a_sink_uri_is_enough(tmp_path: Path, ours: str) -> None:
    """Secrets of the file, which another shell may lack, are not looked at."""
    file = tmp_path / "feed.toml"
    file.write_text('[sink]\nschema-registry = "${env:NOT_SET_IN_THIS_SHELL}"\n' + ours)
    stored(tmp_path / ("feed.state" if not ours else "here" if "state" in ours else "here.state"))
    result = status(file)
    assert result.exit_code == 0, result.output
    assert "7 sent" in result.output


def test_nothing_that_names_a_changefeed_is_refused() -> None:
    result = status()
    assert result.exit_code == 2 and "name the changefeed by FILE.toml, --state or --sink-uri" in result.output


def test_a_wrong_name_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "feed.toml"
    file.write_text("[ticdc-spark]\nchangefeed-id = 'a b'\n")
    result = status(file)
    assert result.exit_code == 2 and "changefeed-id" in result.output
