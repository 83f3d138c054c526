"""Threads of Arrow that code leaves: one that frees a Python buffer while the interpreter ends aborts the process."""

import subprocess
import sys

_CODE = """
import pathlib, numpy, pyarrow
own = pathlib.Path('/proc/self/comm').read_text()
def count():
    # Threads of Arrow have the name of the program; deltalake names its own.
    return [one.read_text() for one in pathlib.Path('/proc/self/task').glob('*/comm')].count(own)
pyarrow.allocate_buffer(64)
before = count()
{code}
print(count() - before)
"""


def printed_with_threads_left(code: str) -> str:
    """Run code in a process of its own. Returns: what it printed, and a line with how many threads it has left."""
    command = [sys.executable, "-c", _CODE.format(code=code)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
