"""The archive of the JVM's classes, and Java's options for it."""

from __future__ import annotations

import shlex
from pathlib import Path

from ticdc_spark.spark.session.class_archive import archive_for, making, using


def test_each_java_and_class_path_has_an_archive_of_its_own(tmp_path: Path) -> None:
    every = {
        archive_for(tmp_path, java, options, jars)
        for java in ("17.0.15", "21.0.2")
        for options in ("", "-XX:+UseZGC")
        for jars in ("", "a.jar:b.jar")
    }
    assert len(every) == 8
    assert archive_for(tmp_path, "17.0.15", "", "") in every


def test_an_archive_is_used_only_while_it_is_whole(tmp_path: Path) -> None:
    archive = archive_for(tmp_path / "a folder", "17.0.15", "", "")
    assert archive.find() is None
    archive.folder.mkdir(parents=True)
    for content in b"first", b"another":
        (archive.folder / "made").write_bytes(content)
        kept = archive.keep(archive.folder / "made")
        assert archive.find() == kept
        assert list(archive.folder.iterdir()) == [kept]
    kept.write_bytes(b"anoth")
    assert archive.find() is None
    (archive.folder / f"{archive.key}-5 (copy).jsa").write_bytes(b"anoth")
    (archive.folder / f"{archive.key}-8.jsa").symlink_to("gone")
    assert archive.find() is None


def test_folders_may_have_spaces(tmp_path: Path) -> None:
    file = tmp_path / "a folder" / "x.jsa"
    assert shlex.split(using(file))[0] == f"-XX:SharedArchiveFile={file}"
    assert shlex.split(making(file))[0] == f"-XX:ArchiveClassesAtExit={file}"
    assert using(None) == ""
