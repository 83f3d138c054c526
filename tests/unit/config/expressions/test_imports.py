"""Threads of tables import the modules of expressions when they need them, several at a time."""

import subprocess
import sys

IMPORTS = """
import threading
faults = []
def load(module):
    try:
        __import__(module)
    except BaseException as error:
        faults.append(error)
names = ("generated", "assignment", "compile", "nodes")
threads = [threading.Thread(target=load, args=(f"ticdc_spark.config.expressions.{name}",)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not faults, faults
"""


def test_threads_that_import_modules_at_the_same_time_get_whole_ones() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_package_imports_none_of_its_modules() -> None:
    script = (
        "import sys, ticdc_spark.config.expressions as it; print([m for m in sys.modules if f'{it.__name__}.' in m])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
